#include "kernels/cpu/gemm/byte_product.h"

#include "kernels/cpu/gemm/byte_pixels.h"
#include "kernels/cpu/machine/amx.h"
#include "kernels/cpu/machine/simd.h"

#if MINNOW_AVX512
#include <immintrin.h>

#include <cstring>
#include <memory>

#define MINNOW_PANEL __attribute__((target("avx512f,avx512vl,avx512bw,avx512vnni")))
// What is inlined into such a function needs no attributes of its own but these.
#define MINNOW_PANEL_INLINE MINNOW_PANEL inline __attribute__((always_inline))

namespace minnow {
namespace {

constexpr int kVnniRows = 8, kVnniVectors = 3, kAmxVectors = 2;
constexpr int64_t kFewRows = 4;  // that AMX leaves to the other instruction

// Bytes of all rows of some sums. The instructions that narrow saturate, and take two vectors each: two of a row, or
// one each of four rows.
template <int kRows, int kVectors>
MINNOW_PANEL_INLINE void finish_rows(const ByteProduct& p, int64_t row, int64_t column,
                                     const __m512i (&sum)[kRows][kVectors], const __m512i (&offset)[kVectors],
                                     const __m512 (&scale)[kVectors]) {
  const __m512i in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i zero = _mm512_set1_epi16(static_cast<short>(p.zero));
  // What is too large for an integer would become a negative one, as NaN does.
  const __m512 high = _mm512_set1_ps(1024);
  const int64_t left = std::min<int64_t>(p.columns - column, kVectors * kByteLanes);
  const uint64_t mask = (uint64_t{1} << left) - 1;
  const auto whole = [&](int r, int v) __attribute__((always_inline, target("avx512f,avx512bw,avx512vl"))) {
    const __m512i start = _mm512_set1_epi32(static_cast<int>(p.start[row + r]));
    const __m512 of_row = _mm512_set1_ps(p.scale[p.scale_of_row ? row + r : 0]);
    const __m512 y = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_add_epi32(sum[r][v], offset[v]), start));
    const __m512 scaled = _mm512_mul_ps(y, p.scale_of_column ? scale[v] : of_row);
    return _mm512_cvt_roundps_epi32(_mm512_min_ps(high, scaled), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  };
  const auto bytes = [&](__m512i a, __m512i b, __m512i c, __m512i d)
      __attribute__((always_inline, target("avx512f,avx512bw,avx512vl"))) {
    const __m512i one = _mm512_adds_epi16(_mm512_packs_epi32(a, b), zero);
    const __m512i other = _mm512_adds_epi16(_mm512_packs_epi32(c, d), zero);
    const __m512i all = p.is_signed ? _mm512_packs_epi16(one, other) : _mm512_packus_epi16(one, other);
    return _mm512_permutexvar_epi32(in_order, all);
  };
  uint8_t* to = p.bytes + row * p.ldc + column;
  if constexpr (kVectors > 1) {
    const __mmask32 pair = static_cast<__mmask32>(mask);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; r += 2) {
      const __m512i two = bytes(whole(r, 0), whole(r, 1), whole(r + 1, 0), whole(r + 1, 1));
      _mm256_mask_storeu_epi8(to + r * p.ldc, pair, _mm512_castsi512_si256(two));
      _mm256_mask_storeu_epi8(to + (r + 1) * p.ldc, pair, _mm512_extracti64x4_epi64(two, 1));
    }
  }
  if constexpr (kVectors % 2 == 1) {
    constexpr int kLast = kVectors - 1;
    const __mmask16 one = static_cast<__mmask16>(mask >> (kByteLanes * kLast));
    uint8_t* at = to + kByteLanes * kLast;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; r += 4, at += 4 * p.ldc) {
      const __m512i four = bytes(whole(r, kLast), whole(r + 1, kLast), whole(r + 2, kLast), whole(r + 3, kLast));
      _mm_mask_storeu_epi8(at, one, _mm512_castsi512_si128(four));
      _mm_mask_storeu_epi8(at + p.ldc, one, _mm512_extracti32x4_epi32(four, 1));
      _mm_mask_storeu_epi8(at + 2 * p.ldc, one, _mm512_extracti32x4_epi32(four, 2));
      _mm_mask_storeu_epi8(at + 3 * p.ldc, one, _mm512_extracti32x4_epi32(four, 3));
    }
  }
}

