#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include <algorithm>

#include "kernels/cpu/gemm/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// c[0..n) = a[0..k) B, columns [0, n) of rows of B at distance ldb: eight rows of B at a time pass over c.
void row_times_matrix(const float* a, int64_t k, const float* b, int64_t ldb, int64_t n, float* c) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  std::fill(c, c + n, 0.0f);
  int64_t i = 0;
  for (; i + 8 <= k; i += 8) {
    const float* p = b + i * ldb;
    V factor[8];
#pragma GCC unroll 8
    for (int r = 0; r < 8; ++r) factor[r] = hn::Set(d, a[i + r]);
    int64_t j = 0;
    for (; j + lanes <= n; j += lanes) {
      V even = hn::LoadU(d, c + j), odd = hn::Mul(factor[1], hn::LoadU(d, p + ldb + j));
      even = hn::MulAdd(factor[0], hn::LoadU(d, p + j), even);
#pragma GCC unroll 8
      for (int r = 2; r < 8; r += 2) {
        even = hn::MulAdd(factor[r], hn::LoadU(d, p + r * ldb + j), even);
        odd = hn::MulAdd(factor[r + 1], hn::LoadU(d, p + (r + 1) * ldb + j), odd);
      }
      hn::StoreU(hn::Add(even, odd), d, c + j);
    }
    for (; j < n; ++j)
      for (int r = 0; r < 8; ++r) c[j] += a[i + r] * p[r * ldb + j];
  }
  for (; i < k; ++i) {
    const V factor = hn::Set(d, a[i]);
    int64_t j = 0;
    for (; j + lanes <= n; j += lanes)
      hn::StoreU(hn::MulAdd(factor, hn::LoadU(d, b + i * ldb + j), hn::LoadU(d, c + j)), d, c + j);
    for (; j < n; ++j) c[j] += a[i] * b[i * ldb + j];
  }
}

constexpr int64_t kAhead = 1024;  // floats: the next page, which the processor does not ask for by itself

// c[j] = the product of a[0..k) and row j of B, for j in [0, n).
void row_times_rows(const float* a, int64_t k, const float* b, int64_t ldb, int64_t n, float* c) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < n; ++j) {
    const float* p = b + j * ldb;
    V s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
    int64_t i = 0;
    for (; i + 4 * lanes <= k; i += 4 * lanes) {
      for (int64_t at = 0; at < 4 * lanes; at += 16) __builtin_prefetch(p + i + at + kAhead, 0, 3);
      s0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, p + i), s0);
      s1 = hn::MulAdd(hn::LoadU(d, a + i + lanes), hn::LoadU(d, p + i + lanes), s1);
      s2 = hn::MulAdd(hn::LoadU(d, a + i + 2 * lanes), hn::LoadU(d, p + i + 2 * lanes), s2);
      s3 = hn::MulAdd(hn::LoadU(d, a + i + 3 * lanes), hn::LoadU(d, p + i + 3 * lanes), s3);
    }
    for (; i + lanes <= k; i += lanes) s0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, p + i), s0);
    float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
    for (; i < k; ++i) sum += a[i] * p[i];
    c[j] = sum;
  }
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow {

HWY_EXPORT(row_times_matrix);
HWY_EXPORT(row_times_rows);

void gemm_few_rows(const float* a, int64_t lda, const float* b, int64_t ldb, bool transpose_b, int64_t m, int64_t n,
                   int64_t k, float* c, int64_t ldc, ThreadPool* pool) {
  // Columns a piece, so that the pieces of B's rows, or of c, stay in the first-level cache for the next row of A.
  const int64_t piece = transpose_b ? std::max<int64_t>(1, 2048 / std::max<int64_t>(1, k)) : 512;
  const int64_t grain = std::max(piece, 16384 / std::max<int64_t>(1, k * m));
  auto run_columns = [&](int64_t begin, int64_t end, int) {
    for (int64_t j = begin; j < end; j += piece) {
      const int64_t width = std::min(piece, end - j);
      for (int64_t i = 0; i < m; ++i) {
        if (transpose_b) {
          HWY_DYNAMIC_DISPATCH(row_times_rows)(a + i * lda, k, b + j * ldb, ldb, width, c + i * ldc + j);
        } else {
          HWY_DYNAMIC_DISPATCH(row_times_matrix)(a + i * lda, k, b + j, ldb, width, c + i * ldc + j);
        }
      }
    }
  };
  if (pool == nullptr) return run_columns(0, n, 0);
  pool->parallel_for(n, grain, run_columns);
}

}  // namespace minnow
#endif
