// Products of rows of integers of 16 bits with quantized weights that become integers of 16 bits, too, each row of A
// and of W with one scale. Both have two digits, and the sums of products of digits along all columns are integers, and
// exact: results depend neither on how many rows there are nor on what multiplies. Few rows are multiplied by VNNI in
// pairs of 16 bits, others by the tiles of AMX, digit by digit.
#include "kernels/core/interrupt.h"
#include "kernels/core/rounding.h"
#include "kernels/cpu/gemm/byte_product.h"
#include "kernels/cpu/gemm/quantized.h"
#include "kernels/cpu/gemm/quantized_panel.h"
#include "kernels/cpu/machine/amx.h"
#include "kernels/cpu/machine/packed_layout.h"

#if MINNOW_AVX512
#include <cstring>
#include <limits>
#include <type_traits>
#endif

namespace minnow {

#if MINNOW_AVX512
namespace quantized_bytes {

// The largest integers, of W with room for the rounding of scale and offset.
constexpr float kMostOfA = 127.0f * 256, kMostOfW = 32600;
constexpr int64_t kFewWhole = 4;     // rows that tiles leave to VNNI
constexpr int64_t kSliceUnits = 16;  // whose sums of products with a digit have 32 bits

MINNOW_QUANTIZED_INLINE void load_block(const QuantizedForm& f, const char* at, __m512* scale, __m512* offset) {
  *scale = load_scales(f, at);
  *offset = f.has_offset ? load_offsets(f, at, *scale) : _mm512_setzero_ps();
}
MINNOW_QUANTIZED_INLINE __m512i rounded_twice(__m512 x) {  // to 16 bits, in both halves of a lane
  const __m512i word = _mm512_maskz_cvtps_epi32(0xFFFF, x);
  return _mm512_mask_blend_epi16(0xAAAAAAAA, word, _mm512_slli_epi32(word, 16));
}

// What the numbers of a panel are multiplied with to be integers; and the scales that these have, for each row.
MINNOW_QUANTIZED_INLINE __m512 factor_of(const QuantizedForm& f, const uint32_t* panel, __m512* scale_of_row) {
  const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
  const __m512 zero = _mm512_set1_ps(static_cast<float>(f.zero()));
  __m512i most = _mm512_setzero_si512();
  const char* at = reinterpret_cast<const char*>(panel);
  for (int64_t b = 0; b < f.blocks; ++b, at += scale_step(f)) {
    __builtin_prefetch(at + kAhead, 0, 2);
    __m512 scale, offset;
    load_block(f, at, &scale, &offset);
    const __m512 size = _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(scale), magnitude));
    const __m512 shift = _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(offset), magnitude));
    const __m512 reach = _mm512_fmadd_ps(size, zero, shift);
    most = _mm512_maskz_max_epu32(0xFFFF, most, _mm512_castps_si512(reach));
  }
  const __mmask16 finite = _mm512_cmplt_epu32_mask(most, _mm512_set1_epi32(0x7F800000));
  const __m512 largest = _mm512_castsi512_ps(most), whole = _mm512_set1_ps(kMostOfW);
  const __m512 factor = _mm512_maskz_div_ps(finite & _mm512_test_epi32_mask(most, most), whole, largest);
  const __m512 nan = _mm512_set1_ps(std::numeric_limits<float>::quiet_NaN());
  *scale_of_row = _mm512_mask_div_ps(nan, finite, largest, whole);
  // Of what is too small for it, nothing is left.
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(factor, _mm512_set1_ps(std::numeric_limits<float>::max()), _CMP_LE_OQ),
                             factor);
}