// What becomes of the sums of `rows` rows from `row` on, and of the columns from `column` on.
template <int kRows, int kVectors>
MINNOW_PANEL_INLINE void finish_sums(const ByteProduct& p, int64_t row, int64_t rows, int64_t column,
                                     __m512i (&sum)[kRows][kVectors]) {
  __mmask16 mask[kVectors];
  __m512i offset[kVectors];
  __m512 scale[kVectors];
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
    const int64_t left = std::min<int64_t>(p.columns - column - kByteLanes * v, kByteLanes);
    mask[v] = static_cast<__mmask16>((1u << left) - 1);
    const int64_t at = column + kByteLanes * v;
    offset[v] = p.offset == nullptr ? _mm512_setzero_si512() : _mm512_maskz_loadu_epi32(mask[v], p.offset + at);
    scale[v] = p.scale_of_column ? _mm512_maskz_loadu_ps(mask[v], p.scale + at) : _mm512_setzero_ps();
    if (p.factor == nullptr) continue;
    const __m512i at_column = _mm512_maskz_loadu_epi32(mask[v], p.column + at);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
      if (r < rows) {
        const __m512i factor = _mm512_set1_epi32(static_cast<int>(p.factor[row + r]));
        sum[r][v] = _mm512_sub_epi32(sum[r][v], _mm512_mullo_epi32(at_column, factor));
      }
  }
  if (p.scale == nullptr) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
      if (r < rows) {
        const __m512i start = _mm512_set1_epi32(static_cast<int>(p.start[row + r]));
        uint32_t* to = p.sums + (row + r) * p.ldc + column;
#pragma GCC unroll 3
        for (int v = 0; v < kVectors; ++v)
          _mm512_mask_storeu_epi32(to + kByteLanes * v, mask[v],
                                   _mm512_add_epi32(_mm512_add_epi32(sum[r][v], offset[v]), start));
      }
    return;
  }
  if constexpr (kRows % 4 == 0)
    if (rows >= kRows) return finish_rows<kRows, kVectors>(p, row, column, sum, offset, scale);
  // The zero point is added after rounding, to a number that is within what then fits into a byte.
  const int32_t least = (p.is_signed ? -128 : 0) - p.zero;
  const __m512 low = _mm512_set1_ps(static_cast<float>(least)), high = _mm512_set1_ps(static_cast<float>(least + 255));
  const __m512i zero = _mm512_set1_epi32(p.zero);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
    if (r < rows) {
      const __m512i start = _mm512_set1_epi32(static_cast<int>(p.start[row + r]));
      const __m512 of_row = _mm512_set1_ps(p.scale[p.scale_of_row ? row + r : 0]);
      uint8_t* to = p.bytes + (row + r) * p.ldc + column;
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) {
        const __m512 y = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_add_epi32(sum[r][v], offset[v]), start));
        const __m512 scaled = _mm512_mul_ps(y, p.scale_of_column ? scale[v] : of_row);
        const __m512i whole = _mm512_cvt_roundps_epi32(_mm512_min_ps(_mm512_max_ps(scaled, low), high),
                                                       _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        _mm512_mask_cvtepi32_storeu_epi8(to + kByteLanes * v, mask[v], _mm512_add_epi32(whole, zero));
      }
    }
}

// Written as the instruction, since compilers copy the sum to another register and back.
MINNOW_PANEL_INLINE void add_products(__m512i& sum, __m512i right, __m512i left) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(right), "v"(left));
}

