// Matrix products with weights of bf16, for precision "low": C[m,n] = activation(A[m,k] B[k,n] + bias[n] + start[m,n]).
// Sums, bias, start and result are f32. With few rows nothing but reading the weights takes time, and half the bytes
// take half of it.
#pragma once

#include "kernels/cpu/gemm.h"

namespace minnow {

// B as [blocks of pack_width() columns][k / 2][column][2 of k], the last block and an odd k filled up with zeros: what
// a tile of AMX or a product of pairs wants, and what a shift and a mask make two vectors of f32 of. Rounded to the
// nearest, ties to even; NaN stays NaN. Sizes in floats because it lies where f32 weights would.
int64_t bf16_packed_floats(int64_t k, int64_t n);
void bf16_pack_b(const float* b, int64_t ldb, bool transposed, int64_t k, int64_t n, float* packed, ThreadPool* pool);

// Some rows of A at once, with everything as in GemmCall but a clamp for the activation.
struct Bf16RowsCall {
  const float* a;
  int64_t lda;
  const float* packed_b;
  const float *bias, *start;
  float* c;
  int64_t ldc, n, k;
  float low, high;  // bounds of the result
};
constexpr int kBf16Rows = 4;  // at the most
// Computes the blocks [begin, end) of pack_width() columns.
void bf16_rows(const Bf16RowsCall& call, int rows, int64_t begin, int64_t end);

// The plan for one set of sizes, in place of Gemm where takes() says so.
class Bf16Gemm {
 public:
  // Whether products of m rows are faster, so that it is worth rounding the weights.
  static bool takes(int64_t m, Precision precision) { return precision == Precision::kLow && m > 0 && m <= kBf16Rows; }

  Bf16Gemm() = default;
  Bf16Gemm(int64_t m, int64_t n, int64_t k, const Activation& activation, int threads)
      : m_(m), n_(n), k_(k), threads_(threads), activation_(activation) {}

  void run(const GemmCall& call) const;  // packed_b by bf16_pack_b
  const char* scheme() const { return "gemv_bf16"; }

 private:
  int64_t m_ = 0, n_ = 0, k_ = 0;
  int threads_ = 1;
  Activation activation_;
};

}  // namespace minnow