// Calls use(group of the panel, w of its first and third column, w of the others) for the units [begin, end) of a
// panel, in order: words, two in each lane. Offsets are added to them, or passed to offset(unit, words).
template <bool kFour, typename Use, typename Offset>
MINNOW_QUANTIZED_INLINE void each_group(const QuantizedForm& f, const uint32_t* panel, __m512 factor, int64_t begin,
                                        int64_t end, const Use& use, const Offset& offset_of) {
  // Scales go with codes in the highest bits of words, whose product's highest 16 bits count.
  const __m512 finer = _mm512_mul_ps(factor, _mm512_set1_ps(static_cast<float>(f.zero())));
  const char* scales = reinterpret_cast<const char*>(panel) + begin / f.units * scale_step(f);
  const uint32_t* at = panel + f.scale_words() + begin * f.bits * kLanes;
  const __m128i shift = _mm_cvtsi32_si128(16 - f.bits), shift_of_high = _mm_cvtsi32_si128(8 - f.bits);
  const __m512i high_byte = _mm512_set1_epi16(static_cast<int16_t>(0xFF00));
  const __m512i high_bits = _mm512_set1_epi16(static_cast<int16_t>(0xF000)), sign = _mm512_set1_epi16(-0x8000);
  int64_t left = f.units - begin % f.units;  // units of the block
  __m512i times = _mm512_setzero_si512(), plus = times;
  const auto whole = [&](__m512i code) MINNOW_QUANTIZED_BYTES __attribute__((always_inline)) {
    const __m512i w = _mm512_mulhrs_epi16(code, times);
    return std::is_same_v<Offset, std::nullptr_t> ? _mm512_add_epi16(w, plus) : w;
  };
  const auto four = [&](__m512i codes) MINNOW_QUANTIZED_BYTES __attribute__((always_inline)) {
    return whole(_mm512_maskz_ternarylogic_epi32(0xFFFF, codes, high_bits, sign, 0x6A));  // (a & b) ^ c
  };
  for (int64_t u = begin; u < end; ++u, --left) {
    if (u == begin || left == 0) {
      if (left == 0) left = f.units;
      __m512 scale, offset;
      load_block(f, scales, &scale, &offset);
      scales += scale_step(f);
      times = rounded_twice(_mm512_mul_ps(scale, finer));
      plus = rounded_twice(_mm512_mul_ps(offset, factor));
    }
    if constexpr (!std::is_same_v<Offset, std::nullptr_t>) offset_of(u, plus);
    if constexpr (kFour) {
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v, at += kLanes) {
        __builtin_prefetch(reinterpret_cast<const char*>(at) + kAhead, 0, 2);
        const __m512i codes = _mm512_loadu_si512(at);
        use(8 * u + 2 * v, four(_mm512_slli_epi32(codes, 12)), four(_mm512_slli_epi32(codes, 4)));
        use(8 * u + 2 * v + 1, four(_mm512_slli_epi32(codes, 8)), four(codes));
      }
    } else {
      alignas(64) uint32_t codes[8 * kLanes];
      for (int64_t i = 0; i < f.bits; ++i)
        __builtin_prefetch(reinterpret_cast<const char*>(at + i * kLanes) + kAhead, 0, 2);
      if (f.bits < 8) unpack_codes(f, at, codes);
      for (int g = 0; g < 8; ++g) {
        const __m512i v = f.bits < 8 ? _mm512_load_si512(codes + g * kLanes)
                                     : _mm512_xor_si512(_mm512_loadu_si512(at + g * kLanes), _mm512_set1_epi8(-0x80));
        use(8 * u + g, whole(_mm512_sll_epi16(v, shift)),
            whole(_mm512_sll_epi16(_mm512_and_si512(v, high_byte), shift_of_high)));
      }
      at += f.bits * kLanes;
    }
  }
}

// Results of a row and a panel, from sums of the products of integers, which are exact.
MINNOW_QUANTIZED_INLINE void finish_whole(const ByteCall& c, int64_t row, int64_t panel, __m512d first, __m512d second,
                                          __m512 scale_of_row) {
  const __m512 low = _mm512_castps256_ps512(_mm512_maskz_cvtpd_ps(0xFF, first));
  const __m512 sum = _mm512_maskz_insertf32x8(0xFFFF, low, _mm512_maskz_cvtpd_ps(0xFF, second), 1);
  finish_row(c, row, panel * kLanes, _mm512_mul_ps(_mm512_mul_ps(sum, scale_of_row), _mm512_set1_ps(c.a.scale[row])));
}