template <int kRows, int kVectors>
MINNOW_PANEL void vnni_tile(const ByteProduct& p, int64_t row, int64_t rows, int64_t column) {
  __m512i sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_setzero_si512();
  const uint32_t *a = p.left + row * p.steps, *b = p.right + column;
  const int64_t width = p.width;
  for (int64_t s = p.steps; s > 0; --s, a += kVnniRows, b += width) {
    __m512i x[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) x[v] = _mm512_loadu_si512(b + kByteLanes * v);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512i w = _mm512_set1_epi32(static_cast<int>(a[r]));
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) add_products(sum[r][v], x[v], w);
    }
  }
  finish_sums<kRows, kVectors>(p, row, rows, column, sum);
}

template <int kVectors>
void vnni_columns(const ByteProduct& p, int64_t column) {
  for (int64_t i = 0; i < p.rows; i += kVnniRows) {
    const int64_t rows = std::min<int64_t>(kVnniRows, p.rows - i);
    rows == 1 ? vnni_tile<1, kVectors>(p, i, rows, column) : vnni_tile<kVnniRows, kVectors>(p, i, rows, column);
  }
}

void multiply_vnni(const ByteProduct& p) {
  for (int64_t j = 0; j < p.columns;) {
    const int64_t vectors = (p.columns - j + kByteLanes - 1) / kByteLanes;
    vectors >= 3 ? vnni_columns<3>(p, j) : vectors == 2 ? vnni_columns<2>(p, j) : vnni_columns<1>(p, j);
    j += kByteLanes * std::min<int64_t>(vectors, kVnniVectors);
  }
}

// What is to be read next, some lines with each step of tiles.
struct Soon {
  const char *at, *end;
  int64_t bytes;  // of a step

  void bring() {
    constexpr int64_t kLine = 64;
    if (at >= end) return;
    for (int64_t i = 0; i < bytes; i += kLine) _mm_prefetch(at + i, _MM_HINT_T1);
    at += bytes;
  }
};

// Sums in tiles 0 to 3, left ones in 4 and 5, right ones in 6 and 7: four products for four loads.
template <class Tiles, int kBlocks, int kVectors>
void amx_tiles(Tiles& tiles, const ByteProduct& p, int64_t row, int64_t column, Soon& soon, uint32_t* sums) {
  tiles.template zero<0>();
  if constexpr (kVectors > 1) tiles.template zero<1>();
  if constexpr (kBlocks > 1) tiles.template zero<2>();
  if constexpr (kBlocks > 1 && kVectors > 1) tiles.template zero<3>();
  const uint32_t *a = p.left + row * p.steps, *b = p.right + column;
  const int64_t block = kAmxRows * p.steps, line = 4 * p.width;
  for (int64_t s = 0; s < p.steps; s += kAmxRows, a += kAmxRows * kByteLanes, b += kAmxRows * p.width) {
    tiles.template load<6>(b, line);
    tiles.template load<4>(a, kAmxBytes);
    tiles.template add_byte_product<0, 4, 6>();
    if constexpr (kVectors > 1) {
      tiles.template load<7>(b + kByteLanes, line);
      tiles.template add_byte_product<1, 4, 7>();
    }
    if constexpr (kBlocks > 1) {
      tiles.template load<5>(a + block, kAmxBytes);
      tiles.template add_byte_product<2, 5, 6>();
    }
    if constexpr (kBlocks > 1 && kVectors > 1) tiles.template add_byte_product<3, 5, 7>();
    soon.bring();
  }
  constexpr int64_t kRow = kAmxVectors * kByteLanes;
  tiles.template store<0>(sums, 4 * kRow);
  if constexpr (kVectors > 1) tiles.template store<1>(sums + kByteLanes, 4 * kRow);
  if constexpr (kBlocks > 1) tiles.template store<2>(sums + kAmxRows * kRow, 4 * kRow);
  if constexpr (kBlocks > 1 && kVectors > 1) tiles.template store<3>(sums + kAmxRows * kRow + kByteLanes, 4 * kRow);
}

