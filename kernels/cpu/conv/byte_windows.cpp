#include "kernels/cpu/conv/byte_windows.h"

#include "kernels/cpu/machine/simd.h"
#include "kernels/cpu/machine/packed_layout.h"

#if MINNOW_AVX512
#include <immintrin.h>

#include <algorithm>

#define MINNOW_BYTES __attribute__((target("avx512f,avx512vl,avx512bw,avx512vnni,avx512vbmi")))

namespace minnow {
namespace {

constexpr int64_t kWindows = 16;  // of a vector

struct Finish {
  __m512 scale, low, high;
  __m512i zero;
};

// Written as the instruction, since compilers copy the sum to another register and back.
MINNOW_BYTES inline __attribute__((always_inline)) void add_taps(__m512i& sum, __m512i taps, __m512i weights) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(taps), "v"(weights));
}

// kRows: of the kernel, whose weights are kept in registers; 0: any number.
template <int kRows, int kLanes, bool kFactor>
MINNOW_BYTES void convolve(const ByteWindows& w) {
  const int64_t together = w.together, columns = w.out[1], width = together * columns;
  const int64_t rows = kRows > 0 ? kRows : w.kernel[0], next = w.dilation[0] * w.line, stride = w.stride[1];
  __m512i from[kLanes], ones[kLanes], kept[kRows > 0 ? kRows : 1][kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    from[lane] = _mm512_loadu_si512(w.place[lane]);
    const int64_t taps = std::min<int64_t>(4, w.kernel[1] - 4 * lane);
    ones[lane] = _mm512_set1_epi32(0x01010101 & static_cast<int>(~0u >> (32 - 8 * taps)));
    for (int k = 0; k < kRows; ++k) kept[k][lane] = _mm512_set1_epi32(static_cast<int>(w.weights[k * kLanes + lane]));
  }
  const int32_t least = (w.is_signed ? -128 : 0) - w.zero;
  const Finish finish = {_mm512_set1_ps(w.scale), _mm512_set1_ps(static_cast<float>(least)),
                         _mm512_set1_ps(static_cast<float>(least + 255)), _mm512_set1_epi32(w.zero)};
  const __m512i start = _mm512_set1_epi32(w.start), factor = _mm512_set1_epi32(w.factor);
  const uint32_t* const weights = w.weights;
  uint8_t* bytes = w.bytes;
  int32_t* sums = w.sums;
  const uint8_t* line = w.plane;
  for (int64_t y = 0; y < w.out[0]; y += together, line += together * w.stride[0] * w.line) {
    const int64_t n = std::min(width, (w.out[0] - y) * columns);
    for (int64_t x = 0; x < n; x += kWindows) {
      __m512i sum = start, all = _mm512_setzero_si512();
      const uint8_t* at = line + x * stride;
#pragma GCC unroll 5
      for (int64_t k = 0; k < rows; ++k, at += next) {
        const __m512i read = _mm512_loadu_si512(at);
        for (int lane = 0; lane < kLanes; ++lane) {
          const __m512i taps = _mm512_permutexvar_epi8(from[lane], read);
          add_taps(sum, taps,
                   kRows > 0 ? kept[k][lane] : _mm512_set1_epi32(static_cast<int>(weights[k * kLanes + lane])));
          if (kFactor) add_taps(all, taps, ones[lane]);
        }
      }
      if (kFactor) sum = _mm512_add_epi32(sum, _mm512_mullo_epi32(all, factor));
      const __mmask16 mask = static_cast<__mmask16>(n - x >= kWindows ? 0xffff : (1u << (n - x)) - 1);
      if (bytes == nullptr) {
        _mm512_mask_storeu_epi32(sums + x, mask, sum);
        continue;
      }
      // The zero point is added after rounding, to a number that is within what then fits into a byte.
      const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), finish.scale);
      const __m512i whole = _mm512_cvt_roundps_epi32(_mm512_min_ps(_mm512_max_ps(scaled, finish.low), finish.high),
                                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      _mm512_mask_cvtepi32_storeu_epi8(bytes + x, mask, _mm512_add_epi32(whole, finish.zero));
    }
    if (bytes != nullptr) bytes += n;
    if (sums != nullptr) sums += n;
  }
}

}  // namespace

bool has_byte_windows() {
  static const bool has =
      pack_width() == 16 && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi");
  return has;
}

void ByteWindows::prepare() {
  const int64_t columns = std::max<int64_t>(out[1], 1);
  const int64_t reach = (columns - 1) * stride[1] + (kernel[1] - 1) * dilation[1];
  together = 1;
  if (2 * columns <= kWindows && reach < 64)
    together = std::min(kWindows / columns, 1 + (63 - reach) / (stride[0] * line));
  for (int64_t lane = 0; lane < lanes_of_line(); ++lane) {
    for (int64_t i = 0; i < 64; ++i) {
      const int64_t window = i / 4, y = together == 1 ? 0 : window / columns, x = window - y * columns;
      place[lane][i] = static_cast<uint8_t>(y * stride[0] * line + x * stride[1] + (4 * lane + i % 4) * dilation[1]);
    }
  }
}

void convolve_bytes(const ByteWindows& w) {
  const bool is_short = w.lanes_of_line() == 1;
  if (w.factor != 0) return is_short ? convolve<0, 1, true>(w) : convolve<0, 2, true>(w);
  if (w.kernel[0] == 3 && is_short) return convolve<3, 1, false>(w);
  if (w.kernel[0] == 5 && !is_short) return convolve<5, 2, false>(w);
  is_short ? convolve<0, 1, false>(w) : convolve<0, 2, false>(w);
}

MINNOW_BYTES void place_lines(const uint8_t* from, int64_t lines, int64_t width, uint8_t flip, uint8_t padding,
                              int64_t line, uint8_t* plane) {
  const __m512i flips = _mm512_set1_epi8(static_cast<char>(flip)),
                around = _mm512_set1_epi8(static_cast<char>(padding));
  const __mmask64 last = ~uint64_t{0} >> (63 - (width + 63) % 64);
  for (int64_t y = 0; y < lines; ++y, from += width, plane += line) {
    int64_t x = 0;
    for (; x + 64 < width; x += 64)
      _mm512_storeu_si512(plane + x, _mm512_xor_si512(_mm512_loadu_si512(from + x), flips));
    // Without a mask: what a store has masked is not there for loads that follow soon.
    const __m512i bytes = _mm512_maskz_loadu_epi8(last, from + x);
    _mm512_storeu_si512(plane + x, _mm512_mask_blend_epi8(last, around, _mm512_xor_si512(bytes, flips)));
  }
}

}  // namespace minnow
#else
namespace minnow {

bool has_byte_windows() { return false; }
void ByteWindows::prepare() {}
void convolve_bytes(const ByteWindows&) {}
void place_lines(const uint8_t*, int64_t, int64_t, uint8_t, uint8_t, int64_t, uint8_t*) {}

}  // namespace minnow
#endif
