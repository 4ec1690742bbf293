// 16 sums at a time times multipliers and shifts of their own, in the steps of the op Requantize, with AVX-512.
#pragma once

#include "kernels/cpu/machine/simd.h"

#if MINNOW_AVX512
#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#define MINNOW_FIXED __attribute__((target("avx512f,avx512vl,avx512bw"), always_inline)) inline

namespace minnow {

constexpr int64_t kMostProductOfBytes = 255 * 128;

// The sum, shifted left, times the multiplier, whose upper half is shifted right. Both roundings are in `half`: what is
// divided by 2^right rounds halves away from zero, so negative ones have 1 less before that.
struct alignas(64) FixedLanes {
  int32_t multiplier[16], doubled[16], right[16];  // `doubled`: shifts left by one more, for a product of twice the sum
  int64_t half[2][8];                              // of the even and the odd ones
  uint32_t is_divided;                             // a bit for each: it is shifted right
  bool fits;                                       // all of it holds for sums up to the limit that set() is given

  // Lanes beyond the channels are computed as well, without a shift.
  void clear() {
    *this = FixedLanes();
    std::fill(doubled, doubled + 16, 1);
    fits = true;
  }

  void set(int64_t lane, int32_t factor, int32_t shift, int64_t limit) {
    multiplier[lane] = factor;
    doubled[lane] = std::max(shift, 0) + 1;
    right[lane] = std::max(-shift, 0);
    const int64_t up = right[lane] > 0 ? int64_t{1} << (right[lane] - 1) : 0;
    half[lane % 2][lane / 2] = (int64_t{1} << 31) + (up << 32);
    is_divided |= right[lane] > 0 ? 1u << lane : 0u;
    // No step leaves 32 bits then.
    fits = fits && factor >= 0 && shift < 30 && limit < (int64_t{1} << (30 - std::max(shift, 0)));
  }
};

// Sums that do not fit, one by one.
[[gnu::cold, gnu::noinline]] inline void scale_one_by_one(const FixedLanes& lanes, int32_t* x) {
  for (int64_t i = 0; i < 16; ++i) {
    const auto moved = static_cast<int32_t>(static_cast<uint32_t>(x[i]) << (lanes.doubled[i] - 1));
    const int64_t product = (int64_t{moved} * lanes.multiplier[i] + (int64_t{1} << 30)) >> 31;
    const int64_t y = std::min(product, int64_t{INT32_MAX}), mask = (int64_t{1} << lanes.right[i]) - 1;
    x[i] = static_cast<int32_t>((y >> lanes.right[i]) + ((y & mask) > (mask >> 1) + (y < 0) ? 1 : 0));
  }
}

MINNOW_FIXED __m512i scaled_lanes(const FixedLanes& lanes, __m512i sum) {
  if (__builtin_expect(!lanes.fits, 0)) {
    alignas(64) int32_t x[16];
    _mm512_store_si512(x, sum);
    scale_one_by_one(lanes, x);
    return _mm512_load_si512(x);
  }
  const __m512i factor = _mm512_load_si512(lanes.multiplier);
  const __m512i twice = _mm512_sllv_epi32(sum, _mm512_load_si512(lanes.doubled));
  const __m512i even = _mm512_add_epi64(_mm512_mul_epi32(twice, factor), _mm512_load_si512(lanes.half[0]));
  const __m512i odd = _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(twice, 32), _mm512_srli_epi64(factor, 32)),
                                       _mm512_load_si512(lanes.half[1]));
  const __m512i upper = _mm512_mask_shuffle_epi32(odd, 0x5555, even, _MM_PERM_DDBB);
  const __m512i less = _mm512_maskz_srai_epi32(static_cast<__mmask16>(lanes.is_divided), sum, 31);
  return _mm512_srav_epi32(_mm512_add_epi32(upper, less), _mm512_load_si512(lanes.right));
}

// Four vectors as one of bytes, in the order in which instructions leave them that narrow two vectors block by block.
struct FixedBytes {
  __m512i zero, least, most;  // the bounds of 16 bits

  MINNOW_FIXED FixedBytes(int32_t zero_point, int32_t lowest, int32_t highest, bool is_signed) {
    const int32_t low = is_signed ? -128 : 0;
    zero = _mm512_set1_epi32(zero_point);
    least = _mm512_set1_epi16(static_cast<short>(std::clamp(lowest, low, low + 255)));
    most = _mm512_set1_epi16(static_cast<short>(std::clamp(highest, low, low + 255)));
  }

  // What saturates to 16 bits is beyond the limits of bytes.
  MINNOW_FIXED __m512i pair(__m512i a, __m512i b) const {
    const __m512i both = _mm512_packs_epi32(_mm512_add_epi32(a, zero), _mm512_add_epi32(b, zero));
    return _mm512_min_epi16(_mm512_max_epi16(both, least), most);
  }
};

}  // namespace minnow
#endif
