#include "kernels/vision/finish.h"

#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::vision::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void NormalizeRow(const uint8_t* src, const float* mean, const float* factor, float* dst, int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const hn::Rebind<int32_t, decltype(d)> ints;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto x = hn::ConvertTo(d, hn::PromoteTo(ints, hn::LoadU(bytes, src + i)));
    hn::StoreU(hn::Mul(hn::Sub(x, hn::LoadU(d, mean + i)), hn::LoadU(d, factor + i)), d, dst + i);
  }
  for (; i < n; ++i) dst[i] = (static_cast<float>(src[i]) - mean[i]) * factor[i];
}

// Coefficients of 15 bits.
constexpr int kBlue = 3735, kGreen = 19235, kRed = 9798;

// How many pixels the vectors have done.
template <int kFrom, int kTo, bool kSwap>
int64_t ColorVectors(const uint8_t* src, uint8_t* dst, int64_t n) {
  const hn::ScalableTag<uint8_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  using V = hn::Vec<decltype(d)>;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    V a, b, c, alpha = hn::Set(d, uint8_t{255});
    if constexpr (kFrom == 1) {
      a = b = c = hn::LoadU(d, src + i);
    } else if constexpr (kFrom == 3) {
      hn::LoadInterleaved3(d, src + 3 * i, a, b, c);
    } else {
      hn::LoadInterleaved4(d, src + 4 * i, a, b, c, alpha);
    }
    if constexpr (kTo == 1) {
      HWY_ALIGN uint8_t blue[hn::MaxLanes(d)], green[hn::MaxLanes(d)], red[hn::MaxLanes(d)];
      hn::Store(kSwap ? c : a, d, blue);
      hn::Store(b, d, green);
      hn::Store(kSwap ? a : c, d, red);
      for (int64_t k = 0; k < lanes; ++k)  // which the compiler vectorizes
        dst[i + k] = static_cast<uint8_t>((blue[k] * kBlue + green[k] * kGreen + red[k] * kRed + (1 << 14)) >> 15);
    } else if constexpr (kTo == 3) {
      hn::StoreInterleaved3(kSwap ? c : a, b, kSwap ? a : c, d, dst + 3 * i);
    } else {
      hn::StoreInterleaved4(kSwap ? c : a, b, kSwap ? a : c, alpha, d, dst + 4 * i);
    }
  }
  return i;
}

template <int kFrom, int kTo, bool kSwap>
void ColorPixels(const uint8_t* src, uint8_t* dst, int64_t n) {
  for (int64_t i = ColorVectors<kFrom, kTo, kSwap>(src, dst, n); i < n; ++i) {
    const uint8_t* p = src + kFrom * i;
    uint8_t* q = dst + kTo * i;
    const uint8_t a = p[0], b = p[kFrom == 1 ? 0 : 1], c = p[kFrom == 1 ? 0 : 2],
                  alpha = kFrom == 4 ? p[kFrom - 1] : 255;
    if constexpr (kTo == 1) {
      q[0] = static_cast<uint8_t>(((kSwap ? c : a) * kBlue + b * kGreen + (kSwap ? a : c) * kRed + (1 << 14)) >> 15);
    } else {
      q[0] = kSwap ? c : a;
      q[1] = b;
      q[2] = kSwap ? a : c;
      if constexpr (kTo == 4) q[3] = alpha;
    }
  }
}

