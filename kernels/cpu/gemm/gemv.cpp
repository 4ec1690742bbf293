// One row times a packed matrix. Nothing but the memory that the matrix comes from is slow here, so it is asked for
// well ahead, from several places at once.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include <algorithm>

#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/elementwise/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {

constexpr int64_t kAheadBytes = 4 << 10;  // in each of the blocks

// `NB` blocks of columns. `next` is how far those that are read after them lie behind them.
template <int NB>
HWY_INLINE void blocks_of_columns(const GemvCall& g, int64_t block, int64_t next) {
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;
  const D d;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  constexpr int64_t kAhead = kAheadBytes / 4;
  const int64_t stride = g.k * kLanes;
  const float* HWY_RESTRICT w = g.packed_b + block * stride;
  V even[NB], odd[NB];
#pragma GCC unroll 4
  for (int b = 0; b < NB; ++b) even[b] = odd[b] = hn::Zero(d);
  // The last steps fetch what comes first in the next blocks.
  const int64_t switch_at = std::max<int64_t>(0, g.k - kAhead / kLanes) & ~int64_t{1};
  int64_t i = 0;
  for (int part = 0; part < 2; ++part) {
    const int64_t end = part == 0 ? switch_at : g.k & ~int64_t{1};
    const int64_t ahead = part == 0 ? kAhead : kAhead - stride + next;
    for (; i < end; i += 2) {
      const V x = hn::Set(d, g.a[i]), x2 = hn::Set(d, g.a[i + 1]);
      const float* at = w + i * kLanes;
#pragma GCC unroll 4
      for (int b = 0; b < NB; ++b) {
        __builtin_prefetch(at + b * stride + ahead, 0, 3);
        if constexpr (kLanes == 16) __builtin_prefetch(at + b * stride + ahead + kLanes, 0, 3);
        even[b] = hn::MulAdd(x, hn::Load(d, at + b * stride), even[b]);
        odd[b] = hn::MulAdd(x2, hn::Load(d, at + b * stride + kLanes), odd[b]);
      }
    }
  }
  const V low = hn::Set(d, g.low), high = hn::Set(d, g.high);
#pragma GCC unroll 4
  for (int b = 0; b < NB; ++b) {
    if (i < g.k) even[b] = hn::MulAdd(hn::Set(d, g.a[i]), hn::Load(d, w + b * stride + i * kLanes), even[b]);
    V sum = hn::Add(even[b], odd[b]);
    const int64_t column = (block + b) * kLanes;
    if (g.bias != nullptr) sum = hn::Add(sum, hn::LoadU(d, g.bias + column));
    const int64_t lanes = std::min(kLanes, g.n - column);
    HWY_ALIGN float part[kLanes] = {};
    if (g.start != nullptr && lanes == kLanes) sum = hn::Add(sum, hn::LoadU(d, g.start + column));
    if (g.start != nullptr && lanes < kLanes) {
      std::memcpy(part, g.start + column, static_cast<size_t>(lanes) * sizeof(float));
      sum = hn::Add(sum, hn::Load(d, part));
    }
    sum = AtMost(high, AtLeast(low, sum));
    if (lanes == kLanes) {
      hn::StoreU(sum, d, g.c + column);
    } else {
      hn::Store(sum, d, part);
      std::memcpy(g.c + column, part, static_cast<size_t>(lanes) * sizeof(float));
    }
  }
}

void gemv_blocks(const GemvCall& g, int64_t begin, int64_t end) {
  const int64_t stride = g.k * static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  for (; begin + 4 <= end; begin += 4) blocks_of_columns<4>(g, begin, 4 * stride);
  for (; begin < end; ++begin) blocks_of_columns<1>(g, begin, stride);
}

float scale_columns(const float* from, const float* scale, const float* offset, int64_t n, float* to) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t count = std::min(lanes, n - i);
    const auto x = LoadPart(d, from + i, count);
    StorePart(d, hn::Mul(x, LoadPart(d, scale + i, count)), to + i, count);
    if (offset != nullptr) sum = hn::MulAdd(x, LoadPart(d, offset + i, count), sum);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow {

HWY_EXPORT(gemv_blocks);
HWY_EXPORT(scale_columns);

void gemv(const GemvCall& call, int64_t begin, int64_t end) { HWY_DYNAMIC_DISPATCH(gemv_blocks)(call, begin, end); }

float scale_row(const float* from, const float* scale, const float* offset, int64_t n, float* to) {
  return HWY_DYNAMIC_DISPATCH(scale_columns)(from, scale, offset, n, to);
}

}  // namespace minnow
#endif
