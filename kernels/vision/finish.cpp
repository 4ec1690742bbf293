#include "kernels/vision/finish.h"

#include <cstring>

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

// As many pixels as a vector has bytes. `swap`: red and blue change places.
template <int kFrom, int kTo>
HWY_INLINE void ColorBlock(const uint8_t* src, uint8_t* dst, bool swap) {
  const hn::ScalableTag<uint8_t> d;
  using V = hn::Vec<decltype(d)>;
  V a, b, c, alpha = hn::Set(d, uint8_t{255});
  if constexpr (kFrom == 1) {
    a = b = c = hn::LoadU(d, src);
  } else if constexpr (kFrom == 3) {
    hn::LoadInterleaved3(d, src, a, b, c);
  } else {
    hn::LoadInterleaved4(d, src, a, b, c, alpha);
  }
  if (swap) {
    const V first = a;
    a = c;
    c = first;
  }
  if constexpr (kTo == 1) {
    HWY_ALIGN uint8_t blue[hn::MaxLanes(d)], green[hn::MaxLanes(d)], red[hn::MaxLanes(d)];
    hn::Store(a, d, blue);
    hn::Store(b, d, green);
    hn::Store(c, d, red);
    for (size_t k = 0; k < hn::MaxLanes(d); ++k)  // which the compiler vectorizes
      dst[k] = static_cast<uint8_t>((blue[k] * kBlue + green[k] * kGreen + red[k] * kRed + (1 << 14)) >> 15);
  } else if constexpr (kTo == 3) {
    hn::StoreInterleaved3(a, b, c, d, dst);
  } else {
    hn::StoreInterleaved4(a, b, c, alpha, d, dst);
  }
}

template <int kFrom, int kTo>
void ColorPixels(const uint8_t* src, uint8_t* dst, int64_t n, bool swap) {
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<uint8_t>()));
  for (; n >= kLanes; n -= kLanes, src += kFrom * kLanes, dst += kTo * kLanes) ColorBlock<kFrom, kTo>(src, dst, swap);
  if (n <= 0) return;
  uint8_t in[kFrom * kLanes] = {}, out[kTo * kLanes];
  std::memcpy(in, src, static_cast<size_t>(kFrom * n));
  ColorBlock<kFrom, kTo>(in, out, swap);
  std::memcpy(dst, out, static_cast<size_t>(kTo * n));
}

#define MINNOW_PIXELS(Name, from, to) \
  void Name(const uint8_t* src, uint8_t* dst, int64_t n, bool swap) { ColorPixels<from, to>(src, dst, n, swap); }
MINNOW_PIXELS(ThreeToOne, 3, 1)
MINNOW_PIXELS(FourToOne, 4, 1)
MINNOW_PIXELS(OneToThree, 1, 3)
MINNOW_PIXELS(OneToFour, 1, 4)
MINNOW_PIXELS(ThreeToThree, 3, 3)
MINNOW_PIXELS(ThreeToFour, 3, 4)
MINNOW_PIXELS(FourToThree, 4, 3)
MINNOW_PIXELS(FourToFour, 4, 4)
#undef MINNOW_PIXELS

}  // namespace minnow::vision::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow::vision {

HWY_EXPORT(NormalizeRow);
HWY_EXPORT(ThreeToOne);
HWY_EXPORT(FourToOne);
HWY_EXPORT(OneToThree);
HWY_EXPORT(OneToFour);
HWY_EXPORT(ThreeToThree);
HWY_EXPORT(ThreeToFour);
HWY_EXPORT(FourToThree);
HWY_EXPORT(FourToFour);

ColorRow color_row(int from, int to, bool swap) {
#define MINNOW_COLOR(function)                                                    \
  (swap ? static_cast<ColorRow>([](const uint8_t* src, uint8_t* dst, int64_t n) { \
    HWY_DYNAMIC_DISPATCH(function)(src, dst, n, true);                            \
  })                                                                              \
        : [](const uint8_t* src, uint8_t* dst, int64_t n) {                       \
            HWY_DYNAMIC_DISPATCH(function)                                        \
            (src, dst, n, false);                                                 \
          })
  switch (from * 8 + to) {
    case 3 * 8 + 1:
      return MINNOW_COLOR(ThreeToOne);
    case 4 * 8 + 1:
      return MINNOW_COLOR(FourToOne);
    case 1 * 8 + 3:
      return MINNOW_COLOR(OneToThree);
    case 1 * 8 + 4:
      return MINNOW_COLOR(OneToFour);
    case 3 * 8 + 3:
      return swap ? MINNOW_COLOR(ThreeToThree) : nullptr;
    case 3 * 8 + 4:
      return MINNOW_COLOR(ThreeToFour);
    case 4 * 8 + 3:
      return MINNOW_COLOR(FourToThree);
    case 4 * 8 + 4:
      return swap ? MINNOW_COLOR(FourToFour) : nullptr;
    default:
      return nullptr;
  }
#undef MINNOW_COLOR
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