void Gray3(const uint8_t* src, uint8_t* dst, int64_t n) { ColorPixels<3, 1, false>(src, dst, n); }
void Gray3Swap(const uint8_t* src, uint8_t* dst, int64_t n) { ColorPixels<3, 1, true>(src, dst, n); }
void Gray4(const uint8_t* src, uint8_t* dst, int64_t n) { ColorPixels<4, 1, false>(src, dst, n); }
void Gray4Swap(const uint8_t* src, uint8_t* dst, int64_t n) { ColorPixels<4, 1, true>(src, dst, n); }
void OneToThree(const uint8_t* src, uint8_t* dst, int64_t n) { ColorPixels<1, 3, false>(src, dst, n); }
void OneToFour(const uint8_t* src, uint8_t* dst, int64_t n) { ColorPixels<1, 4, false>(src, dst, n); }
void ThreeToFour(const uint8_t* src, uint8_t* dst, int64_t n) { ColorPixels<3, 4, false>(src, dst, n); }
void FourToThree(const uint8_t* src, uint8_t* dst, int64_t n) { ColorPixels<4, 3, false>(src, dst, n); }
void SwapThree(const uint8_t* src, uint8_t* dst, int64_t n) { ColorPixels<3, 3, true>(src, dst, n); }
void SwapFour(const uint8_t* src, uint8_t* dst, int64_t n) { ColorPixels<4, 4, true>(src, dst, n); }
void SwapThreeToFour(const uint8_t* src, uint8_t* dst, int64_t n) { ColorPixels<3, 4, true>(src, dst, n); }
void SwapFourToThree(const uint8_t* src, uint8_t* dst, int64_t n) { ColorPixels<4, 3, true>(src, dst, n); }

}  // namespace minnow::vision::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow::vision {

HWY_EXPORT(NormalizeRow);
HWY_EXPORT(Gray3);
HWY_EXPORT(Gray3Swap);
HWY_EXPORT(Gray4);
HWY_EXPORT(Gray4Swap);
HWY_EXPORT(OneToThree);
HWY_EXPORT(OneToFour);
HWY_EXPORT(ThreeToFour);
HWY_EXPORT(FourToThree);
HWY_EXPORT(SwapThree);
HWY_EXPORT(SwapFour);
HWY_EXPORT(SwapThreeToFour);
HWY_EXPORT(SwapFourToThree);

ColorRow color_row(int from, int to, bool swap) {
#define MINNOW_COLOR(function) \
  [](const uint8_t* src, uint8_t* dst, int64_t n) { HWY_DYNAMIC_DISPATCH(function)(src, dst, n); }
  if (to == 1 && from == 3) return swap ? MINNOW_COLOR(Gray3Swap) : MINNOW_COLOR(Gray3);
  if (to == 1 && from == 4) return swap ? MINNOW_COLOR(Gray4Swap) : MINNOW_COLOR(Gray4);
  if (from == 1 && to == 3) return MINNOW_COLOR(OneToThree);
  if (from == 1 && to == 4) return MINNOW_COLOR(OneToFour);
  if (from == 3 && to == 3) return swap ? static_cast<ColorRow>(MINNOW_COLOR(SwapThree)) : nullptr;
  if (from == 4 && to == 4) return swap ? static_cast<ColorRow>(MINNOW_COLOR(SwapFour)) : nullptr;
  if (from == 3 && to == 4) return swap ? MINNOW_COLOR(SwapThreeToFour) : MINNOW_COLOR(ThreeToFour);
  if (from == 4 && to == 3) return swap ? MINNOW_COLOR(SwapFourToThree) : MINNOW_COLOR(FourToThree);
#undef MINNOW_COLOR
  return nullptr;
}

void Finish::spread(const float* means, const float* factors, int64_t width) {
  mean.resize(static_cast<size_t>(width * channels));
  factor.resize(mean.size());
  for (size_t i = 0; i < mean.size(); ++i) {
    mean[i] = means[i % static_cast<size_t>(channels)];
    factor[i] = factors[i % static_cast<size_t>(channels)];
  }
}

void finish_row(const Finish& finish, const uint8_t* row, int64_t width, uint8_t* scratch, void* dst) {
  if (finish.color != nullptr) {
    uint8_t* colored = finish.normalize ? scratch : static_cast<uint8_t*>(dst);
    finish.color(row, colored, width);
    row = colored;
  }
  const int64_t n = width * finish.channels;
  if (finish.normalize) {
    HWY_DYNAMIC_DISPATCH(NormalizeRow)(row, finish.mean.data(), finish.factor.data(), static_cast<float*>(dst), n);
  } else if (finish.color == nullptr) {
    std::copy(row, row + n, static_cast<uint8_t*>(dst));
  }
}

}  // namespace minnow::vision
#endif
