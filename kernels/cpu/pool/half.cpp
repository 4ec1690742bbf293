#include "kernels/cpu/pool/half.h"

#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include <algorithm>
#include <cstring>

#include "kernels/cpu/convert/half_numbers-inl.h"
#include "kernels/cpu/machine/packed_layout.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
#if MINNOW_HAS_HALF_NUMBERS

using HalfIntegers = hn::Repartition<int16_t, HalfPairs>;

// As integers numbers are in order, but for the negative ones, where the order is the other way round.
HWY_INLINE hn::Vec<HalfIntegers> half_in_order(hn::Vec<HalfIntegers> v) {
  return hn::Xor(v, hn::And(hn::BroadcastSignBit(v), hn::Set(HalfIntegers(), 0x7fff)));
}

MINNOW_HALF_NUMBERS void max_of_halves(const uint16_t* in, const ByteColumns& c, uint16_t* out) {
  const HalfIntegers d;
  for (int64_t k = 0; k < kHalvesAtOnce; k += 2 * kHalfPairs) {
    // The magnitudes of numbers are below infinity's, but for NaN.
    auto most = half_in_order(hn::Set(d, static_cast<int16_t>(0xff80))), largest = hn::Zero(d);
    for (int64_t z = 0; z < c.planes; ++z)
      for (int64_t y = 0; y < c.rows; ++y) {
        const auto v = hn::BitCast(d, load_pairs(in + z * c.plane + y * c.row + k));
        most = hn::Max(most, half_in_order(v));
        largest = hn::Max(largest, hn::And(v, hn::Set(d, 0x7fff)));
      }
    const auto nan = hn::Gt(largest, hn::Set(d, 0x7f80));
    hn::StoreU(hn::IfThenElse(nan, hn::Set(d, 0x7fc0), half_in_order(most)), d, reinterpret_cast<int16_t*>(out + k));
  }
}

// Sums of the even and the odd channels, times `factor`.
HWY_INLINE void mean_of_half_pairs(const uint16_t* in, const ByteColumns& c, float factor, hn::Vec<HalfFloats>* even,
                                   hn::Vec<HalfFloats>* odd) {
  const HalfFloats d;
  *even = *odd = hn::Zero(d);
  for (int64_t z = 0; z < c.planes; ++z) {
    auto some_even = hn::Zero(d), some_odd = hn::Zero(d);
    for (int64_t y = 0; y < c.rows; ++y) {
      const auto v = load_pairs(in + z * c.plane + y * c.row);
      some_even = hn::Add(some_even, even_of(v));
      some_odd = hn::Add(some_odd, odd_of(v));
    }
    *even = hn::Add(*even, some_even);
    *odd = hn::Add(*odd, some_odd);
  }
  *even = hn::Mul(*even, hn::Set(d, factor));
  *odd = hn::Mul(*odd, hn::Set(d, factor));
}

MINNOW_HALF_NUMBERS void mean_of_halves(const uint16_t* in, const ByteColumns& c, float factor, uint16_t* out) {
  hn::Vec<HalfFloats> even, odd;
  for (int64_t k = 0; k < kHalvesAtOnce; k += 2 * kHalfPairs) {
    mean_of_half_pairs(in + k, c, factor, &even, &odd);
    store_pairs(even, odd, out + k);
  }
}

MINNOW_HALF_NUMBERS void means_of_half_row(const uint16_t* in, const ByteColumns& image, const HalfMeans& t,
                                           uint16_t* out, int64_t pixel) {
  const HalfFloats d;
  HWY_ALIGN float sums[kMostMeanColumns * 2 * kHalfPairs];
  for (int64_t k = 0; k < kHalvesAtOnce; k += 2 * kHalfPairs) {
    for (int64_t x = 0; x < image.planes; ++x) {
      auto even = hn::Zero(d), odd = hn::Zero(d);
      for (int64_t y = 0; y < image.rows; ++y) {
        const auto v = load_pairs(in + y * image.row + x * image.plane + k);
        even = hn::Add(even, even_of(v));
        odd = hn::Add(odd, odd_of(v));
      }
      hn::Store(even, d, sums + 2 * x * kHalfPairs);
      hn::Store(odd, d, sums + (2 * x + 1) * kHalfPairs);
    }
    for (int64_t i = 0; i < t.n; ++i) {
      const PoolPlace& place = t.places[i];
      const float* from = sums + 2 * place.first * kHalfPairs;
      auto even = hn::Zero(d), odd = hn::Zero(d);
      for (int64_t x = 0; x < place.taps; ++x, from += 2 * t.step * kHalfPairs) {
        even = hn::Add(even, hn::Load(d, from));
        odd = hn::Add(odd, hn::Load(d, from + kHalfPairs));
      }
      const auto factor = hn::Set(d, 1.0f / static_cast<float>(place.counted * t.counted));
      store_pairs(hn::Mul(even, factor), hn::Mul(odd, factor), out + i * pixel + k);
    }
  }
}

