#include "kernels/cpu/conv/byte_windows.h"

#include "kernels/cpu/machine/simd.h"
#include "kernels/cpu/machine/packed_layout.h"

#if MINNOW_AVX512
#include <immintrin.h>

#define MINNOW_BYTES __attribute__((target("avx512f,avx512vl,avx512bw,avx512vnni,avx512vbmi")))

namespace minnow {
namespace {

template <int kLanes, bool kSums>
MINNOW_BYTES void convolve(const ByteWindows& w, int32_t* sums) {
  alignas(64) uint8_t place[kLanes][64];
  uint32_t one[kLanes] = {};
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 64; ++i)
      place[lane][i] = static_cast<uint8_t>(i / 4 * w.stride[1] + (4 * lane + i % 4) * w.dilation[1]);
    for (int k = 0; k < 4; ++k)
      if (4 * lane + k < w.kernel[1]) one[lane] |= 1u << (8 * k);
  }
  __m512i from[kLanes], ones[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    from[lane] = _mm512_load_si512(place[lane]);
    ones[lane] = _mm512_set1_epi32(static_cast<int>(one[lane]));
  }
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(w.flip)), start = _mm512_set1_epi32(w.start);
  for (int64_t y = 0; y < w.out[0]; ++y) {
    const uint8_t* line = w.plane + y * w.stride[0] * w.line;
    for (int64_t x = 0; x < w.out[1]; x += 16) {
      __m512i sum = start, all = _mm512_setzero_si512();
      const uint8_t* at = line + x * w.stride[1];
      const uint32_t* weights = w.weights;
      for (int64_t k = 0; k < w.kernel[0]; ++k, at += w.dilation[0] * w.line, weights += kLanes) {
        const __m512i bytes = _mm512_xor_si512(_mm512_loadu_si512(at), flip);
        for (int lane = 0; lane < kLanes; ++lane) {
          const __m512i taps = _mm512_permutexvar_epi8(from[lane], bytes);
          sum = _mm512_dpbusd_epi32(sum, taps, _mm512_set1_epi32(static_cast<int>(weights[lane])));
          if (kSums) all = _mm512_dpbusd_epi32(all, taps, ones[lane]);
        }
      }
      if (kSums) sum = _mm512_add_epi32(sum, _mm512_mullo_epi32(all, _mm512_set1_epi32(w.factor)));
      _mm512_storeu_si512(sums + y * w.out[1] + x, sum);
    }
  }
}

}  // namespace

bool has_byte_windows() {
  static const bool has =
      pack_width() == 16 && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi");
  return has;
}

void convolve_bytes(const ByteWindows& w, int32_t* sums) {
  if (w.lanes_of_line() == 1) return w.factor == 0 ? convolve<1, false>(w, sums) : convolve<1, true>(w, sums);
  w.factor == 0 ? convolve<2, false>(w, sums) : convolve<2, true>(w, sums);
}

}  // namespace minnow
#else
namespace minnow {

bool has_byte_windows() { return false; }
void convolve_bytes(const ByteWindows&, int32_t*) {}

}  // namespace minnow
#endif
