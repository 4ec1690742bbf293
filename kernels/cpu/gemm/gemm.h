// Matrix product in f32: C[m,n] = activation(A[m,k] B[k,n] + bias[n] + start[m,n]), B packed beforehand.
#pragma once

#include "kernels/cpu/gemm/activation.h"
#include "kernels/cpu/gemm/micro_kernel.h"

namespace minnow {

// B as the inner loop wants it: [blocks of pack_width() columns][k][column]; the last block is filled up with zeros.
int64_t gemm_packed_floats(int64_t k, int64_t n);
// packed[i * pack_width() + l] = rows[l * stride + i] for i < k and l < lanes <= pack_width(); the other lanes are 0.
void pack_columns(const float* rows, int64_t stride, int64_t k, int64_t lanes, float* packed);
// Packs B[k,n], or with `transposed` its transpose, whose rows of length k follow each other every `ldb` floats, as
// those of B every `ldb`. `packed` is aligned to 64 bytes. The pool may be null.
void gemm_pack_b(const float* b, int64_t ldb, bool transposed, int64_t k, int64_t n, float* packed, ThreadPool* pool);

struct GemmCall {
  const float* a;
  int64_t lda;
  bool transpose_a;  // A is stored as [k,m]
  const float* packed_b;
  const float* bias;  // [n] rounded up to whole blocks, or null
  float* c;
  int64_t ldc;
  void* workspace;               // aligned to 64 bytes
  ThreadPool* pool;              // or null: this thread alone
  const float* start = nullptr;  // [m,n] with rows every ldc, added before the activation, or null

  // For the rows from this one on; A is not transposed.
  GemmCall from_row(int64_t row) const {
    GemmCall call = *this;
    call.a += row * lda;
    call.c += row * ldc;
    if (start != nullptr) call.start += row * ldc;
    return call;
  }
};

// One row of A, with everything as in GemmCall; k numbers of A lie together.
struct GemvCall {
  const float *a, *packed_b, *bias, *start;
  float* c;
  int64_t n, k;
  float low, high;  // bounds of the result
};
// Computes the blocks [begin, end) of pack_width() columns.
void gemv(const GemvCall& call, int64_t begin, int64_t end);

// Multiplies the numbers of a row with their scales, and adds up their products with `offset`, which may be null.
float scale_row(const float* from, const float* scale, const float* offset, int64_t n, float* to);

// Longer sums are cut, or a block of B would not stay in the second-level cache while the rows pass over it.
constexpr int64_t kLongestSum = 4096;

// The plan for one set of sizes.
class Gemm {
 public:
  Gemm() = default;
  Gemm(int64_t m, int64_t n, int64_t k, bool transpose_a, const Activation& activation, int threads,
       Precision precision = Precision::kHigh);

  int64_t workspace_bytes() const;
  void run(const GemmCall& call) const;
  int64_t macs() const { return m_ * n_ * k_; }

 private:
  int64_t band_rows(int64_t band) const;
  void copy_rows(const GemmCall& call, int64_t begin, int64_t end, int64_t k_begin, int64_t k_end, float* to) const;
  void run_row(const GemmCall& call) const;
  void run_item(const GemmCall& call, int64_t part, int64_t band, int group, float* space) const;
  int64_t worker_floats() const;
  int64_t band_floats() const;

  int64_t m_ = 0, n_ = 0, k_ = 0, blocks_ = 0;
  int64_t bands_ = 1, k_parts_ = 1;
  int pack_ = 1, threads_ = 1;
  bool copies_ = false, half_ = false;
  Activation activation_;
  TilePlan plan_;
};

// C[m,n] = A[m,k] B[k,n] for few rows of A and a B that is used as it lies, so that packing it would not pay. The pool
// may be null.
void gemm_few_rows(const float* a, int64_t lda, const float* b, int64_t ldb, bool transpose_b, int64_t m, int64_t n,
                   int64_t k, float* c, int64_t ldc, ThreadPool* pool);
constexpr int64_t kFewRows = 4;

}  // namespace minnow