// The half of a vector, added to 256 times what there is of higher digits.
template <int kHalf>
MINNOW_QUANTIZED_INLINE __m512d add_digit(__m512d higher, __m512i digit) {
  const __m512d number = _mm512_maskz_cvtepi32_pd(0xFF, _mm512_maskz_extracti64x4_epi64(0xF, digit, kHalf));
  return _mm512_fmadd_pd(higher, _mm512_set1_pd(256), number);
}
MINNOW_QUANTIZED_INLINE __m512i repeated(const int8_t* from) {
  int32_t four;
  std::memcpy(&four, from, sizeof four);
  return _mm512_set1_epi32(four);
}
template <int kHalf>
MINNOW_QUANTIZED_INLINE __m512d total_of(__m512i low, __m512i high) {
  return add_digit<kHalf>(add_digit<kHalf>(_mm512_setzero_pd(), high), low);
}

// Products of a panel with up to kRows rows.
template <bool kFour, int kRows>
MINNOW_QUANTIZED_BYTES void multiply_words(const ByteCall& c, int64_t panel, int64_t row, __m512 factor,
                                           __m512 scale_of_row) {
  constexpr int kLines = 2 * kRows;
  const QuantizedForm& f = *c.form;
  const uint32_t* packed = c.packed + panel * f.panel_words();
  const int64_t rows = std::min<int64_t>(kRows, c.a.rows - row), units = f.blocks * f.units;
  const int8_t* line[kLines];
  for (int l = 0; l < kLines; ++l)
    line[l] = c.a.codes + (2 * (row + std::min<int64_t>(l / 2, rows - 1)) + l % 2) * c.a.stride;
  __m512d total[kRows][2];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) total[r][0] = total[r][1] = _mm512_setzero_pd();
  for (int64_t first = 0; first < units; first += kSliceUnits) {
    __m512i sum[kLines][2];
#pragma GCC unroll 8
    for (int l = 0; l < kLines; ++l) sum[l][0] = sum[l][1] = _mm512_setzero_si512();
    each_group<kFour>(
        f, packed, factor, first, std::min(units, first + kSliceUnits),
        [&](int64_t g, __m512i w0, __m512i w1) MINNOW_QUANTIZED_BYTES __attribute__((always_inline)) {
#pragma GCC unroll 8
          for (int l = 0; l < kLines; ++l) {
            sum[l][0] = _mm512_dpwssd_epi32(sum[l][0], w0, repeated(line[l] + 8 * g));
            sum[l][1] = _mm512_dpwssd_epi32(sum[l][1], w1, repeated(line[l] + 8 * g + 4));
          }
        },
        [&](int64_t u, __m512i plus) MINNOW_QUANTIZED_BYTES __attribute__((always_inline)) {
          if (!f.has_offset) return;
#pragma GCC unroll 8
          for (int l = 0; l < kLines; ++l)
            sum[l][0] = _mm512_dpwssd_epi32(sum[l][0], plus, repeated(line[l] + 64 * units + 4 * u));
        });
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512i low = _mm512_add_epi32(sum[2 * r][0], sum[2 * r][1]),
                    high = _mm512_add_epi32(sum[2 * r + 1][0], sum[2 * r + 1][1]);
      total[r][0] = _mm512_add_pd(total[r][0], total_of<0>(low, high));
      total[r][1] = _mm512_add_pd(total[r][1], total_of<1>(low, high));
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
    if (r < rows) finish_whole(c, row + r, panel, total[r][0], total[r][1], scale_of_row);
}

template <bool kFour>
MINNOW_QUANTIZED_BYTES void multiply_whole_vnni(const ByteCall& c, int64_t begin, int64_t end) {
  constexpr int kTwo = kFour ? 2 : 4;  // less code for rare cases
  for (int64_t panel = begin; panel < end; ++panel) {
    __m512 scale;
    const __m512 factor = factor_of(*c.form, c.packed + panel * c.form->panel_words(), &scale);
    for (int64_t row = 0; row < c.a.rows; row += 4) {
      const auto multiply = c.a.rows - row == 1   ? multiply_words<kFour, 1>
                            : c.a.rows - row == 2 ? multiply_words<kFour, kTwo>
                                                  : multiply_words<kFour, 4>;
      multiply(c, panel, row, factor, scale);
    }
  }
}

