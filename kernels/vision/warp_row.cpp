#include "kernels/vision/warp_row.h"

#include <cstdlib>
#include <cstring>

#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::vision::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The compiler vectorizes this.
void AffinePlaces(const int32_t* HWY_RESTRICT dx, const int32_t* HWY_RESTRICT dy, int32_t x0, int32_t y0, int64_t n,
                  int32_t* HWY_RESTRICT x, int32_t* HWY_RESTRICT y, uint16_t* HWY_RESTRICT fraction) {
  for (int64_t i = 0; i < n; ++i) {
    const int32_t px = (x0 + dx[i]) >> kFractionBits, py = (y0 + dy[i]) >> kFractionBits;
    x[i] = px >> kFractionBits;
    y[i] = py >> kFractionBits;
    fraction[i] = static_cast<uint16_t>((py & (kFractions - 1)) * kFractions + (px & (kFractions - 1)));
  }
}

// One channel: the two pixels of both rows are loaded with two more.
int64_t LinearGray(const Picture& src, const PlaceRow& places, int64_t i, int64_t n, uint8_t* dst) {
  const hn::CappedTag<int32_t, 16> d;
  const hn::Rebind<uint16_t, decltype(d)> shorts;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (std::abs(src.stride) * src.height > std::numeric_limits<int32_t>::max()) return i;
  const auto zero = hn::Zero(d), right = hn::Set(d, static_cast<int32_t>(src.width - 4));
  const auto bottom = hn::Set(d, static_cast<int32_t>(src.height - 2));
  const auto stride = hn::Set(d, static_cast<int32_t>(src.stride)), low = hn::Set(d, 255);
  const auto unit = hn::Set(d, kFractions), part = hn::Set(d, kFractions - 1), half = hn::Set(d, 512);
  const auto* base = static_cast<const char*>(src.data);
  HWY_ALIGN int32_t at[hn::MaxLanes(d)], upper[hn::MaxLanes(d)], lower[hn::MaxLanes(d)];
  for (; i + lanes <= n; i += lanes) {
    const auto x = hn::LoadU(d, places.x + i), y = hn::LoadU(d, places.y + i);
    const auto within = [&](auto v, auto most) HWY_ATTR { return hn::Eq(hn::Min(hn::Max(v, zero), most), v); };
    const auto inside = hn::And(within(x, right), within(y, bottom));
    if (!hn::AllTrue(d, inside)) return i;
    // One by one: instructions that gather are slow on many processors.
    hn::Store(hn::Add(hn::Mul(y, stride), x), d, at);
    for (int64_t k = 0; k < lanes; ++k) {
      std::memcpy(upper + k, base + at[k], 4);
      std::memcpy(lower + k, base + at[k] + src.stride, 4);
    }
    const auto a = hn::Load(d, upper), b = hn::Load(d, lower);
    const auto f = hn::PromoteTo(d, hn::LoadU(shorts, places.fraction + i));
    const auto fx = hn::And(f, part), fy = hn::ShiftRight<kFractionBits>(f), gx = hn::Sub(unit, fx);
    const auto second = [&](auto v) HWY_ATTR { return hn::And(hn::ShiftRight<8>(v), low); };
    const auto top = hn::Add(hn::Mul(hn::And(a, low), gx), hn::Mul(second(a), fx));
    const auto below = hn::Add(hn::Mul(hn::And(b, low), gx), hn::Mul(second(b), fx));
    const auto sum = hn::Add(hn::Add(hn::Mul(top, hn::Sub(unit, fy)), hn::Mul(below, fy)), half);
    hn::StoreU(hn::DemoteTo(bytes, hn::ShiftRight<10>(sum)), bytes, dst + i);
  }
  return i;
}

#if HWY_ARCH_X86
// Three or four channels: a product of pairs for each row of a pixel.
template <int kChannels>
HWY_INLINE int64_t LinearPixels(const Picture& src, const PlaceRow& places, int64_t i, int64_t n, uint8_t* dst) {
  const __m128i pairs = kChannels == 3 ? _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1)
                                       : _mm_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1);
  const __m128i half = _mm_set1_epi32(512);
  const char* data = static_cast<const char*>(src.data);
  // Eight bytes are read; and four are written, so that the last pixel is not for this.
  const auto right = static_cast<uint32_t>(std::max<int64_t>(0, src.width - (kChannels == 3 ? 2 : 1)));
  const auto bottom = static_cast<uint32_t>(src.height - 1);
  for (; i < n - 1; ++i) {
    if (static_cast<uint32_t>(places.x[i]) >= right || static_cast<uint32_t>(places.y[i]) >= bottom) return i;
    const char* p = data + places.y[i] * src.stride + int64_t{places.x[i]} * kChannels;
    const int f = places.fraction[i], fx = f % kFractions, fy = f / kFractions;
    const int both = fx << 16 | (kFractions - fx);  // weights of a row
    const auto sums = [&](const char* row, int weight) HWY_ATTR {
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(row));
      return _mm_madd_epi16(_mm_shuffle_epi8(bytes, pairs), _mm_set1_epi32(both * weight));
    };
    const __m128i sum = _mm_add_epi32(_mm_add_epi32(sums(p, kFractions - fy), sums(p + src.stride, fy)), half);
    const __m128i shorts = _mm_packs_epi32(_mm_srli_epi32(sum, 10), sum);
    const int pixel = _mm_cvtsi128_si32(_mm_packus_epi16(shorts, shorts));
    std::memcpy(dst + kChannels * i, &pixel, 4);
  }
  return i;
}

