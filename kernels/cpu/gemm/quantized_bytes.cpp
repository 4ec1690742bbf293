// Products of rows of bytes with quantized weights, by AVX-512 VNNI or the tiles of AMX. The codes go into them as they
// lie, as unsigned numbers, or for tiles with their zero taken off. Both give the same sums, which are integers, and
// make numbers of them by the same operations in the same order. With precision normal: see quantized_whole.cpp.
#include <algorithm>

#include "kernels/core/rounding.h"
#include "kernels/cpu/gemm/byte_product.h"
#include "kernels/cpu/gemm/quantized.h"
#include "kernels/cpu/gemm/quantized_panel.h"
#include "kernels/cpu/machine/amx.h"
#include "kernels/cpu/machine/packed_layout.h"

#if MINNOW_AVX512
#include <cmath>
#include <cstring>
#include <limits>
#endif

namespace minnow {

#if MINNOW_AVX512
namespace quantized_bytes {

constexpr int64_t kTileColumns = 512;  // that are unpacked at a time
constexpr int64_t kBand = 120;         // rows, of whole tiles
constexpr int64_t kFewLines = 6;       // that tiles leave to VNNI

// A unit as 8 groups, each minus `zero`.
template <int kBits>
MINNOW_QUANTIZED_BYTES void unpack_units(const uint32_t* unit, int64_t units, int zero, uint32_t* to) {
  constexpr bool kFour = (kBits & 4) != 0, kTwo = (kBits & 2) != 0, kOne = (kBits & 1) != 0;
  constexpr unsigned kTwoShift = kFour ? 4 : 0, kOneShift = kTwoShift + (kTwo ? 2 : 0);
  constexpr int64_t kTwoAt = kFour ? 4 : 0, kOneAt = kTwoAt + (kTwo ? 2 : 0);
  const __m512i minus = _mm512_set1_epi8(static_cast<char>(zero));
  for (; units > 0; --units, unit += kBits * kLanes, to += 8 * kLanes) {
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) {
      __m512i all = kBits == 8 ? _mm512_loadu_si512(unit + g * kLanes) : _mm512_setzero_si512();
      if constexpr (kFour) {
        const __m512i v = _mm512_loadu_si512(unit + g / 2 * kLanes);
        all = _mm512_and_si512(g % 2 == 0 ? v : _mm512_srli_epi32(v, 4), _mm512_set1_epi8(15));
      }
      if constexpr (kTwo) {
        const __m512i v = _mm512_loadu_si512(unit + (kTwoAt + g / 4) * kLanes);
        const __m512i two =
            _mm512_and_si512(_mm512_srli_epi32(v, static_cast<unsigned>(2 * (g % 4))), _mm512_set1_epi8(3));
        all = _mm512_or_si512(all, _mm512_slli_epi32(two, kTwoShift));
      }
      if constexpr (kOne) {
        const __m512i v = _mm512_loadu_si512(unit + kOneAt * kLanes);
        const __m512i one = _mm512_and_si512(_mm512_srli_epi32(v, static_cast<unsigned>(g)), _mm512_set1_epi8(1));
        all = _mm512_or_si512(all, _mm512_slli_epi32(one, kOneShift));
      }
      _mm512_storeu_si512(to + g * kLanes, _mm512_sub_epi8(all, minus));
    }
  }
}

using Unpack = void (*)(const uint32_t* unit, int64_t units, int zero, uint32_t* to);
constexpr Unpack kUnpack[] = {unpack_units<2>, unpack_units<3>, unpack_units<4>, unpack_units<5>,
                              unpack_units<6>, unpack_units<7>, unpack_units<8>};

// The number that the sums of the digits of a chunk, the lowest first, stand for.
template <int kDigits>
MINNOW_QUANTIZED_INLINE __m512 number_of(const __m512i* digit) {
  if constexpr (kDigits == 1) return _mm512_maskz_cvtepi32_ps(0xFFFF, digit[0]);
  const __m512i high = _mm512_add_epi32(_mm512_slli_epi32(digit[kDigits - 1], 8), digit[kDigits - 2]);
  const __m512 number = _mm512_maskz_cvtepi32_ps(0xFFFF, high);
  return _mm512_fmadd_ps(number, _mm512_set1_ps(256), _mm512_maskz_cvtepi32_ps(0xFFFF, digit[0]));
}

// Rows times a panel, from VNNI. Of 4 bits the high halves of bytes are multiplied where they are, and their sums are
// divided by 16; other codes than those of 8 bits are unpacked beforehand.
template <bool kFour, int kRows, int kDigits>
MINNOW_QUANTIZED_BYTES void multiply_panel(const ByteCall& c, int64_t panel, int64_t row) {
  constexpr int kLines = kRows * kDigits, kSums = kFour || kLines <= 2 ? 2 : 1;
  const QuantizedForm& f = *c.form;
  const ByteRows& a = c.a;
  const int64_t chunks_of_block = f.units / a.chunk_units, stride = a.stride, step_of_scales = scale_step(f);
  const uint32_t* panel_at = c.packed + panel * f.panel_words();
  const char* scales = reinterpret_cast<const char*>(panel_at);
  const char* at = reinterpret_cast<const char*>(panel_at + f.scale_words());
  const int8_t* codes = a.codes + row * kDigits * stride;
  const float* scale_a = a.scale + row * a.chunks;
  const int32_t* start = a.start + row * kDigits * a.chunks;
  const Unpack unpack = f.bits == 4 || f.bits == 8 ? nullptr : kUnpack[f.bits - 2];
  const int64_t unit_bytes = 4 * f.bits * kLanes;
  alignas(64) uint32_t unpacked[8 * kLanes];
  __m512 total[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) total[r] = _mm512_setzero_ps();
  for (int64_t b = 0; b < f.blocks; ++b, scales += step_of_scales) {
    const __m512 scale = load_scales(f, scales);
    if (f.has_offset) {
      const __m512 offset = load_offsets(f, scales, scale);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
        total[r] = _mm512_fmadd_ps(offset, _mm512_set1_ps(a.sums[(row + r) * f.blocks + b]), total[r]);
    }
    for (int64_t chunk = 0; chunk < chunks_of_block; ++chunk, ++scale_a, ++start) {
      __m512i sum[kLines][kSums];
#pragma GCC unroll 8
      for (int l = 0; l < kLines; ++l) {
        sum[l][0] = _mm512_set1_epi32(start[l * a.chunks]);
        if (kSums > 1) sum[l][kSums - 1] = _mm512_setzero_si512();
      }
      for (int64_t u = 0; u < a.chunk_units; ++u, codes += kQuantizedUnit, at += unit_bytes) {
        const char* unit = at;
        if (!kFour && unpack != nullptr) {
          unpack(reinterpret_cast<const uint32_t*>(at), 1, 0, unpacked);
          unit = reinterpret_cast<const char*>(unpacked);
        }
#pragma GCC unroll 8
        for (int g = 0; g < 8; ++g) {
          __m512i v;
          if constexpr (kFour) {
            if (g % 2 == 0) __builtin_prefetch(at + 32 * g + kAhead, 0, 2);
            v = _mm512_loadu_si512(unit + 64 * (g / 2));
            v = _mm512_and_si512(v, _mm512_set1_epi8(g % 2 == 0 ? 0x0F : static_cast<char>(0xF0)));
          } else {
            __builtin_prefetch(at + 64 * g + kAhead, 0, 2);
            v = _mm512_loadu_si512(unit + 64 * g);
          }
#pragma GCC unroll 8
          for (int l = 0; l < kLines; ++l) {
            int32_t four;
            std::memcpy(&four, codes + l * stride + 4 * g, sizeof four);
            sum[l][g % kSums] = _mm512_dpbusd_epi32(sum[l][g % kSums], v, _mm512_set1_epi32(four));
          }
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        __m512i digit[kDigits];
#pragma GCC unroll 3
        for (int d = 0; d < kDigits; ++d) {
          const int l = r * kDigits + d;
          digit[d] = sum[l][0];
          if constexpr (kSums > 1) {
            const __m512i other = sum[l][kSums - 1];
            digit[d] = _mm512_add_epi32(digit[d], kFour ? _mm512_srai_epi32(other, 4) : other);
          }
        }
        const __m512 factor = _mm512_mul_ps(scale, _mm512_set1_ps(scale_a[r * a.chunks]));
        total[r] = _mm512_fmadd_ps(number_of<kDigits>(digit), factor, total[r]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) finish_row(c, row + r, panel * kLanes, total[r]);
}

// In groups of rows that the registers have room for.
template <bool kFour, int kDigits, int kRows>
void multiply_rows(const ByteCall& c, int64_t panel, int64_t row) {
  for (; row + kRows <= c.a.rows; row += kRows) multiply_panel<kFour, kRows, kDigits>(c, panel, row);
  if constexpr (kRows > 1) multiply_rows<kFour, kDigits, kRows / 2>(c, panel, row);
}

template <bool kFour>
void multiply_vnni(const ByteCall& c, int64_t begin, int64_t end) {
  for (int64_t panel = begin; panel < end; ++panel)
    c.a.digits == 1 ? multiply_rows<kFour, 1, 8>(c, panel, 0) : multiply_rows<kFour, 3, 2>(c, panel, 0);
}

// Rows that a tile has.
template <int kDigits>
constexpr int kTileRows = kAmxRows / kDigits;

// The sums of a chunk: of one tile's lines and 16 columns.
template <class Tiles, int kSums>
inline void multiply_tile(Tiles& tiles, const int8_t* codes, int64_t stride, const uint32_t* w, int64_t columns,
                          uint32_t* sums) {
  constexpr int64_t kStep = kAmxBytes;
  constexpr int kLeft = 4 + kSums, kRight = 6 + kSums;
  tiles.template zero<kSums>();
  for (int64_t k = 0; k < columns; k += kStep) {
    tiles.template load<kLeft>(codes + k, stride);
    tiles.template load<kRight>(w + k / 4 * kLanes, 4 * kLanes);
    tiles.template add_signed_product<kSums, kLeft, kRight>();
  }
  tiles.template store<kSums>(sums, 4 * kLanes);
}

struct TileSlice {
  const uint32_t* w;    // of the panel's codes, unpacked
  const float* scales;  // of each block a vector of scales, then one of offsets
  float* totals;        // of the rows so far, from the row `row` on
  int64_t row, first, chunks;
  const char* soon;  // codes that will be unpacked next, and as many bytes as go with a chunk
  int64_t soon_step;
  bool is_first, is_last;  // of the panel
};

template <class Tiles, int kDigits>
MINNOW_QUANTIZED_BYTES void multiply_slice(Tiles& tiles, const ByteCall& c, const TileSlice& slice, int64_t panel,
                                           int64_t row) {
  constexpr int kRows = kTileRows<kDigits>;
  constexpr int64_t kTileWords = kAmxRows * kLanes;
  const QuantizedForm& f = *c.form;
  const ByteRows& a = c.a;
  const int64_t chunks_of_block = f.units / a.chunk_units, columns = a.chunk_units * kQuantizedUnit;
  const int64_t count = std::min<int64_t>(kRows, a.rows - row), column = panel * kLanes;
  const int8_t* codes = a.codes + row * kDigits * a.stride + slice.first * columns;
  alignas(64) uint32_t sums[2][kTileWords];
  const auto multiply = [&](int64_t chunk) {
    const int8_t* from = codes + chunk * columns;
    const uint32_t* w = slice.w + chunk * columns / 4 * kLanes;
    chunk % 2 == 0 ? multiply_tile<Tiles, 0>(tiles, from, a.stride, w, columns, sums[0])
                   : multiply_tile<Tiles, 1>(tiles, from, a.stride, w, columns, sums[1]);
  };
  __m512 total[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    total[r] = slice.is_first ? _mm512_setzero_ps() : _mm512_load_ps(slice.totals + (row - slice.row + r) * kLanes);
  }
  multiply(0);
  const float* scales = slice.scales;
  const float* of_rows = a.sums + row * f.blocks + slice.first / chunks_of_block;
  // The first block may have begun in the slice before.
  int64_t in_block = slice.first % chunks_of_block;
  __m512 scale = _mm512_load_ps(scales);
  if (in_block > 0) ++of_rows;
  for (int64_t i = 0; i < slice.chunks; ++i) {
    if (i + 1 < slice.chunks) multiply(i + 1);
    if (row == slice.row)
      for (int64_t k = 0; k < slice.soon_step; k += 64) __builtin_prefetch(slice.soon + i * slice.soon_step + k, 0, 2);
    if (in_block == 0) {
      scale = _mm512_load_ps(scales);
      if (f.has_offset) {
        const __m512 offset = _mm512_load_ps(scales + kLanes);
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r)
          total[r] = _mm512_fmadd_ps(offset, _mm512_set1_ps(of_rows[r * f.blocks]), total[r]);
      }
      ++of_rows;
    }
    if (++in_block == chunks_of_block) {
      in_block = 0;
      scales += 2 * kLanes;
    }
    const int64_t chunk = slice.first + i;
    const uint32_t* from = sums[i % 2];
    const float* scale_a = a.scale + row * a.chunks + chunk;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r, from += kDigits * kLanes) {
      if (r % 4 == 0 && r >= count) break;
      __m512i digit[kDigits];
#pragma GCC unroll 3
      for (int d = 0; d < kDigits; ++d) digit[d] = _mm512_load_si512(from + d * kLanes);
      const __m512 factor = _mm512_mul_ps(scale, _mm512_set1_ps(scale_a[r * a.chunks]));
      total[r] = _mm512_fmadd_ps(number_of<kDigits>(digit), factor, total[r]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    if (!slice.is_last) _mm512_store_ps(slice.totals + (row - slice.row + r) * kLanes, total[r]);
    if (slice.is_last && r < count) finish_row(c, row + r, column, total[r]);
  }
}

template <class Tiles>
MINNOW_QUANTIZED_BYTES void multiply_tiles(const ByteCall& c, int64_t begin, int64_t end) {
  const QuantizedForm& f = *c.form;
  const ByteRows& a = c.a;
  const int64_t columns = a.chunk_units * kQuantizedUnit, chunks_of_block = f.units / a.chunk_units;
  const int64_t most = kTileColumns / columns, unit_words = f.bits * kLanes;
  alignas(64) uint32_t w[kTileColumns / 4 * kLanes];
  alignas(64) float scales[2 * kLanes * kTileColumns / kQuantizedUnit];
  alignas(64) float totals[(kBand + kAmxRows) * kLanes];
  const int depth = static_cast<int>(std::min<int64_t>(columns, kAmxBytes));
  Tiles tiles(depth);
  Tiles::begin(depth, static_cast<int>(std::min<int64_t>(a.rows * a.digits, kAmxRows)));
  const int64_t step = a.digits == 1 ? kTileRows<1> : kTileRows<3>;
  const auto multiply = a.digits == 1 ? multiply_slice<Tiles, 1> : multiply_slice<Tiles, 3>;
  const int64_t panels = end - begin;
  // All of a panel's products with some rows, whose bytes stay in the second-level cache.
  for (int64_t i = 0; i < panels * ceil_div(a.rows, kBand); ++i) {
    const int64_t panel = begin + i % panels, band = i / panels * kBand;
    const uint32_t* codes = c.packed + panel * f.panel_words() + f.scale_words();
    for (int64_t first = 0; first < a.chunks; first += most) {
      const TileSlice slice = {w,
                               scales,
                               totals,
                               band,
                               first,
                               std::min(most, a.chunks - first),
                               reinterpret_cast<const char*>(codes + most * a.chunk_units * unit_words),
                               4 * a.chunk_units * unit_words,
                               first == 0,
                               first + most >= a.chunks};
      const int64_t block = first / chunks_of_block, last = (first + slice.chunks - 1) / chunks_of_block;
      const char* from = reinterpret_cast<const char*>(c.packed + panel * f.panel_words()) + block * scale_step(f);
      for (int64_t b = block; b <= last; ++b, from += scale_step(f)) {
        float* to = scales + 2 * kLanes * (b - block);
        const __m512 scale = load_scales(f, from);
        _mm512_store_ps(to, scale);
        if (f.has_offset) _mm512_store_ps(to + kLanes, load_offsets(f, from, scale));
      }
      const int64_t units = slice.chunks * a.chunk_units;
      kUnpack[f.bits - 2](codes, units, f.zero(), w);
      codes += units * unit_words;
      for (int64_t row = band; row < std::min(a.rows, band + kBand); row += step) multiply(tiles, c, slice, panel, row);
    }
  }
  Tiles::end();
}

// Two numbers of each lane, rounded to bf16, the first in the low half.
MINNOW_QUANTIZED_INLINE __m512i bf16_pair(__m512 first, __m512 second) {
  const __m512i half = _mm512_set1_epi32(0x8000), high = _mm512_set1_epi32(static_cast<int>(0xFFFF0000));
  const __m512i low = _mm512_srli_epi32(_mm512_add_epi32(_mm512_castps_si512(first), half), 16);
  return _mm512_or_si512(low, _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(second), half), high));
}

MINNOW_QUANTIZED_BYTES void unpack_panel(const QuantizedForm& f, const uint32_t* panel, uint32_t* to) {
  alignas(64) uint32_t codes[8 * kLanes];
  const char* scales = reinterpret_cast<const char*>(panel);
  const uint32_t* at = panel + f.scale_words();
  for (int64_t b = 0; b < f.blocks; ++b, scales += scale_step(f)) {
    const __m512 scale = load_scales(f, scales);
    const __m512 offset = f.has_offset ? load_offsets(f, scales, scale) : _mm512_setzero_ps();
    for (int64_t u = 0; u < f.units; ++u, at += f.bits * kLanes) {
      kUnpack[f.bits - 2](at, 1, f.zero(), codes);
      for (int64_t g = 0; g < 8; ++g, to += 2 * kLanes) {
        const __m512i v = _mm512_load_si512(codes + g * kLanes);
        __m512 w[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          const __m512i code = _mm512_srai_epi32(_mm512_slli_epi32(v, static_cast<unsigned>(24 - 8 * i)), 24);
          w[i] = _mm512_fmadd_ps(_mm512_maskz_cvtepi32_ps(0xFFFF, code), scale, offset);
        }
        _mm512_storeu_si512(to, bf16_pair(w[0], w[1]));
        _mm512_storeu_si512(to + kLanes, bf16_pair(w[2], w[3]));
      }
    }
  }
}

// The largest magnitude of a chunk as bits, which order as numbers do; and the sum.
MINNOW_QUANTIZED_INLINE uint32_t measure(const float* x, int64_t n, float* sum) {
  __m512i most = _mm512_setzero_si512();
  __m512 all = _mm512_setzero_ps();
  for (int64_t i = 0; i < n; i += kLanes) {
    const __mmask16 mask = static_cast<__mmask16>((1u << std::min(kLanes, n - i)) - 1);
    const __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
    most = _mm512_max_epu32(most, _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7FFFFFFF)));
    all = _mm512_add_ps(all, v);
  }
  *sum += _mm512_reduce_add_ps(all);
  return _mm512_reduce_max_epu32(most);
}

template <int kDigits>
MINNOW_QUANTIZED_BYTES bool round_row(const QuantizedForm& f, const float* from, int64_t row, const ByteRows& to) {
  constexpr uint32_t kInfinity = 0x7F800000;
  constexpr float kMost = 127.0f * (kDigits == 1 ? 1 : 65536);
  const int64_t length = to.chunk_units * kQuantizedUnit;
  int8_t* codes = to.codes + row * kDigits * to.stride;
  float* scale = to.scale + row * to.chunks;
  int32_t* start = to.start + row * kDigits * to.chunks;
  bool all = true;
  for (int64_t b = 0; b < f.blocks; ++b, from += f.block) {
    float block_sum = 0;
    for (int64_t at = 0; at < f.padded_block(); at += length, codes += length, ++scale, ++start) {
      const int64_t n = std::clamp<int64_t>(f.block - at, 0, length);
      const uint32_t bits = measure(from + at, n, &block_sum);
      float largest = 0;
      std::memcpy(&largest, &bits, sizeof largest);
      const bool finite = bits < kInfinity && std::isfinite(block_sum);
      float factor = largest > 0 && finite ? kMost / largest : 0.0f;
      all = all && finite && factor <= std::numeric_limits<float>::max();
      if (!std::isfinite(factor)) factor = 0;
      *scale = finite ? largest / kMost : std::numeric_limits<float>::quiet_NaN();
      __m512i sum[kDigits];
#pragma GCC unroll 3
      for (int d = 0; d < kDigits; ++d) sum[d] = _mm512_setzero_si512();
      for (int64_t i = 0; i < length; i += kLanes) {
        const __mmask16 mask = static_cast<__mmask16>((1u << std::clamp<int64_t>(n - i, 0, kLanes)) - 1);
        const __m512 x = _mm512_maskz_loadu_ps(mask, from + at + i);
        __m512i q = _mm512_maskz_cvtps_epi32(mask, _mm512_mul_ps(x, _mm512_set1_ps(factor)));
#pragma GCC unroll 3
        for (int d = 0; d < kDigits; ++d) {
          // The lowest digit, and what is left.
          const __m512i low = d + 1 < kDigits ? _mm512_srai_epi32(_mm512_slli_epi32(q, 24), 24) : q;
          _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + d * to.stride + i),
                           _mm512_maskz_cvtepi32_epi8(0xFFFF, low));
          sum[d] = _mm512_add_epi32(sum[d], low);
          q = _mm512_srai_epi32(_mm512_sub_epi32(q, low), 8);
        }
      }
#pragma GCC unroll 3
      for (int d = 0; d < kDigits; ++d)
        start[d * to.chunks] = static_cast<int32_t>(0u - static_cast<uint32_t>(f.zero()) *
                                                             static_cast<uint32_t>(_mm512_reduce_add_epi32(sum[d])));
    }
    if (f.has_offset) to.sums[row * f.blocks + b] = block_sum;
  }
  return all;
}