// Rows whose bytes of both digits stay in the second-level cache.
int64_t whole_band(int64_t columns) {
  constexpr int64_t kBytes = 768 << 10;
  return std::clamp<int64_t>(kBytes / (2 * columns) / kAmxRows, 4, 32) * kAmxRows;
}

// `space` has a panel's digits.
template <class Tiles, bool kFour>
MINNOW_QUANTIZED_BYTES void multiply_whole_tiles(const ByteCall& c, int64_t begin, int64_t end, uint32_t* space) {
  constexpr int64_t kTileWords = kAmxRows * kLanes, kStepWords = kAmxBytes / 4 * kLanes;
  const QuantizedForm& f = *c.form;
  const ByteRows& a = c.a;
  const int64_t columns = f.blocks * f.padded_block(), steps = ceil_div(columns, int64_t{kAmxBytes});
  uint32_t *low = space, *high = low + steps * kStepWords;
  for (uint32_t* digit : {low, high})
    std::memset(digit + columns / 4 * kLanes, 0, static_cast<size_t>(steps * kAmxBytes - columns) * kLanes);
  alignas(64) uint32_t sums[2][4 * kTileWords];
  Tiles tiles(kAmxBytes);
  Tiles::begin(kAmxBytes, static_cast<int>(std::min<int64_t>(a.rows, kAmxRows)));
  const auto multiply = [&](int64_t row, uint32_t* to) {
    tiles.template zero<0>(), tiles.template zero<1>(), tiles.template zero<2>(), tiles.template zero<3>();
    const int8_t *of_low = a.codes + 2 * row * a.stride, *of_high = of_low + a.stride;
    tiles.template load<4>(of_high, 2 * a.stride);
    tiles.template load<6>(high, 4 * kLanes);
    tiles.template load<7>(low, 4 * kLanes);
    tiles.template load<5>(of_low, 2 * a.stride);
    // Each tile is loaded as soon as it is not needed any more, at the end once more than that.
    for (int64_t s = 1; s <= steps; ++s) {
      const int64_t next = std::min(s, steps - 1);
      tiles.template add_signed_product<0, 4, 6>();
      tiles.template add_byte_product<1, 4, 7>();
      tiles.template load<4>(of_high + next * kAmxBytes, 2 * a.stride);
      tiles.template add_signed_product<2, 5, 6>();
      tiles.template load<6>(high + next * kStepWords, 4 * kLanes);
      tiles.template add_byte_product<3, 5, 7>();
      tiles.template load<5>(of_low + next * kAmxBytes, 2 * a.stride);
      tiles.template load<7>(low + next * kStepWords, 4 * kLanes);
    }
    tiles.template store<0>(to, 4 * kLanes), tiles.template store<1>(to + kTileWords, 4 * kLanes);
    tiles.template store<2>(to + 2 * kTileWords, 4 * kLanes), tiles.template store<3>(to + 3 * kTileWords, 4 * kLanes);
  };
  const __m512i low_byte = _mm512_set1_epi16(0x00FF), high_byte = _mm512_slli_epi16(low_byte, 8);
  const int64_t panels = end - begin, rows_of_band = whole_band(columns);
  for (int64_t i = 0; i < panels * ceil_div(a.rows, rows_of_band); ++i) {
    const int64_t panel = begin + i % panels, band = i / panels * rows_of_band;
    const int64_t last = std::min(a.rows, band + rows_of_band);
    const uint32_t* packed = c.packed + panel * f.panel_words();
    __m512 scale;
    const __m512 factor = factor_of(f, packed, &scale);
    each_group<kFour>(
        f, packed, factor, 0, f.blocks * f.units,
        [&](int64_t g, __m512i w0, __m512i w1) MINNOW_QUANTIZED_BYTES __attribute__((always_inline)) {
          // (a & b) | c
          const __m512i left = _mm512_slli_epi16(w1, 8), right = _mm512_srli_epi16(w0, 8);
          _mm512_store_si512(low + g * kLanes, _mm512_maskz_ternarylogic_epi32(0xFFFF, w0, low_byte, left, 0xEA));
          _mm512_store_si512(high + g * kLanes, _mm512_maskz_ternarylogic_epi32(0xFFFF, w1, high_byte, right, 0xEA));
        },
        nullptr);
    // The processor multiplies one tile of rows while the sums of the one before become results.
    for (int64_t row = band, n = 0; row < last + kAmxRows; row += kAmxRows, ++n) {
      if (row < last) multiply(row, sums[n % 2]);
      if (n == 0) continue;
      const uint32_t* from = sums[(n - 1) % 2];
      for (int64_t r = row - kAmxRows; r < std::min(row, last); ++r, from += kLanes) {
        const __m512i digit[3] = {
            _mm512_load_si512(from + 3 * kTileWords),
            _mm512_add_epi32(_mm512_load_si512(from + kTileWords), _mm512_load_si512(from + 2 * kTileWords)),
            _mm512_load_si512(from)};
        finish_whole(c, r, panel, add_digit<0>(total_of<0>(digit[1], digit[2]), digit[0]),
                     add_digit<1>(total_of<1>(digit[1], digit[2]), digit[0]), scale);
      }
    }
  }
  Tiles::end();
}

