#define HWY_TARGET_INCLUDE "kernels/cpu/gemm_integer.cpp"
#include "kernels/cpu/simd.h"
//
#include <cstring>

#include "kernels/cpu/gemm_integer.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D32 = hn::ScalableTag<int32_t>;
using D16 = hn::ScalableTag<int16_t>;
using V32 = hn::Vec<D32>;
using V16 = hn::Vec<D16>;

// Rows of the left matrix times all columns of a panel.
template <int kRows>
HWY_INLINE void integer_tile(const int16_t* a, int64_t pairs, const int16_t* panel, int32_t* c, int64_t ldc) {
  const D32 d32;
  const D16 d16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d32));
  // Each sum is in two parts, as instruction sets differ in where the products of a pair go.
  V32 left[kRows][2], right[kRows][2];
  for (int r = 0; r < kRows; ++r) left[r][0] = left[r][1] = right[r][0] = right[r][1] = hn::Zero(d32);
  for (int64_t p = 0; p < pairs; ++p, panel += 4 * lanes) {
    const V16 b0 = hn::LoadU(d16, panel), b1 = hn::LoadU(d16, panel + 2 * lanes);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      int32_t pair;
      std::memcpy(&pair, a + 2 * (r * pairs + p), sizeof(pair));
      const V16 factor = hn::BitCast(d16, hn::Set(d32, pair));
      left[r][0] = hn::ReorderWidenMulAccumulate(d32, factor, b0, left[r][0], left[r][1]);
      right[r][0] = hn::ReorderWidenMulAccumulate(d32, factor, b1, right[r][0], right[r][1]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    hn::StoreU(hn::RearrangeToOddPlusEven(left[r][0], left[r][1]), d32, c + r * ldc);
    hn::StoreU(hn::RearrangeToOddPlusEven(right[r][0], right[r][1]), d32, c + r * ldc + lanes);
  }
}

void integer_panel_product(const int16_t* a, int64_t m, int64_t pairs, const int16_t* panel, int32_t* c, int64_t ldc,
                           int64_t columns) {
  constexpr int kRows = 4, kMost = 64;
  const int64_t width = 2 * static_cast<int64_t>(hn::Lanes(D32()));
  int32_t spare[kRows * kMost];
  for (int64_t i = 0; i < m;) {
    const int64_t rows = m - i >= kRows ? kRows : 1;
    int32_t* to = columns == width ? c + i * ldc : spare;
    const int64_t step = columns == width ? ldc : kMost;
    if (rows == kRows) {
      integer_tile<kRows>(a + i * 2 * pairs, pairs, panel, to, step);
    } else {
      integer_tile<1>(a + i * 2 * pairs, pairs, panel, to, step);
    }
    if (columns != width)
      for (int64_t r = 0; r < rows; ++r)
        std::memcpy(c + (i + r) * ldc, spare + r * kMost, static_cast<size_t>(columns) * sizeof(int32_t));
    i += rows;
  }
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow {

HWY_EXPORT(integer_panel_product);

void gemm_integer(const int16_t* a, int64_t m, int64_t pairs, const int16_t* panel, int32_t* c, int64_t ldc,
                  int64_t columns) {
  HWY_DYNAMIC_DISPATCH(integer_panel_product)(a, m, pairs, panel, c, ldc, columns);
}

}  // namespace minnow
#endif