template <int kVectors>
MINNOW_PANEL void finish_tiles(const ByteProduct& p, int64_t row, int64_t rows, int64_t column, const uint32_t* sums) {
  constexpr int kRows = 8;
  for (int64_t i = 0; i < rows; i += kRows) {
    __m512i sum[kRows][kVectors];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_load_si512(sums + ((i + r) * kAmxVectors + v) * kByteLanes);
    finish_sums<kRows, kVectors>(p, row + i, rows - i, column, sum);
  }
}

// Few rows, for which filling tiles takes longer than reading the right matrix: by the other instruction, with the
// tiles' forms of both matrices. The sums of a column are in several parts, since an addition waits for the one before
// it.
template <int kRows, int kVectors, int64_t kAhead>
MINNOW_PANEL void few_rows(const ByteProduct& p, int64_t rows, int64_t column) {
  constexpr int kParts = kRows == 1 ? 4 : kRows == 2 ? 2 : 1;
  __m512i sum[kParts][kRows][kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i)
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[i][r][v] = _mm512_setzero_si512();
  const uint32_t *a = p.left, *b = p.right + column;
  const int64_t width = p.width;
  for (int64_t s = 0; s < p.steps; s += kParts, b += kParts * width, a += kParts) {
    if (s > 0 && s % kAmxRows == 0) a += (kAmxRows - 1) * kAmxRows;
#pragma GCC unroll 4
    for (int i = 0; i < kParts; ++i) {
      __m512i x[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        __builtin_prefetch(b + i * width + kByteLanes * v + kAhead, 0, 3);
        x[v] = _mm512_loadu_si512(b + i * width + kByteLanes * v);
      }
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const __m512i w = _mm512_set1_epi32(static_cast<int>(a[r * kAmxRows + i]));
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) add_products(sum[i][r][v], x[v], w);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 1; i < kParts; ++i)
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[0][r][v] = _mm512_add_epi32(sum[0][r][v], sum[i][r][v]);
  finish_sums<kRows, kVectors>(p, 0, rows, column, sum[0]);
}

template <int kVectors>
void few_rows_of(const ByteProduct& p, int64_t column) {
  constexpr int64_t kMemory = 2048, kCache = 512;  // lanes that are asked for in advance
  if (p.rows == 1)
    return p.is_cached ? few_rows<1, kVectors, kCache>(p, 1, column) : few_rows<1, kVectors, kMemory>(p, 1, column);
  p.rows == 2 ? few_rows<2, kVectors, kMemory>(p, 2, column) : few_rows<4, kVectors, kMemory>(p, p.rows, column);
}

