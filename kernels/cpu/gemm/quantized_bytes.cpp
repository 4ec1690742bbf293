// Products of rows of bytes with quantized weights, by the instruction of AVX-512 that adds four products of bytes. The
// codes of a group go into it as they lie, as unsigned numbers: what their 2^(bits - 1) adds is taken off at the start.
#include <algorithm>

#include "kernels/cpu/gemm/quantized.h"
#include "kernels/cpu/machine/packed_layout.h"
#include "kernels/cpu/machine/simd.h"

#if MINNOW_AVX512
#include <immintrin.h>

#include <cstring>
#endif

namespace minnow {

#if MINNOW_AVX512
namespace quantized_bytes {

#define MINNOW_QUANTIZED_BYTES __attribute__((target("avx512f,avx512vl,avx512bw,avx512vnni")))

constexpr int64_t kLanes = 16, kAheadWords = 1024;

template <int kBits>
MINNOW_QUANTIZED_BYTES inline __attribute__((always_inline)) void read_unit(const uint32_t* unit, __m512i (&group)[8]) {
  if constexpr (kBits == 8) {
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) group[g] = _mm512_load_si512(unit + g * kLanes);
    return;
  }
  constexpr bool kFour = (kBits & 4) != 0, kTwo = (kBits & 2) != 0, kOne = (kBits & 1) != 0;
  constexpr unsigned kTwoShift = kFour ? 4 : 0, kOneShift = kTwoShift + (kTwo ? 2 : 0);
  constexpr int64_t kTwoAt = kFour ? 4 : 0, kOneAt = kTwoAt + (kTwo ? 2 : 0);
#pragma GCC unroll 8
  for (int g = 0; g < 8; ++g) {
    __m512i all = _mm512_setzero_si512();
    if constexpr (kFour) {
      const __m512i v = _mm512_load_si512(unit + g / 2 * kLanes);
      all = _mm512_and_si512(g % 2 == 0 ? v : _mm512_srli_epi32(v, 4), _mm512_set1_epi8(15));
    }
    if constexpr (kTwo) {
      const __m512i v = _mm512_load_si512(unit + (kTwoAt + g / 4) * kLanes);
      const __m512i two =
          _mm512_and_si512(_mm512_srli_epi32(v, static_cast<unsigned>(2 * (g % 4))), _mm512_set1_epi8(3));
      all = _mm512_or_si512(all, _mm512_slli_epi32(two, kTwoShift));
    }
    if constexpr (kOne) {
      const __m512i v = _mm512_load_si512(unit + kOneAt * kLanes);
      const __m512i one = _mm512_and_si512(_mm512_srli_epi32(v, static_cast<unsigned>(g)), _mm512_set1_epi8(1));
      all = _mm512_or_si512(all, _mm512_slli_epi32(one, kOneShift));
    }
    group[g] = all;
  }
}

// Rows of bytes times a panel. A single row adds to two sums in turn.
template <int kBits, int kRows>
MINNOW_QUANTIZED_BYTES void multiply_panel(const ByteCall& c, int64_t panel, int64_t row) {
  constexpr int kSums = kRows == 1 ? 2 : 1;
  const QuantizedForm& f = *c.form;
  const ByteRows& a = c.a;
  const int64_t padded = f.blocks * f.padded_block(), chunks_of_block = f.units / a.chunk_units;
  const uint32_t* at = c.packed + panel * f.panel_words();
  const int8_t* codes = a.codes + row * padded;
  const float* scale_a = a.scale + row * a.chunks;
  const int32_t* start = a.start + row * a.chunks;
  __m512 total[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) total[r] = _mm512_setzero_ps();
  for (int64_t b = 0; b < f.blocks; ++b) {
    const __m512 scale = _mm512_load_ps(at);
    at += kLanes;
    if (f.has_offset) {
      const __m512 offset = _mm512_load_ps(at);
      at += kLanes;
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
        total[r] = _mm512_fmadd_ps(offset, _mm512_set1_ps(a.sums[(row + r) * f.blocks + b]), total[r]);
    }
    for (int64_t chunk = 0; chunk < chunks_of_block; ++chunk, ++scale_a, ++start) {
      __m512i sum[kRows][kSums];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        sum[r][0] = _mm512_set1_epi32(start[r * a.chunks]);
        if (kSums > 1) sum[r][kSums - 1] = _mm512_setzero_si512();
      }
      for (int64_t u = 0; u < a.chunk_units; ++u, codes += kQuantizedUnit) {
        __m512i group[8];
        for (int64_t i = 0; i < kBits * kLanes; i += 16) __builtin_prefetch(at + kAheadWords + i, 0, 3);
        read_unit<kBits>(at, group);
        at += kBits * kLanes;
#pragma GCC unroll 8
        for (int g = 0; g < 8; ++g) {
#pragma GCC unroll 8
          for (int r = 0; r < kRows; ++r) {
            int32_t four;
            std::memcpy(&four, codes + r * padded + 4 * g, sizeof four);
            sum[r][g % kSums] = _mm512_dpbusd_epi32(sum[r][g % kSums], group[g], _mm512_set1_epi32(four));
          }
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        __m512i all = sum[r][0];
        if (kSums > 1) all = _mm512_add_epi32(all, sum[r][kSums - 1]);
        const __m512 factor = _mm512_mul_ps(scale, _mm512_set1_ps(scale_a[r * a.chunks]));
        total[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(all), factor, total[r]);
      }
    }
  }
  const int64_t column = panel * kLanes;
  const __mmask16 mask = static_cast<__mmask16>((1u << std::min<int64_t>(kLanes, f.rows - column)) - 1);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    __m512 y = total[r];
    const int64_t place = (row + r) * c.ldc + column;
    if (c.bias != nullptr) y = _mm512_add_ps(y, _mm512_loadu_ps(c.bias + column));
    if (c.start != nullptr) y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, c.start + place));
    // With masks, since gcc 12 warns of its own header otherwise.
    y = _mm512_maskz_max_ps(mask, _mm512_set1_ps(c.low), y);
    y = _mm512_maskz_min_ps(mask, _mm512_set1_ps(c.high), y);
    _mm512_mask_storeu_ps(c.c + place, mask, y);
  }
}