// Four neighbors of a row at a time, two pairs of them: their products with two pairs of weights.
template <int kChannels, int kTaps>
HWY_INLINE int64_t WidePixels(const Picture& src, const PlaceRow& places, const int16_t* weights, int64_t i, int64_t n,
                              uint8_t* dst) {
  const __m128i first = kChannels == 1   ? _mm_setr_epi8(0, -1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1)
                        : kChannels == 3 ? _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1)
                                         : _mm_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1);
  const __m128i second = _mm_add_epi8(first, _mm_set1_epi16(2 * kChannels));
  const auto* data = static_cast<const uint8_t*>(src.data);
  // Four neighbors are read with the bytes behind them, 16 in all; and four bytes are written, so that the last pixels
  // are not for this.
  constexpr int64_t kRead = kTaps - 4 + (16 + kChannels - 1) / kChannels, kBefore = kTaps / 2 - 1;
  const auto right = static_cast<uint32_t>(std::max<int64_t>(0, src.width - kRead + 1));
  const auto bottom = static_cast<uint32_t>(std::max<int64_t>(0, src.height - kTaps + 1));
  for (; i < n - 4 / kChannels; ++i) {
    const auto x = static_cast<uint32_t>(places.x[i] - kBefore), y = static_cast<uint32_t>(places.y[i] - kBefore);
    if (x >= right || y >= bottom) return i;
    const uint8_t* row = data + y * src.stride + x * int64_t{kChannels};
    const int16_t* w = weights + places.fraction[i] * int64_t{kTaps * kTaps};
    __m128i sum = _mm_set1_epi32(1 << 14);
    for (int k = 0; k < kTaps; ++k, row += src.stride) {
      for (int part = 0; part < kTaps; part += 4, w += 4) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + part * kChannels));
        const __m128i four = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(w));
        sum = _mm_add_epi32(sum, _mm_madd_epi16(_mm_shuffle_epi8(bytes, first), _mm_shuffle_epi32(four, 0x00)));
        sum = _mm_add_epi32(sum, _mm_madd_epi16(_mm_shuffle_epi8(bytes, second), _mm_shuffle_epi32(four, 0x55)));
      }
    }
    const __m128i shorts = _mm_packs_epi32(_mm_srai_epi32(sum, 15), sum);
    const int pixel = _mm_cvtsi128_si32(_mm_packus_epi16(shorts, shorts));
    std::memcpy(dst + kChannels * i, &pixel, 4);
  }
  return i;
}
template <int kTaps>
HWY_INLINE int64_t WideChannels(const Picture& src, const PlaceRow& places, const int16_t* weights, int64_t i,
                                int64_t n, uint8_t* dst) {
  if (src.channels == 1) return WidePixels<1, kTaps>(src, places, weights, i, n, dst);
  if (src.channels == 3) return WidePixels<3, kTaps>(src, places, weights, i, n, dst);
  if (src.channels == 4) return WidePixels<4, kTaps>(src, places, weights, i, n, dst);
  return i;
}
int64_t WideInside(const Picture& src, const PlaceRow& places, int64_t taps, const int16_t* weights, int64_t i,
                   int64_t n, uint8_t* dst) {
  return (taps == 4 ? WideChannels<4> : WideChannels<8>)(src, places, weights, i, n, dst);
}
int64_t LinearThree(const Picture& src, const PlaceRow& places, int64_t i, int64_t n, uint8_t* dst) {
  return LinearPixels<3>(src, places, i, n, dst);
}
int64_t LinearFour(const Picture& src, const PlaceRow& places, int64_t i, int64_t n, uint8_t* dst) {
  return LinearPixels<4>(src, places, i, n, dst);
}
#else
int64_t LinearThree(const Picture&, const PlaceRow&, int64_t i, int64_t, uint8_t*) { return i; }
int64_t LinearFour(const Picture&, const PlaceRow&, int64_t i, int64_t, uint8_t*) { return i; }
int64_t WideInside(const Picture&, const PlaceRow&, int64_t, const int16_t*, int64_t i, int64_t, uint8_t*) { return i; }
#endif

}  // namespace minnow::vision::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow::vision {

HWY_EXPORT(AffinePlaces);
HWY_EXPORT(LinearGray);
HWY_EXPORT(LinearThree);
HWY_EXPORT(LinearFour);
HWY_EXPORT(WideInside);

void affine_places(const int32_t* dx, const int32_t* dy, int32_t x0, int32_t y0, int64_t n, int32_t* x, int32_t* y,
                   uint16_t* fraction) {
  HWY_DYNAMIC_DISPATCH(AffinePlaces)(dx, dy, x0, y0, n, x, y, fraction);
}

int64_t linear_inside(const Picture& src, const PlaceRow& places, int64_t i, int64_t n, uint8_t* dst) {
  switch (src.channels) {
    case 1:
      return HWY_DYNAMIC_DISPATCH(LinearGray)(src, places, i, n, dst);
    case 3:
      return HWY_DYNAMIC_DISPATCH(LinearThree)(src, places, i, n, dst);
    case 4:
      return HWY_DYNAMIC_DISPATCH(LinearFour)(src, places, i, n, dst);
    default:
      return i;
  }
}

int64_t wide_inside(const Picture& src, const PlaceRow& places, int64_t taps, const int16_t* weights, int64_t i,
                    int64_t n, uint8_t* dst) {
  return HWY_DYNAMIC_DISPATCH(WideInside)(src, places, taps, weights, i, n, dst);
}

}  // namespace minnow::vision
#endif
