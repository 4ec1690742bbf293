// Tiles by products of pairs, with the instructions of AVX-512-BF16.
#include <algorithm>

#include "kernels/cpu/gemm/bf16_micro_kernel.h"
#include "hwy/detect_compiler_arch.h"

#if HWY_ARCH_X86_64 && !defined(MINNOW_NO_AVX512)

#include <immintrin.h>

namespace minnow {
namespace {

#define MINNOW_BF16_TARGET __attribute__((target("avx512f,avx512bf16"), always_inline)) inline

// `R` pixels from `in` on, in registers.
template <int R, int NB>
MINNOW_BF16_TARGET void pixels_of(const Bf16Tile& t, const char* in, float* out) {
  __m512 sum[R][NB];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int b = 0; b < NB; ++b) sum[r][b] = _mm512_setzero_ps();
  const int64_t terms = t.split ? 3 : 1;
  for (int64_t o = 0; o < t.outer; ++o) {
    const char* w = t.w + o * t.w_outer;
    for (int64_t m = 0; m < t.middle; ++m) {
      for (int64_t step = 0; step < t.inner * terms; ++step) {
        const int64_t i = step / terms, term = step % terms;
        const char* from = in + o * t.in_outer + m * t.in_middle + (term == 1 ? t.in_left : 0) +
                           (t.offset == nullptr ? i * t.in_inner : t.offset[i]);
        for (int64_t pair = 0; 2 * pair < t.depth; ++pair) {
          __m512i weight[NB];
#pragma GCC unroll 2
          for (int b = 0; b < NB; ++b) weight[b] = _mm512_load_si512(w + b * t.w_block + pair * 64);
#pragma GCC unroll 16
          for (int r = 0; r < R; ++r) {
            int x;
            __builtin_memcpy(&x, from + r * t.in_pixel + 4 * pair, sizeof(x));
            const __m512i both = _mm512_set1_epi32(x);
#pragma GCC unroll 2
            for (int b = 0; b < NB; ++b)
              sum[r][b] =
                  _mm512_dpbf16_ps(sum[r][b], reinterpret_cast<__m512bh>(both), reinterpret_cast<__m512bh>(weight[b]));
          }
        }
        if (term > 0 || !t.split) w += kBf16StepBytes;  // the first part of split weights is used twice
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int b = 0; b < NB; ++b) _mm512_store_ps(out + r * 32 + b * 16, sum[r][b]);
}

// Sums of 11 pixels and 2 blocks leave room in 32 registers for weights; three times that make a tile.
template <int NB>
__attribute__((target("avx512f,avx512bf16"))) void multiply_blocks(const Bf16Tile& t) {
  int done = 0;
  for (; done + 11 <= t.pixels; done += 11) pixels_of<11, NB>(t, t.in + done * t.in_pixel, t.sums + done * 32);
  for (; done + 4 <= t.pixels; done += 4) pixels_of<4, NB>(t, t.in + done * t.in_pixel, t.sums + done * 32);
  for (; done < t.pixels; ++done) pixels_of<1, NB>(t, t.in + done * t.in_pixel, t.sums + done * 32);
}

void multiply(const Bf16Tile& t) { t.blocks == 2 ? multiply_blocks<2>(t) : multiply_blocks<1>(t); }

}  // namespace

const Bf16Unit* bf16_avx512_unit() {
  static const Bf16Unit unit = {"bf16", 2, [](int64_t) {}, [] {}, multiply};
  return &unit;
}

__attribute__((target("avx512f,avx512bf16"))) void bf16_round_avx512(const float* first, const float* second,
                                                                     int64_t channels, int64_t pixels, uint16_t* to) {
  const auto mask = [](int64_t n) { return static_cast<__mmask16>((1u << std::clamp<int64_t>(n, 0, 16)) - 1); };
  const __mmask16 lower = mask(channels), upper = mask(channels - 16);
  for (int64_t p = 0; p < pixels; ++p) {
    const __m512 low = _mm512_maskz_loadu_ps(lower, first + 16 * p);
    const __m512 high = upper == 0 ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(upper, second + 16 * p);
    _mm512_storeu_si512(to + 32 * p, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
  }
}

__attribute__((target("avx512f,avx512bf16,avx512bw"))) void bf16_round_pair_avx512(const float* first,
                                                                                   const float* second, int64_t columns,
                                                                                   uint16_t* to) {
  const auto mask = static_cast<__mmask16>((1u << columns) - 1);
  const __m512 low = _mm512_maskz_loadu_ps(mask, first);
  const __m512 high = second == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, second);
  // Number i of 16 and i + 16, side by side.
  const __m512i column = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i order = _mm512_or_si512(column, _mm512_slli_epi32(_mm512_add_epi32(column, _mm512_set1_epi32(16)), 16));
  const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
  _mm512_storeu_si512(to, _mm512_permutexvar_epi16(order, both));
}

__attribute__((target("avx512f,avx512bw"))) void bf16_join_planes_avx512(const float* from, int64_t plane,
                                                                         int64_t channels, int64_t pixels,
                                                                         uint16_t* to) {
  constexpr int64_t kPixels = 32;
  alignas(64) uint16_t order[kBf16PlanesAtOnce * kPixels], rounded[kBf16PlanesAtOnce * kPixels] = {};
  for (int64_t i = 0; i < kBf16PlanesAtOnce * kPixels; ++i)
    order[i] = static_cast<uint16_t>(i % kBf16PlanesAtOnce * kPixels + i / kBf16PlanesAtOnce);
  for (; pixels > 0; pixels -= kPixels, from += kPixels, to += kBf16PlanesAtOnce * kPixels) {
    for (int64_t c = 0; c < channels; ++c)
      bf16_round_row(from + c * plane, std::min(pixels, kPixels), kPixels, rounded + c * kPixels, nullptr, 0);
    for (int64_t v = 0; v < kBf16PlanesAtOnce; ++v) {
      const __m512i index = _mm512_load_si512(order + v * kPixels);
      const __m512i two = _mm512_permutex2var_epi16(_mm512_load_si512(rounded), index, _mm512_load_si512(rounded + 32));
      const __m512i more =
          _mm512_permutex2var_epi16(_mm512_load_si512(rounded + 64), index, _mm512_load_si512(rounded + 96));
      const __mmask32 upper = _mm512_cmpge_epu16_mask(index, _mm512_set1_epi16(64));
      const int64_t left = std::clamp<int64_t>(kBf16PlanesAtOnce * pixels - v * kPixels, 0, kPixels);
      const auto stored = static_cast<__mmask32>((uint64_t{1} << left) - 1);
      _mm512_mask_storeu_epi16(to + v * kPixels, stored, _mm512_mask_blend_epi16(upper, two, more));
    }
  }
}

__attribute__((target("avx512f,avx512bf16,avx512vl"))) void bf16_store_avx512(const Bf16Pixels& t) {
  const __m512 low = _mm512_set1_ps(t.low), high = _mm512_set1_ps(t.high);
  const int upper = t.blocks > 1 ? 16 : 0;
  const bool has_bias = t.bias != nullptr;
  __m512 bias[2] = {};
  for (int b = 0; b < 2 && has_bias; ++b) bias[b] = _mm512_loadu_ps(t.bias + b * upper);
  for (int p = 0; p < t.pixels; ++p) {
    const int64_t place = t.place[p];
    if (place < 0) continue;
    __m512 x[2];
#pragma GCC unroll 2
    for (int b = 0; b < 2; ++b) {
      x[b] = _mm512_load_ps(t.sums + p * 32 + b * upper);
      if (has_bias) x[b] = _mm512_add_ps(x[b], bias[b]);
      if (t.residual != nullptr) {
        const auto* from = reinterpret_cast<const __m256i*>(t.residual + place + b * upper);
        const __m512i bits = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from)), 16);
        x[b] = _mm512_add_ps(x[b], _mm512_castsi512_ps(bits));
      }
      x[b] = _mm512_min_ps(high, _mm512_max_ps(low, x[b]));  // NaN stays NaN
    }
    const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(x[1], x[0]));
    if (upper > 0)
      _mm512_storeu_si512(t.out + place, both);
    else
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(t.out + place), _mm512_castsi512_si256(both));
  }
}

}  // namespace minnow

#else

namespace minnow {
const Bf16Unit* bf16_avx512_unit() { return nullptr; }
}  // namespace minnow

#endif