// Makes two digits of a row, in words or in bytes.
MINNOW_QUANTIZED_BYTES void round_whole(const QuantizedForm& f, const float* from, bool words, int8_t* codes,
                                        int64_t stride, float* scale) {
  const auto mask_of = [](int64_t n) { return static_cast<__mmask16>((1u << std::clamp<int64_t>(n, 0, kLanes)) - 1); };
  __m512i most = _mm512_setzero_si512();
  for (int64_t i = 0; i < f.columns; i += kLanes) {
    const __m512i bits = _mm512_castps_si512(_mm512_maskz_loadu_ps(mask_of(f.columns - i), from + i));
    most = _mm512_maskz_max_epu32(0xFFFF, most, _mm512_and_si512(bits, _mm512_set1_epi32(0x7FFFFFFF)));
  }
  alignas(64) uint32_t lanes[kLanes];
  _mm512_store_si512(lanes, most);
  const uint32_t bits = *std::max_element(lanes, lanes + kLanes);
  const bool finite = bits < 0x7F800000;
  float largest, factor = 0;
  std::memcpy(&largest, &bits, sizeof largest);
  if (finite && kMostOfA / largest <= std::numeric_limits<float>::max()) factor = kMostOfA / largest;
  *scale = finite ? largest / kMostOfA : std::numeric_limits<float>::quiet_NaN();
  // Behind the words of a line: the sum of each unit, which goes with offsets.
  int8_t* sums = codes + 64 * f.blocks * f.units;
  __m512i sum[2] = {};
  for (int64_t b = 0; b < f.blocks; ++b, from += f.block) {
    for (int64_t i = 0; i < f.padded_block(); i += kLanes, codes += words ? 2 * kLanes : kLanes) {
      const __mmask16 mask = mask_of(f.block - i);
      const __m512 x = _mm512_maskz_loadu_ps(mask, from + i);
      const __m512i q = _mm512_maskz_cvtps_epi32(mask, _mm512_mul_ps(x, _mm512_set1_ps(factor)));
      const __m512i low = _mm512_srai_epi32(_mm512_slli_epi32(q, 24), 24);
      const __m512i digit[2] = {low, _mm512_srai_epi32(_mm512_sub_epi32(q, low), 8)};
      for (int d = 0; d < 2; ++d) {
        if (!words) {
          _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + d * stride),
                           _mm512_maskz_cvtepi32_epi8(0xFFFF, digit[d]));
          continue;
        }
        // The second and the third of four change places.
        const __m256i w = _mm512_maskz_cvtepi32_epi16(0xFFFF, digit[d]);
        const __m256i pairs = _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(w, 0xD8), 0xD8);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + d * stride), pairs);
        sum[d] = i % kQuantizedUnit == 0 ? digit[d] : _mm512_add_epi32(sum[d], digit[d]);
        if (i % kQuantizedUnit == 0) continue;
        const int32_t all = _mm512_reduce_add_epi32(sum[d]) & 0xFFFF;
        std::memcpy(sums + d * stride, &all, sizeof all);
        if (d == 1) sums += sizeof all;
      }
    }
  }
}