void unpack_codes(const QuantizedForm& form, const uint32_t* unit, uint32_t* to) {
  kUnpack[form.bits - 2](unit, 1, form.zero(), to);
}

}  // namespace quantized_bytes

// What is written here is for AVX-512.
bool has_byte_products() { return byte_unit() != nullptr && pack_width() == kByteLanes; }

bool round_quantized_row(const QuantizedForm& form, const float* from, int64_t row, const ByteRows& to) {
  using namespace quantized_bytes;
  return to.digits == 1 ? round_row<1>(form, from, row, to) : round_row<3>(form, from, row, to);
}

void unpack_quantized_bf16(const QuantizedForm& form, const void* packed, int64_t panel, float* to) {
  quantized_bytes::unpack_panel(form, static_cast<const uint32_t*>(packed) + panel * form.panel_words(),
                                reinterpret_cast<uint32_t*>(to));
}

// Cold, so that it is compiled for size: tests alone run it, and a first product that is compared with it.
[[gnu::cold]] static void emulate(const ByteCall& c, int64_t begin, int64_t end) {
  quantized_bytes::multiply_tiles<EmulatedTiles>(c, begin, end);
}

void multiply_quantized_bytes(const ByteCall& c, int64_t begin, int64_t end) {
  using namespace quantized_bytes;
  const ByteTiles tiles = byte_unit()->tiles;
  if (tiles != ByteTiles::kNone && c.a.rows * c.a.digits > kFewLines)
    return tiles == ByteTiles::kAmx ? multiply_tiles<AmxTiles>(c, begin, end) : emulate(c, begin, end);
  c.form->bits == 4 ? multiply_vnni<true>(c, begin, end) : multiply_vnni<false>(c, begin, end);
}
#else
bool has_byte_products() { return false; }
bool round_quantized_row(const QuantizedForm&, const float*, int64_t, const ByteRows&) { return false; }
void unpack_quantized_bf16(const QuantizedForm&, const void*, int64_t, float*) {}
void multiply_quantized_bytes(const ByteCall&, int64_t, int64_t) {}
#endif

ByteCall QuantizedGemm::byte_call(const GemmCall& call) const {
  ByteCall bytes;
  bytes.form = &form_;
  bytes.packed = reinterpret_cast<const uint32_t*>(call.packed_b);
  bytes.a.rows = m_;
  bytes.a.digits = digits_;
  bytes.bias = call.bias;
  bytes.start = call.start;
  bytes.c = call.c;
  bytes.ldc = call.ldc;
  bytes.low = activation_.low;
  bytes.high = activation_.high;
  return bytes;
}

}  // namespace minnow
