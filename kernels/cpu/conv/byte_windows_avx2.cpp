// Windows over a plane of bytes by AVX2: eight neighbors of a line at a time, four taps of each.
#include "kernels/cpu/machine/simd.h"
//
#include "hwy/detect_targets.h"
#include "kernels/cpu/conv/byte_windows.h"

#if HWY_ARCH_X86_64 && (HWY_TARGETS & HWY_AVX2)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#define MINNOW_WINDOWS __attribute__((target("avx2")))
#define MINNOW_WINDOWS_INLINE MINNOW_WINDOWS inline __attribute__((always_inline))

namespace minnow {
namespace byte_windows_avx2 {
namespace {

constexpr int64_t kWindows = 8, kQuarter = 4;  // of a vector; of half of it

// kSplit: the products of pairs of weights go beyond 16 bits, but not those of what they are split into. kVectors of
// neighbors.
template <int kLanes, bool kSplit, int kVectors>
MINNOW_WINDOWS_INLINE void add_windows(const ByteWindows& w, const uint8_t* line, const __m256i (&from)[kLanes],
                                       __m256i (&sum)[kVectors]) {
  const __m256i ones = _mm256_set1_epi16(1);
  const int64_t lines = w.kernel[0], next = w.dilation[0] * w.line, stride = w.stride[1];
  const uint32_t* weights = w.weights;
  const uint32_t* rest = w.rest;
  for (int64_t k = 0; k < lines; ++k, line += next, weights += kLanes, rest += kSplit ? kLanes : 0) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const uint8_t* at = line + v * kWindows * stride;
      const auto half = [&](int64_t first) __attribute__((always_inline, target("avx2"))) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + first * stride));
      };
      const __m256i read = _mm256_inserti128_si256(_mm256_castsi128_si256(half(0)), half(kQuarter), 1);
#pragma GCC unroll 2
      for (int lane = 0; lane < kLanes; ++lane) {
        const __m256i taps = _mm256_shuffle_epi8(read, from[lane]);
        const auto add = [&](uint32_t four) __attribute__((always_inline, target("avx2"))) {
          const __m256i pairs = _mm256_maddubs_epi16(taps, _mm256_set1_epi32(static_cast<int>(four)));
          sum[v] = _mm256_add_epi32(sum[v], _mm256_madd_epi16(pairs, ones));
        };
        add(weights[lane]);
        if (kSplit) add(rest[lane]);
      }
    }
  }
}

template <int kLanes, bool kSplit>
MINNOW_WINDOWS void convolve(const ByteWindows& w) {
  constexpr int kVectors = 2;
  const int64_t columns = w.out[1], all = w.out[0] * columns;
  __m256i from[kLanes];
  for (int lane = 0; lane < kLanes; ++lane)
    from[lane] = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(w.place[lane])));
  const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5);
  const __m256i zero = _mm256_set1_epi16(static_cast<short>(w.zero)), start = _mm256_set1_epi32(w.start);
  // What is too large for an integer would become a negative one, as NaN does.
  const __m256 scale = _mm256_set1_ps(w.scale), high = _mm256_set1_ps(1024);
  const uint8_t* line = w.plane;
  for (int64_t y = 0, done = 0; y < w.out[0]; ++y, line += w.stride[0] * w.line, done = y * columns) {
    for (int64_t x = 0; x < columns; x += kVectors * kWindows) {
      __m256i sum[kVectors] = {start, start};
      const uint8_t* at = line + x * w.stride[1];
      if (columns - x > kWindows) {
        add_windows<kLanes, kSplit>(w, at, from, sum);
      } else {
        __m256i one[1] = {start};
        add_windows<kLanes, kSplit>(w, at, from, one);
        sum[0] = one[0];
      }
      const int64_t n = std::min<int64_t>(kVectors * kWindows, columns - x);
      // What is written behind a line is overwritten by the next one.
      const bool whole = all - done - x >= kVectors * kWindows;
      alignas(32) uint8_t part[sizeof(int32_t) * kVectors * kWindows];
      if (w.bytes == nullptr) {
        uint8_t* to = whole ? reinterpret_cast<uint8_t*>(w.sums + done + x) : part;
        for (int v = 0; v < kVectors; ++v) _mm256_storeu_si256(reinterpret_cast<__m256i*>(to) + v, sum[v]);
        if (!whole) std::memcpy(w.sums + done + x, part, static_cast<size_t>(n) * sizeof(int32_t));
        continue;
      }
      for (__m256i& s : sum) s = _mm256_cvtps_epi32(_mm256_min_ps(high, _mm256_mul_ps(_mm256_cvtepi32_ps(s), scale)));
      const __m256i numbers = _mm256_adds_epi16(_mm256_packs_epi32(sum[0], sum[1]), zero);
      const __m256i bytes = w.is_signed ? _mm256_packs_epi16(numbers, numbers) : _mm256_packus_epi16(numbers, numbers);
      const __m128i result = _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(bytes, in_order));
      uint8_t* to = whole ? w.bytes + done + x : part;
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), result);
      if (!whole) std::memcpy(w.bytes + done + x, part, static_cast<size_t>(n));
    }
  }
}

template <bool kSplit>
void convolve(const ByteWindows& w) {
  if (w.lanes_of_line() > 1) return convolve<2, kSplit>(w);
  convolve<1, kSplit>(w);
}

}  // namespace
}  // namespace byte_windows_avx2

void convolve_bytes_avx2(const ByteWindows& w) {
  w.rest == nullptr ? byte_windows_avx2::convolve<false>(w) : byte_windows_avx2::convolve<true>(w);
}

MINNOW_WINDOWS void place_lines_avx2(const uint8_t* from, int64_t lines, int64_t width, uint8_t flip, int64_t line,
                                     uint8_t* plane) {
  constexpr int64_t kBytes = 32;
  const __m256i flips = _mm256_set1_epi8(static_cast<char>(flip));
  const auto move = [&](const void* source, void* target) __attribute__((always_inline, target("avx2"))) {
    const __m256i x = _mm256_loadu_si256(static_cast<const __m256i*>(source));
    _mm256_storeu_si256(static_cast<__m256i*>(target), _mm256_xor_si256(x, flips));
  };
  for (int64_t y = 0; y < lines; ++y, from += width, plane += line) {
    for (int64_t x = 0; x + kBytes <= width; x += kBytes) move(from + x, plane + x);
    if (width % kBytes == 0) continue;
    if (width >= kBytes) {
      move(from + width - kBytes, plane + width - kBytes);  // some once more
      continue;
    }
    // Eight bytes at a time, the last ones once more; what is stored in parts takes long to be loaded as a whole.
    const auto move_some = [&](auto flips_of_some, int64_t first) {
      decltype(flips_of_some) some;
      std::memcpy(&some, from + first, sizeof(some));
      some = static_cast<decltype(some)>(some ^ flips_of_some);
      std::memcpy(plane + first, &some, sizeof(some));
    };
    constexpr int64_t kEight = 8;
    for (int64_t i = 0; i + kEight <= width; i += kEight) move_some(flip * 0x0101010101010101u, i);
    if (width >= kEight) {
      move_some(flip * 0x0101010101010101u, width - kEight);
      continue;
    }
    for (int64_t i = 0; i < width; ++i) move_some(flip, i);
  }
}

}  // namespace minnow
#else
namespace minnow {

void convolve_bytes_avx2(const ByteWindows&) {}
void place_lines_avx2(const uint8_t*, int64_t, int64_t, uint8_t, int64_t, uint8_t*) {}

}  // namespace minnow
#endif
