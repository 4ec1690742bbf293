#include "kernels/cpu/conv/byte_windows.h"

#include "kernels/cpu/machine/simd.h"
#include "kernels/cpu/machine/packed_layout.h"

#include <algorithm>

#if MINNOW_AVX512
#include <immintrin.h>

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

constexpr int kSomeRows = 4;

// 3 x 3 taps, and as many rows of results at a time, as bytes: lines that they share are read once, and the
// instructions that narrow take four vectors. The number of rows is a multiple of theirs.
template <int kStride>
MINNOW_BYTES void convolve_rows(const ByteWindows& w) {
  constexpr int kLines = (kSomeRows - 1) * kStride + 3;
  const __m512i from = _mm512_loadu_si512(w.place[0]), start = _mm512_set1_epi32(w.start);
  const __m512i zero = _mm512_set1_epi16(static_cast<short>(w.zero));
  // In each quarter, four bytes of each row.
  const __m512i in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  // What is too large for an integer would become a negative one, as NaN does.
  const __m512 scale = _mm512_set1_ps(w.scale), high = _mm512_set1_ps(1024);
  __m512i weights[3];
  for (int k = 0; k < 3; ++k) weights[k] = _mm512_set1_epi32(static_cast<int>(w.weights[k]));
  const int64_t columns = w.out[1], line = w.line, stride = w.stride[1];
  const uint8_t* in = w.plane;
  uint8_t* out = w.bytes;
  for (int64_t y = 0; y < w.out[0]; y += kSomeRows, in += kSomeRows * kStride * line, out += kSomeRows * columns) {
    for (int64_t x = 0; x < columns; x += kWindows) {
      __m512i sum[kSomeRows];
#pragma GCC unroll 4
      for (int r = 0; r < kSomeRows; ++r) sum[r] = start;
      const uint8_t* at = in + x * stride;
#pragma GCC unroll 9
      for (int l = 0; l < kLines; ++l, at += line) {
        const __m512i taps = _mm512_permutexvar_epi8(from, _mm512_loadu_si512(at));
#pragma GCC unroll 4
        for (int r = 0; r < kSomeRows; ++r)
          if (l >= r * kStride && l < r * kStride + 3) add_taps(sum[r], taps, weights[l - r * kStride]);
      }
#pragma GCC unroll 4
      for (int r = 0; r < kSomeRows; ++r) {
        const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[r]), scale);
        sum[r] = _mm512_cvt_roundps_epi32(_mm512_min_ps(high, scaled), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      }
      const __m512i one = _mm512_adds_epi16(_mm512_packs_epi32(sum[0], sum[1]), zero);
      const __m512i other = _mm512_adds_epi16(_mm512_packs_epi32(sum[2], sum[3]), zero);
      const __m512i bytes = w.is_signed ? _mm512_packs_epi16(one, other) : _mm512_packus_epi16(one, other);
      const __m512i rows = _mm512_permutexvar_epi32(in_order, bytes);
      const int64_t left = columns - x;
      const __mmask16 mask = static_cast<__mmask16>(left >= kWindows ? 0xffff : (1u << left) - 1);
      uint8_t* to = out + x;
      _mm_mask_storeu_epi8(to, mask, _mm512_castsi512_si128(rows));
      _mm_mask_storeu_epi8(to + columns, mask, _mm512_extracti32x4_epi32(rows, 1));
      _mm_mask_storeu_epi8(to + 2 * columns, mask, _mm512_extracti32x4_epi32(rows, 2));
      _mm_mask_storeu_epi8(to + 3 * columns, mask, _mm512_extracti32x4_epi32(rows, 3));
    }
  }
}

// The results that convolve_rows() takes; what is left of `w` are the others.
void convolve_most_rows(ByteWindows& w) {
  if (w.bytes == nullptr || w.together != 1 || w.dilation[0] != 1 || w.stride[0] > 2) return;
  ByteWindows most = w;
  most.out[0] = w.out[0] / kSomeRows * kSomeRows;
  w.stride[0] == 1 ? convolve_rows<1>(most) : convolve_rows<2>(most);
  w.out[0] -= most.out[0];
  w.plane += most.out[0] * w.stride[0] * w.line;
  w.bytes += most.out[0] * w.out[1];
}

}  // namespace

static void convolve_bytes_avx512(const ByteWindows& w) {
  const bool is_short = w.lanes_of_line() == 1;
  if (w.factor != 0) return is_short ? convolve<0, 1, true>(w) : convolve<0, 2, true>(w);
  if (w.kernel[0] == 3 && is_short) {
    ByteWindows rest = w;
    convolve_most_rows(rest);
    return convolve<3, 1, false>(rest);
  }
  if (w.kernel[0] == 5 && !is_short) return convolve<5, 2, false>(w);
  is_short ? convolve<0, 1, false>(w) : convolve<0, 2, false>(w);
}

MINNOW_BYTES static void place_lines_avx512(const uint8_t* from, int64_t lines, int64_t width, uint8_t flip,
                                            uint8_t padding, int64_t line, uint8_t* plane) {
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
namespace {

constexpr int64_t kWindows = 16;

void convolve_bytes_avx512(const ByteWindows&) {}
void place_lines_avx512(const uint8_t*, int64_t, int64_t, uint8_t, uint8_t, int64_t, uint8_t*) {}

}  // namespace
}  // namespace minnow
#endif

namespace minnow {

bool ByteWindows::adds_pairs() {
#if HWY_ARCH_X86_64
  return isa_index() == 1;
#else
  return false;
#endif
}

bool has_byte_windows() {
#if MINNOW_AVX512
  static const bool has =
      pack_width() == 16 && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi");
#else
  constexpr bool has = false;
#endif
  return has || ByteWindows::adds_pairs();
}

void ByteWindows::prepare() {
  const int64_t columns = std::max<int64_t>(out[1], 1);
  const int64_t reach = (columns - 1) * stride[1] + (kernel[1] - 1) * dilation[1];
  together = 1;
  if (!adds_pairs() && 2 * columns <= kWindows && reach < 64)
    together = std::min(kWindows / columns, 1 + (63 - reach) / (stride[0] * line));
  for (int64_t lane = 0; lane < lanes_of_line(); ++lane) {
    for (int64_t i = 0; i < 64; ++i) {
      const int64_t window = i / 4, y = together == 1 ? 0 : window / columns, x = window - y * columns;
      place[lane][i] = static_cast<uint8_t>(y * stride[0] * line + x * stride[1] + (4 * lane + i % 4) * dilation[1]);
    }
  }
}

void convolve_bytes(const ByteWindows& w) { w.adds_pairs() ? convolve_bytes_avx2(w) : convolve_bytes_avx512(w); }

void place_lines(const uint8_t* from, int64_t lines, int64_t width, uint8_t flip, uint8_t padding, int64_t line,
                 uint8_t* plane) {
  ByteWindows::adds_pairs() ? place_lines_avx2(from, lines, width, flip, line, plane)
                            : place_lines_avx512(from, lines, width, flip, padding, line, plane);
}

}  // namespace minnow