// The usual case of finish_tiles: bytes of rows of 32 columns, no zero points of rows. Two rows at a time: the
// instructions that narrow saturate, and take two vectors each.
template <bool kSigned, bool kColumns>
MINNOW_PANEL void finish_bytes(const ByteProduct& p, int64_t row, int64_t rows, int64_t column, const uint32_t* sums) {
  const __m512i in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i zero = _mm512_set1_epi16(static_cast<short>(p.zero));
  // What is too large for an integer would become a negative one, as NaN does.
  const __m512 high = _mm512_set1_ps(1024);
  const int64_t left = std::min<int64_t>(p.columns - column, kAmxVectors * kByteLanes);
  const __mmask32 mask = static_cast<__mmask32>((uint64_t{1} << left) - 1);
  const int64_t step = p.scale_of_row ? 1 : 0;
  // Of columns, where these have their own.
  __m512i offset[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  __m512 scales[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  for (int v = 0; kColumns && v < 2; ++v) {
    const __mmask16 half = static_cast<__mmask16>(mask >> (kByteLanes * v));
    const int64_t at = column + kByteLanes * v;
    if (p.offset != nullptr) offset[v] = _mm512_maskz_loadu_epi32(half, p.offset + at);
    scales[v] = p.scale_of_column ? _mm512_maskz_loadu_ps(half, p.scale + at) : _mm512_set1_ps(*p.scale);
  }
  const auto narrow = [&](int64_t r) __attribute__((always_inline, target("avx512f,avx512bw,avx512vl"))) {
    const __m512i start = _mm512_set1_epi32(static_cast<int>(p.start[row + r]));
    const __m512 scale = kColumns ? _mm512_setzero_ps() : _mm512_set1_ps(p.scale[(row + r) * step]);
    __m512i whole[2];
    for (int v = 0; v < 2; ++v) {
      __m512i sum = _mm512_add_epi32(_mm512_load_si512(sums + (r * kAmxVectors + v) * kByteLanes), start);
      if (kColumns) sum = _mm512_add_epi32(sum, offset[v]);
      const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), kColumns ? scales[v] : scale);
      whole[v] = _mm512_cvt_roundps_epi32(_mm512_min_ps(high, scaled), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }
    return _mm512_adds_epi16(_mm512_packs_epi32(whole[0], whole[1]), zero);
  };
  uint8_t* to = p.bytes + row * p.ldc + column;
  for (int64_t r = 0; r < rows; r += 2, to += 2 * p.ldc) {
    const bool both = r + 1 < rows;
    const __m512i one = narrow(r), other = both ? narrow(r + 1) : one;
    const __m512i bytes = kSigned ? _mm512_packs_epi16(one, other) : _mm512_packus_epi16(one, other);
    const __m512i rows_of_bytes = _mm512_permutexvar_epi32(in_order, bytes);
    _mm256_mask_storeu_epi8(to, mask, _mm512_castsi512_si256(rows_of_bytes));
    if (both) _mm256_mask_storeu_epi8(to + p.ldc, mask, _mm512_extracti64x4_epi64(rows_of_bytes, 1));
  }
}

MINNOW_PANEL void finish_bytes(const ByteProduct& p, int64_t row, int64_t rows, int64_t column, const uint32_t* sums) {
  const bool columns = p.offset != nullptr || p.scale_of_column;
  const auto finish = p.is_signed ? (columns ? finish_bytes<true, true> : finish_bytes<true, false>)
                                  : (columns ? finish_bytes<false, true> : finish_bytes<false, false>);
  finish(p, row, rows, column, sums);
}

template <class Tiles>
void multiply_amx(const ByteProduct& p) {
  if (p.rows <= kFewRows) {
    for (int64_t j = 0; j < p.columns; j += kAmxVectors * kByteLanes)
      p.columns - j > kByteLanes ? few_rows_of<2>(p, j) : few_rows_of<1>(p, j);
    return;
  }
  alignas(64) uint32_t sums[2 * kAmxRows * kAmxVectors * kByteLanes];
  Tiles tiles;
  const int64_t steps = (p.columns + kAmxVectors * kByteLanes - 1) / (kAmxVectors * kByteLanes) *
                        ((p.rows + 2 * kAmxRows - 1) / (2 * kAmxRows)) * (p.steps / kAmxRows);
  const int64_t lines = (p.soon_lanes + kByteLanes - 1) / kByteLanes;
  Soon soon = {reinterpret_cast<const char*>(p.soon), reinterpret_cast<const char*>(p.soon + p.soon_lanes),
               (lines + steps - 1) / std::max<int64_t>(steps, 1) * 64};
  const bool usual = p.scale != nullptr && p.factor == nullptr && !(p.offset != nullptr && p.scale_of_row);
  for (int64_t j = 0; j < p.columns; j += kAmxVectors * kByteLanes) {
    const bool wide = p.columns - j > kByteLanes;
    for (int64_t i = 0; i < p.rows; i += 2 * kAmxRows) {
      const int64_t rows = std::min<int64_t>(2 * kAmxRows, p.rows - i);
      if (rows > kAmxRows)
        wide ? amx_tiles<Tiles, 2, 2>(tiles, p, i, j, soon, sums) : amx_tiles<Tiles, 2, 1>(tiles, p, i, j, soon, sums);
      else
        wide ? amx_tiles<Tiles, 1, 2>(tiles, p, i, j, soon, sums) : amx_tiles<Tiles, 1, 1>(tiles, p, i, j, soon, sums);
      if (wide && usual)
        finish_bytes(p, i, rows, j, sums);
      else
        wide ? finish_tiles<2>(p, i, rows, j, sums) : finish_tiles<1>(p, i, rows, j, sums);
    }
  }
}

MINNOW_PANEL void lanes_of_planes(const uint8_t* const (&rows)[4], int channels, int64_t n, uint8_t flip, int64_t width,
                                  uint32_t* lanes) {
  const __m128i flips = _mm_set1_epi8(static_cast<char>(flip));
  for (int64_t i = 0; i < width; i += kByteLanes) {
    const int64_t count = std::clamp<int64_t>(n - i, 0, kByteLanes);
    const __mmask16 mask = static_cast<__mmask16>((1u << count) - 1);
    __m128i x[4];
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c)
      x[c] = c < channels ? _mm_xor_si128(_mm_maskz_loadu_epi8(mask, rows[c] + i), flips) : _mm_setzero_si128();
    const __m128i low[2] = {_mm_unpacklo_epi8(x[0], x[1]), _mm_unpacklo_epi8(x[2], x[3])};
    const __m128i high[2] = {_mm_unpackhi_epi8(x[0], x[1]), _mm_unpackhi_epi8(x[2], x[3])};
    __m128i* to = reinterpret_cast<__m128i*>(lanes + i);
    _mm_storeu_si128(to, _mm_unpacklo_epi16(low[0], low[1]));
    _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(low[0], low[1]));
    _mm_storeu_si128(to + 2, _mm_unpacklo_epi16(high[0], high[1]));
    _mm_storeu_si128(to + 3, _mm_unpackhi_epi16(high[0], high[1]));
  }
}