template <int kBits>
void multiply_panels(const ByteCall& c, int64_t begin, int64_t end) {
  for (int64_t panel = begin; panel < end; ++panel) {
    int64_t row = 0;
    for (; row + 8 <= c.a.rows; row += 8) multiply_panel<kBits, 8>(c, panel, row);
    for (; row + 4 <= c.a.rows; row += 4) multiply_panel<kBits, 4>(c, panel, row);
    for (; row + 2 <= c.a.rows; row += 2) multiply_panel<kBits, 2>(c, panel, row);
    for (; row < c.a.rows; ++row) multiply_panel<kBits, 1>(c, panel, row);
  }
}

}  // namespace quantized_bytes

bool has_byte_products() {
  static const bool has = pack_width() == 16 && __builtin_cpu_supports("avx512vnni");
  return has;
}

void multiply_quantized_bytes(const ByteCall& c, int64_t begin, int64_t end) {
  using namespace quantized_bytes;
  switch (c.form->bits) {
    case 2:
      return multiply_panels<2>(c, begin, end);
    case 3:
      return multiply_panels<3>(c, begin, end);
    case 4:
      return multiply_panels<4>(c, begin, end);
    case 5:
      return multiply_panels<5>(c, begin, end);
    case 6:
      return multiply_panels<6>(c, begin, end);
    case 7:
      return multiply_panels<7>(c, begin, end);
    default:
      return multiply_panels<8>(c, begin, end);
  }
}
#else
bool has_byte_products() { return false; }
void multiply_quantized_bytes(const ByteCall&, int64_t, int64_t) {}
#endif

}  // namespace minnow
