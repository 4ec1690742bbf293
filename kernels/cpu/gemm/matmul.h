// The shapes of matrix products: numpy's rules for ranks, transposes and broadcasting.
#pragma once

#include "kernels/core/kernel.h"

namespace minnow {

struct MatMulShape {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;  // as the matrices are stored
  int64_t a_matrices = 0, b_matrices = 0;         // how many there are
  Shape batch;                                    // of the products
  Shape a_steps, b_steps;                         // along its axes, in matrices; 0 where one serves all
  Shape out;

  int64_t products() const { return batch.count(); }
  // Which of them make product i.
  int64_t a_of(int64_t i) const { return which(i, a_matrices, a_steps); }
  int64_t b_of(int64_t i) const { return which(i, b_matrices, b_steps); }
  int64_t lda() const { return transpose_a ? m : k; }
  int64_t ldb() const { return transpose_b ? k : n; }
  int64_t macs() const { return Shape{products(), m, n, k}.count(); }

 private:
  int64_t which(int64_t i, int64_t matrices, const Shape& steps) const {
    if (matrices == 1) return 0;
    if (matrices == products()) return i;
    int64_t at = 0;
    for (int axis = batch.rank() - 1; axis >= 0; --axis) {
      at += i % batch[axis] * steps[axis];
      i /= batch[axis];
    }
    return at;
  }
};

Status read_matmul(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b, MatMulShape* shape);

// C = A B (+ bias, as long as a row) in any dtype that has no fast way. Integers wrap.
void matmul_plain(const MatMulShape& shape, DType dtype, const void* a, const void* b, const void* bias, void* c,
                  ThreadPool* pool);

inline bool can_multiply(DType t) {
  return t == DType::kF32 || t == DType::kF64 || t == DType::kI32 || t == DType::kU32 || t == DType::kI64 ||
         t == DType::kU64;
}

}  // namespace minnow