// Lines of full vectors, which lie as they are wanted.
template <int kVectors>
MINNOW_PANEL void copy_lines(const uint32_t* from, const int64_t* offset, int64_t steps, uint32_t* panel) {
  for (int64_t s = 0; s < steps; ++s, panel += kVectors * kByteLanes)
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v)
      _mm512_storeu_si512(panel + v * kByteLanes, _mm512_loadu_si512(from + offset[s] + v * kByteLanes));
}

MINNOW_PANEL void copy_segments(const uint32_t* from, const int64_t* offset, int64_t steps, const ByteSegment* segments,
                                int count, int64_t width, uint32_t* panel) {
  for (int64_t s = 0; s < steps; ++s, panel += width) {
    for (int i = 0; i < count; ++i) {
      const ByteSegment& part = segments[i];
      for (int64_t k = 0; k < part.n; k += kByteLanes) {
        const __mmask16 mask = static_cast<__mmask16>((1u << std::min<int64_t>(part.n - k, kByteLanes)) - 1);
        _mm512_mask_storeu_epi32(panel + part.to + k, mask,
                                 _mm512_maskz_loadu_epi32(mask, from + offset[s] + part.from + k));
      }
    }
  }
}

void panel_of_planes(const uint8_t* from, int64_t plane, int64_t channels, int64_t n, uint8_t flip, int64_t width,
                     uint32_t* panel) {
  for (int64_t c = 0; c < channels; c += 4, panel += width) {
    const uint8_t* first = from + c * plane;
    const int64_t count = std::min<int64_t>(4, channels - c);
    const uint8_t* const rows[4] = {first, first + plane, first + 2 * plane, first + 3 * plane};
    lanes_of_planes(rows, static_cast<int>(count), n, flip, width, panel);
  }
}

void panel_of_lanes(const uint32_t* from, const int64_t* offset, int64_t steps, const ByteSegment* segments, int count,
                    int64_t width, uint32_t* panel) {
  const ByteSegment& all = segments[0];
  if (count > 1 || all.n % kByteLanes != 0 || all.n != width)
    return copy_segments(from, offset, steps, segments, count, width, panel);
  const uint32_t* first = from + all.from;
  const int64_t vectors = width / kByteLanes;
  vectors == 3   ? copy_lines<3>(first, offset, steps, panel)
  : vectors == 2 ? copy_lines<2>(first, offset, steps, panel)
                 : copy_lines<1>(first, offset, steps, panel);
}

