#include "kernels/cpu/pool/half.h"

#include "kernels/cpu/machine/packed_layout.h"
#include "kernels/cpu/machine/simd.h"

#if MINNOW_AVX512
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#define MINNOW_HALVES __attribute__((target("avx512f,avx512bw")))

namespace minnow {
namespace {

// As integers numbers are in order, but for the negative ones, where the order is the other way round.
MINNOW_HALVES inline __attribute__((always_inline)) __m512i in_order(__m512i v) {
  return _mm512_xor_si512(v, _mm512_and_si512(_mm512_srai_epi16(v, 15), _mm512_set1_epi16(0x7fff)));
}

// All lanes by 16 bits. With a mask, because compilers warn of what the instructions without leave undefined.
MINNOW_HALVES inline __attribute__((always_inline)) __m512i up(__m512i v) {
  return _mm512_maskz_slli_epi32(0xffff, v, 16);
}
MINNOW_HALVES inline __attribute__((always_inline)) __m512i down(__m512i v) {
  return _mm512_maskz_srli_epi32(0xffff, v, 16);
}

// Odd numbers of 32.
MINNOW_HALVES inline __attribute__((always_inline)) __m512 upper_of(__m512i v) {
  return _mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32(-65536)));
}

// To the nearest, ties to even, in the upper halves. The lower halves of NaN are 0, as sums of such numbers leave them.
MINNOW_HALVES inline __attribute__((always_inline)) __m512i rounded(__m512 sum) {
  const __m512i bits = _mm512_castps_si512(sum);
  const __m512i last = _mm512_and_si512(down(bits), _mm512_set1_epi32(1));
  return _mm512_add_epi32(bits, _mm512_add_epi32(last, _mm512_set1_epi32(0x7fff)));
}

}  // namespace

MINNOW_HALVES void max_halves(const uint16_t* in, const ByteColumns& c, uint16_t* out) {
  const __m512i magnitude = _mm512_set1_epi16(0x7fff), infinity = _mm512_set1_epi16(0x7f80);
  __m512i most = in_order(_mm512_set1_epi16(static_cast<short>(0xff80))), largest = _mm512_setzero_si512();
  for (int64_t z = 0; z < c.planes; ++z)
    for (int64_t y = 0; y < c.rows; ++y) {
      const __m512i v = _mm512_loadu_si512(in + z * c.plane + y * c.row);
      most = _mm512_max_epi16(most, in_order(v));
      largest = _mm512_max_epu16(largest, _mm512_and_si512(v, magnitude));
    }
  const __mmask32 nan = _mm512_cmpgt_epu16_mask(largest, infinity);
  _mm512_storeu_si512(out, _mm512_mask_blend_epi16(nan, in_order(most), _mm512_set1_epi16(0x7fc0)));
}

// Sums of the even and the odd channels.
MINNOW_HALVES inline __attribute__((always_inline)) void sum_halves(const uint16_t* in, const ByteColumns& c,
                                                                    __m512* even, __m512* odd) {
  *even = *odd = _mm512_setzero_ps();
  for (int64_t z = 0; z < c.planes; ++z) {
    __m512 some_even = _mm512_setzero_ps(), some_odd = some_even;
    for (int64_t y = 0; y < c.rows; ++y) {
      const __m512i v = _mm512_loadu_si512(in + z * c.plane + y * c.row);
      some_even = _mm512_add_ps(some_even, _mm512_castsi512_ps(up(v)));
      some_odd = _mm512_add_ps(some_odd, upper_of(v));
    }
    *even = _mm512_add_ps(*even, some_even);
    *odd = _mm512_add_ps(*odd, some_odd);
  }
}

MINNOW_HALVES inline __attribute__((always_inline)) void store_rounded(__m512 even, __m512 odd, uint16_t* out) {
  _mm512_storeu_si512(out, _mm512_mask_blend_epi16(0xaaaaaaaa, down(rounded(even)), rounded(odd)));
}

MINNOW_HALVES void mean_halves(const uint16_t* in, const ByteColumns& c, float factor, uint16_t* out) {
  __m512 even, odd;
  sum_halves(in, c, &even, &odd);
  store_rounded(_mm512_mul_ps(even, _mm512_set1_ps(factor)), _mm512_mul_ps(odd, _mm512_set1_ps(factor)), out);
}

// In order.
MINNOW_HALVES static void mean_of_window(const uint16_t* in, const ByteColumns& c, float factor, float* out) {
  __m512 parts[2];
  sum_halves(in, c, &parts[0], &parts[1]);
  alignas(64) float sums[2][kHalvesAtOnce / 2];
  for (int i = 0; i < 2; ++i) _mm512_store_ps(sums[i], _mm512_mul_ps(parts[i], _mm512_set1_ps(factor)));
  for (int64_t i = 0; i < kHalvesAtOnce; ++i) out[i] = sums[i % 2][i / 2];
}

MINNOW_HALVES void blend_halves(const uint16_t* in, const HalfTaps& y, int64_t row, const HalfTaps& x, int64_t column,
                                uint16_t* out) {
  __m512 even = _mm512_setzero_ps(), odd = even;
  for (int64_t i = 0; i < y.n; ++i) {
    const uint16_t* line = in + y.at[i * y.step] * row;
    for (int64_t j = 0; j < x.n; ++j) {
      const __m512i v = _mm512_loadu_si512(line + x.at[j * x.step] * column);
      const __m512 weight = _mm512_set1_ps(y.weight[i * y.step] * x.weight[j * x.step]);
      even = _mm512_fmadd_ps(weight, _mm512_castsi512_ps(up(v)), even);
      odd = _mm512_fmadd_ps(weight, upper_of(v), odd);
    }
  }
  store_rounded(even, odd, out);
}

void mean_of_half_images(const Tensor& x, ThreadPool* pool, float* y) {
  const Shape& s = x.shape();
  const int64_t channels = s[1], own = half_channels(channels), vectors = own / kHalvesAtOnce, pixels = s[2] * s[3];
  const ByteColumns window = {0, s[3], own, s[2], s[3] * own};
  pool->parallel_for(s[0] * vectors, 1 + 2000 / (pixels + 1), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % vectors * kHalvesAtOnce, n = i / vectors;
      float means[kHalvesAtOnce];
      mean_of_window(x.as<uint16_t>() + n * pixels * own + first, window, 1.0f / static_cast<float>(pixels), means);
      const int64_t some = std::min(kHalvesAtOnce, channels - first);
      std::memcpy(y + n * channels + first, means, static_cast<size_t>(some) * sizeof(float));
    }
  });
}

}  // namespace minnow
#else
namespace minnow {

void max_halves(const uint16_t*, const ByteColumns&, uint16_t*) {}
void mean_halves(const uint16_t*, const ByteColumns&, float, uint16_t*) {}
void blend_halves(const uint16_t*, const HalfTaps&, int64_t, const HalfTaps&, int64_t, uint16_t*) {}
void mean_of_half_images(const Tensor&, ThreadPool*, float*) {}

}  // namespace minnow
#endif
