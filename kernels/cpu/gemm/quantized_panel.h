// What products of bytes with panels of quantized weights share: how a panel is read, and how its sums become results.
#pragma once

#include "kernels/cpu/gemm/quantized.h"
#include "kernels/cpu/machine/simd.h"

#if MINNOW_AVX512
#include <immintrin.h>

#include <algorithm>

namespace minnow::quantized_bytes {

#define MINNOW_QUANTIZED_BYTES __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx512vnni")))
#define MINNOW_QUANTIZED_INLINE MINNOW_QUANTIZED_BYTES inline __attribute__((always_inline))

constexpr int64_t kLanes = 16, kAhead = 24576;  // bytes

// What form.scale_step() is here, where a call would take longer.
inline int64_t scale_step(const QuantizedForm& f) { return kLanes * f.scale_bytes() * (f.has_offset ? 2 : 1); }

MINNOW_QUANTIZED_INLINE __m512 load_scales(const QuantizedForm& f, const char* at) {
  if (!f.half_scales) return _mm512_loadu_ps(at);
  return _mm512_maskz_cvtph_ps(0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}

MINNOW_QUANTIZED_INLINE __m512 load_offsets(const QuantizedForm& f, const char* scales, __m512 scale) {
  return _mm512_fmadd_ps(_mm512_set1_ps(f.offset_scale()), scale, load_scales(f, scales + scale_step(f) / 2));
}

MINNOW_QUANTIZED_INLINE void finish_row(const ByteCall& c, int64_t row, int64_t column, __m512 y) {
  const __mmask16 mask = static_cast<__mmask16>((1u << std::min<int64_t>(kLanes, c.form->rows - column)) - 1);
  const int64_t place = row * c.ldc + column;
  if (c.bias != nullptr) y = _mm512_add_ps(y, _mm512_loadu_ps(c.bias + column));
  if (c.start != nullptr) y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, c.start + place));
  // With masks, since gcc 12 warns of its own header otherwise.
  y = _mm512_maskz_max_ps(mask, _mm512_set1_ps(c.low), y);
  y = _mm512_maskz_min_ps(mask, _mm512_set1_ps(c.high), y);
  _mm512_mask_storeu_ps(c.c + place, mask, y);
}

// A unit as 8 groups of signed codes.
void unpack_codes(const QuantizedForm& form, const uint32_t* unit, uint32_t* to);

}  // namespace minnow::quantized_bytes
#endif