// In order.
MINNOW_HALF_NUMBERS void mean_of_half_window(const uint16_t* in, const ByteColumns& c, float factor, float* out) {
  hn::Vec<HalfFloats> even, odd;
  for (int64_t k = 0; k < kHalvesAtOnce; k += 2 * kHalfPairs) {
    mean_of_half_pairs(in + k, c, factor, &even, &odd);
    hn::StoreInterleaved2(even, odd, HalfFloats(), out + k);
  }
}

MINNOW_HALF_NUMBERS void blend_of_halves(const uint16_t* in, const HalfTaps& y, int64_t row, const HalfTaps& x,
                                         int64_t column, uint16_t* out) {
  const HalfFloats d;
  for (int64_t k = 0; k < kHalvesAtOnce; k += 2 * kHalfPairs) {
    auto even = hn::Zero(d), odd = hn::Zero(d);
    for (int64_t i = 0; i < y.n; ++i) {
      const uint16_t* line = in + y.at[i * y.step] * row + k;
      for (int64_t j = 0; j < x.n; ++j) {
        const auto v = load_pairs(line + x.at[j * x.step] * column);
        const auto weight = hn::Set(d, y.weight[i * y.step] * x.weight[j * x.step]);
        even = hn::MulAdd(weight, even_of(v), even);
        odd = hn::MulAdd(weight, odd_of(v), odd);
      }
    }
    store_pairs(even, odd, out + k);
  }
}

#else

void max_of_halves(const uint16_t*, const ByteColumns&, uint16_t*) {}
void mean_of_halves(const uint16_t*, const ByteColumns&, float, uint16_t*) {}
void means_of_half_row(const uint16_t*, const ByteColumns&, const HalfMeans&, uint16_t*, int64_t) {}
void mean_of_half_window(const uint16_t*, const ByteColumns&, float, float*) {}
void blend_of_halves(const uint16_t*, const HalfTaps&, int64_t, const HalfTaps&, int64_t, uint16_t*) {}

#endif
}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow {

HWY_EXPORT(max_of_halves);
HWY_EXPORT(mean_of_halves);
HWY_EXPORT(means_of_half_row);
HWY_EXPORT(mean_of_half_window);
HWY_EXPORT(blend_of_halves);

void max_halves(const uint16_t* in, const ByteColumns& window, uint16_t* out) {
  for (int64_t k = 0; k < window.n; k += kHalvesAtOnce) HWY_DYNAMIC_DISPATCH(max_of_halves)(in + k, window, out + k);
}

void mean_halves(const uint16_t* in, const ByteColumns& window, float factor, uint16_t* out) {
  for (int64_t k = 0; k < window.n; k += kHalvesAtOnce)
    HWY_DYNAMIC_DISPATCH(mean_of_halves)(in + k, window, factor, out + k);
}

void means_of_halves(const uint16_t* in, const ByteColumns& image, const HalfMeans& row, uint16_t* out, int64_t pixel) {
  for (int64_t k = 0; k < image.n; k += kHalvesAtOnce)
    HWY_DYNAMIC_DISPATCH(means_of_half_row)(in + k, image, row, out + k, pixel);
}

void blend_halves(const uint16_t* in, const HalfTaps& y, int64_t row, const HalfTaps& x, int64_t column,
                  uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(blend_of_halves)(in, y, row, x, column, out);
}

void mean_of_half_images(const Tensor& x, ThreadPool* pool, float* y) {
  const Shape& s = x.shape();
  const int64_t channels = s[1], pixel = half_pixel(x.type), pixels = s[2] * s[3];
  const int64_t vectors = half_channels(channels) / kHalvesAtOnce;
  const ByteColumns window = {0, s[3], pixel, s[2], s[3] * pixel};
  pool->parallel_for(s[0] * vectors, 1 + 2000 / (pixels + 1), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % vectors * kHalvesAtOnce, n = i / vectors;
      float means[kHalvesAtOnce];
      HWY_DYNAMIC_DISPATCH(mean_of_half_window)
      (x.as<uint16_t>() + n * pixels * pixel + first, window, 1.0f / static_cast<float>(pixels), means);
      const int64_t some = std::min(kHalvesAtOnce, channels - first);
      std::memcpy(y + n * channels + first, means, static_cast<size_t>(some) * sizeof(float));
    }
  });
}

}  // namespace minnow
#endif