bool takes_words(int64_t rows) { return byte_unit()->tiles == ByteTiles::kNone || rows <= kFewWhole; }

// Lines of words have sums of units, too.
int64_t word_bytes(const QuantizedForm& f) { return round_up(68 * f.blocks * f.units, 128) + 64; }

int64_t digit_bytes(int64_t columns) { return 2 * kLanes * round_up(columns, int64_t{kAmxBytes}); }

}  // namespace quantized_bytes

int64_t QuantizedGemm::whole_bytes() const {
  using namespace quantized_bytes;
  const bool words = takes_words(m_);
  return (words ? 0 : threads_ * digit_bytes(padded_columns())) + round_up(4 * m_, 64) +
         2 * (words ? m_ * word_bytes(form_) : (m_ + kByteLines) * line_bytes());
}

void QuantizedGemm::run_whole(const GemmCall& call) const {
  using namespace quantized_bytes;
  const bool words = takes_words(m_);
  char* space = static_cast<char*>(call.workspace);
  ByteCall bytes = byte_call(call);
  auto* digits = reinterpret_cast<uint32_t*>(space);
  if (!words) space += threads_ * digit_bytes(padded_columns());
  bytes.a.scale = reinterpret_cast<float*>(space);
  bytes.a.codes = reinterpret_cast<int8_t*>(space + round_up(4 * m_, 64));
  bytes.a.stride = words ? word_bytes(form_) : line_bytes();
  const ByteRows& a = bytes.a;
  const auto round_rows = [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r)
      round_whole(form_, call.a + r * call.lda, words, a.codes + 2 * r * a.stride, a.stride, a.scale + r);
  };
  const int64_t pack = pack_width(), panels = form_.panels();
  const bool four = form_.bits == 4, amx = byte_unit()->tiles == ByteTiles::kAmx;
  const auto multiply = [&](int64_t begin, int64_t end, int worker) {
    uint32_t* own = digits + worker * digit_bytes(padded_columns()) / 4;
    if (words) {
      four ? multiply_whole_vnni<true>(bytes, begin, end) : multiply_whole_vnni<false>(bytes, begin, end);
    } else if (amx) {
      four ? multiply_whole_tiles<AmxTiles, true>(bytes, begin, end, own)
           : multiply_whole_tiles<AmxTiles, false>(bytes, begin, end, own);
    } else {
      multiply_whole_tiles<EmulatedTiles, false>(bytes, begin, end, own);
    }
    if (activation_.is_clamp()) return;
    activate(activation_, bytes.c + begin * pack, m_, bytes.ldc, std::min(form_.rows, end * pack) - begin * pack);
  };
  const auto run_parts = [&](bool alone, int64_t n, int64_t grain, const auto& part) {
    alone ? part(0, n, 0) : call.pool->parallel_for(n, grain, part);
  };
  run_parts(call.pool == nullptr || m_ == 1, m_, std::max<int64_t>(1, 16384 / form_.columns), round_rows);
  run_parts(call.pool == nullptr || m_ * form_.rows * form_.columns < kSerialWeights, panels,
            std::max<int64_t>(1, ceil_div(panels, 8 * threads_)), multiply);
}
#else
int64_t QuantizedGemm::whole_bytes() const { return 0; }
void QuantizedGemm::run_whole(const GemmCall&) const {}
#endif

}  // namespace minnow
