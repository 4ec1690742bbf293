#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"

#include "kernels/cpu/image/resample.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// kTaps is the number of taps when it is known at compile time, else 0.
template <int kTaps, class D>
HWY_INLINE hn::Vec<D> blend(D d, const ResizeTable& t, const float* src, int64_t i, int64_t inner) {
  const int taps = kTaps > 0 ? kTaps : t.taps;
  const auto tap = [&](int k) { return hn::LoadU(d, src + t.index[static_cast<size_t>(k * t.out + i)] * inner); };
  const auto weight = [&](int k) { return hn::Set(d, t.weight[static_cast<size_t>(k * t.out + i)]); };
  auto sum = hn::Mul(weight(0), tap(0));
  for (int k = 1; k < taps; ++k) sum = hn::MulAdd(weight(k), tap(k), sum);
  return sum;
}

// Rows of `inner` elements are blended.
template <int kTaps>
void resample_rows(const ResizeTable& t, const float* src, float* dst, int64_t inner, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t item = begin; item < end; ++item) {
    const float* from = src + item / t.out * t.in * inner;
    float* to = dst + item * inner;
    const int64_t i = item % t.out;
    int64_t j = 0;
    for (; j + lanes <= inner; j += lanes) hn::StoreU(blend<kTaps>(d, t, from + j, i, inner), d, to + j);
    for (; j < inner; ++j) hn::StoreU(blend<kTaps>(one, t, from + j, i, inner), one, to + j);
  }
}

// The axis is the last one: single elements are gathered.
template <int kTaps>
void resample_elements(const ResizeTable& t, const float* src, float* dst, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), taps = kTaps > 0 ? kTaps : t.taps;
  for (int64_t line = begin; line < end; ++line) {
    const float* from = src + line * t.in;
    float* to = dst + line * t.out;
    int64_t i = 0;
    for (; i + lanes <= t.out; i += lanes) {
      auto sum = hn::Zero(d);
      for (int64_t k = 0; k < taps; ++k) {
        const auto index = hn::LoadU(di, t.index.data() + k * t.out + i);
        sum = hn::MulAdd(hn::LoadU(d, t.weight.data() + k * t.out + i), hn::GatherIndex(d, from, index), sum);
      }
      hn::StoreU(sum, d, to + i);
    }
    for (; i < t.out; ++i) {
      float sum = 0;
      for (int64_t k = 0; k < taps; ++k)
        sum += t.weight[static_cast<size_t>(k * t.out + i)] * from[t.index[static_cast<size_t>(k * t.out + i)]];
      to[i] = sum;
    }
  }
}

template <int kTaps>
void resample_taps(const ResizeTable& t, const float* src, float* dst, int64_t inner, int64_t begin, int64_t end) {
  inner == 1 ? resample_elements<kTaps>(t, src, dst, begin, end) : resample_rows<kTaps>(t, src, dst, inner, begin, end);
}

void resample_any(const ResizeTable& t, const float* src, float* dst, int64_t inner, int64_t begin, int64_t end) {
  switch (t.taps) {
    case 2:
      return resample_taps<2>(t, src, dst, inner, begin, end);
    case 4:
      return resample_taps<4>(t, src, dst, inner, begin, end);
    default:
      return resample_taps<0>(t, src, dst, inner, begin, end);
  }
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow {

HWY_EXPORT(resample_any);

void resample(const ResizeTable& t, const float* src, float* dst, int64_t inner, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(resample_any)(t, src, dst, inner, begin, end);
}

}  // namespace minnow
#endif  // HWY_ONCE