constexpr int64_t kVnniRate = 1, kAmxRate = 16;
constexpr ByteUnit kVnni = {
    "bytes", kVnniRows, 1, kVnniVectors, kVnniRate, multiply_vnni,    panel_of_planes,   panel_of_lanes,
    nullptr, false,     0, nullptr,      nullptr,   ByteTiles::kNone, multiply_byte_dots};
constexpr ByteUnit kAmx = {
    "bytes_amx",         kAmxRows, kAmxRows, kAmxVectors, kAmxRate,        multiply_amx<AmxTiles>, panel_of_planes,
    panel_of_lanes,      nullptr,  false,    kFewRows,    AmxTiles::begin, AmxTiles::end,          ByteTiles::kAmx,
    multiply_byte_pixels};
// Cold, so that it is compiled for size: tests alone run it, and a first product that is compared with it.
[[gnu::cold]] void emulate(const ByteProduct& p) { multiply_amx<EmulatedTiles>(p); }

constexpr ByteUnit kEmulated = {"bytes_emulated",
                                kAmxRows,
                                kAmxRows,
                                kAmxVectors,
                                kAmxRate,
                                emulate,
                                panel_of_planes,
                                panel_of_lanes,
                                nullptr,
                                false,
                                kFewRows,
                                EmulatedTiles::begin,
                                EmulatedTiles::end,
                                ByteTiles::kEmulated,
                                multiply_emulated_byte_pixels};

// Whether a unit gives the sums of the emulation, of bytes of all kinds, by each way through its loops.
bool multiplies_right(const ByteUnit& unit) {
  constexpr int kSteps = 3 * kAmxRows, kSide = 40;
  struct Data {
    uint32_t left[3 * kAmxRows * kSteps], right[kSteps * kAmxVectors * kByteLanes];
    uint32_t start[kSide], sums[2][kSide * kSide];
  };
  const auto data = std::make_unique<Data>();
  uint32_t random = 12345;
  const auto next = [&] {
    random = random * 1664525u + 1013904223u;
    return random ^ random >> 15;
  };
  for (uint32_t& x : data->left) x = next();
  for (uint32_t& x : data->right) x = next();
  for (uint32_t& x : data->start) x = next();
  ByteUse use(unit), emulation(kEmulated);
  ByteProduct p;
  p.left = data->left;
  p.right = data->right;
  p.steps = kSteps;
  p.width = kAmxVectors * kByteLanes;
  p.start = data->start;
  p.ldc = kSide;
  for (p.rows = 1; p.rows <= kSide; p.rows += 13) {
    for (p.columns = 1; p.columns <= p.width; p.columns += 15) {
      for (uint32_t& x : data->sums[0]) x = 1;
      std::memcpy(data->sums[1], data->sums[0], sizeof(data->sums[0]));
      p.sums = data->sums[0];
      emulation.multiply(p);
      p.sums = data->sums[1];
      use.multiply(p);
      if (std::memcmp(data->sums[0], data->sums[1], sizeof(data->sums[0])) != 0) return false;
    }
  }
  return true;
}

}  // namespace

const ByteUnit* avx512_byte_unit(const std::string& wanted) {
  if (!__builtin_cpu_supports("avx512vnni")) return nullptr;
  if (wanted == "emulated") return &kEmulated;
  if ((wanted.empty() || wanted == "amx") && request_amx(AmxNumbers::kBytes) && multiplies_right(kAmx)) return &kAmx;
  return wanted.empty() || wanted == "avx512" ? &kVnni : nullptr;
}

}  // namespace minnow
#else
namespace minnow {

const ByteUnit* avx512_byte_unit(const std::string&) { return nullptr; }

}  // namespace minnow
#endif
