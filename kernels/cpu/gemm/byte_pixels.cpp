#include "kernels/cpu/gemm/byte_pixels.h"

#include "kernels/cpu/machine/amx.h"
#include "kernels/cpu/machine/simd.h"
#include "kernels/cpu/quant/fixed_lanes.h"

#if MINNOW_AVX512
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#define MINNOW_TILES __attribute__((target("avx512f,avx512vl,avx512bw")))
// What is inlined into such a function needs no attributes of its own but these.
#define MINNOW_TILES_INLINE MINNOW_TILES inline __attribute__((always_inline))

namespace minnow {
namespace {

constexpr int64_t kSumsOfRow = kByteRowBlocks * kByteRowColumns;

// The next pairs of rows of results: the instructions that narrow saturate, and take two vectors each.
template <bool kFixed>
[[gnu::noinline]] MINNOW_TILES void finish_some_rows(BytePixelsSpace& space, int64_t pairs) {
  const BytePixels& t = space.last;
  const uint32_t* sums = space.sums[1 - space.next];
  const __m512i in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i zero = _mm512_set1_epi16(static_cast<short>(t.zero));
  // What is too large for an integer would become a negative one, as NaN does.
  const __m512 high = _mm512_set1_ps(1024);
  const bool is_wide = t.blocks > 1, is_signed = t.gives_signed;
  __m512 scale[2];
  for (int i = 0; !kFixed && i < 2; ++i) scale[i] = _mm512_loadu_ps(t.scale + (is_wide ? i * kByteRowColumns : 0));
  const FixedLanes* fixed[2] = {t.fixed, t.fixed + (is_wide ? 1 : 0)};
  const FixedBytes narrow(t.zero, t.least, t.most, is_signed);
  const int64_t end = std::min(t.rows, space.done + 2 * pairs);
  int64_t r = space.done;
  for (; r < end; r += 2) {
    __m512i whole[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m512i sum = _mm512_load_si512(sums + r * kSumsOfRow + i * kByteRowColumns);
      if constexpr (kFixed) {
        whole[i] = scaled_lanes(*fixed[i % 2], sum);
        continue;
      }
      const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale[i % 2]);
      whole[i] = _mm512_cvt_roundps_epi32(_mm512_min_ps(high, scaled), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }
    const __m512i one =
        kFixed ? narrow.pair(whole[0], whole[1]) : _mm512_adds_epi16(_mm512_packs_epi32(whole[0], whole[1]), zero);
    const __m512i other =
        kFixed ? narrow.pair(whole[2], whole[3]) : _mm512_adds_epi16(_mm512_packs_epi32(whole[2], whole[3]), zero);
    const __m512i bytes = _mm512_permutexvar_epi32(
        in_order, is_signed ? _mm512_packs_epi16(one, other) : _mm512_packus_epi16(one, other));
    const int64_t first = t.place[r], second = r + 1 < t.rows ? t.place[r + 1] : -1;
    if (is_wide) {
      if (first >= 0) _mm256_storeu_si256(reinterpret_cast<__m256i*>(t.bytes + first), _mm512_castsi512_si256(bytes));
      if (second >= 0)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(t.bytes + second), _mm512_extracti64x4_epi64(bytes, 1));
      continue;
    }
    if (first >= 0) _mm_storeu_si128(reinterpret_cast<__m128i*>(t.bytes + first), _mm512_castsi512_si128(bytes));
    if (second >= 0)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(t.bytes + second), _mm512_extracti32x4_epi32(bytes, 2));
  }
  space.done = r;
}

void finish_rows(BytePixelsSpace& space, int64_t pairs) {
  if (space.done >= space.last.rows) return;
  space.last.fixed != nullptr ? finish_some_rows<true>(space, pairs) : finish_some_rows<false>(space, pairs);
}

template <int kSums, int kLeft, int kRight, bool kSigned, class Tiles>
MINNOW_TILES_INLINE void add(Tiles& tiles) {
  if constexpr (kSigned)
    tiles.template add_signed_product<kSums, kLeft, kRight>();
  else
    tiles.template add_unsigned_product<kSums, kLeft, kRight>();
}

// Tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7 weights: four products for four loads. What there is less of is computed
// twice.
template <class Tiles, bool kSigned>
MINNOW_TILES void multiply(const BytePixels& t, BytePixelsSpace& space) {
  Tiles tiles;
  uint32_t* sums = space.sums[space.next];
  const int64_t block = t.blocks > 1 ? t.steps * kByteRowStep : 0, half = t.rows > kAmxRows ? kAmxRows * t.row : 0;
  const int32_t* more = t.start + (t.blocks > 1 ? kByteRowColumns : 0);
  // Results of the sums before are made in as many places between the tiles as there are, since a processor looks at
  // some hundred instructions at a time: two for each step, and six others.
  const bool is_short = t.steps < 3;
  const int64_t pairs = is_short ? 2 : (space.last.rows + 2 * t.steps - 1) / (2 * t.steps);
  const auto finish = [&](bool here) {
    if (here) finish_rows(space, pairs);
  };
  // Each row of sums begins with the same numbers.
  tiles.template load<0>(t.start, 0);
  tiles.template load<1>(more, 0);
  finish(is_short);
  tiles.template load<2>(t.start, 0);
  tiles.template load<3>(more, 0);
  finish(is_short);
  const uint8_t *w = t.weights, *soon = t.soon, *end = t.soon + t.soon_bytes;
  const int64_t lines = t.soon_bytes == 0 ? 0 : (t.soon_bytes / 64 + t.steps - 1) / t.steps * 64;
  for (int64_t s = 0; s < t.steps; ++s, w += kByteRowStep) {
    const uint8_t* from = t.from + t.offset[s];
    tiles.template load<4>(from, t.row);
    tiles.template load<6>(w, kAmxBytes);
    add<0, 4, 6, kSigned>(tiles);
    tiles.template load<7>(w + block, kAmxBytes);
    add<1, 4, 7, kSigned>(tiles);
    finish(is_short);
    tiles.template load<5>(from + half, t.row);
    add<2, 5, 6, kSigned>(tiles);
    add<3, 5, 7, kSigned>(tiles);
    finish(space.done < space.last.rows);
    if (soon >= end) continue;
    for (int64_t i = 0; i < lines; i += 64) _mm_prefetch(soon + i, _MM_HINT_T1);
    soon += lines;
  }
  constexpr int64_t kRow = 4 * kSumsOfRow;
  tiles.template store<0>(sums, kRow);
  finish(is_short);
  tiles.template store<1>(sums + kByteRowColumns, kRow);
  finish(is_short);
  tiles.template store<2>(sums + kAmxRows * kSumsOfRow, kRow);
  finish(is_short);
  tiles.template store<3>(sums + kAmxRows * kSumsOfRow + kByteRowColumns, kRow);
  finish(is_short);
  space.last = t;
  space.done = 0;
  space.next = 1 - space.next;
}

// Sums of a row for each block, in registers with the weights of a step.
template <int kRows, int kBlocks>
__attribute__((target("avx512f,avx512vl,avx512bw,avx512vnni"))) void dot_rows(const BytePixels& t, uint32_t* to) {
  __m512i sum[kRows][kBlocks];
#pragma GCC unroll 14
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int b = 0; b < kBlocks; ++b) sum[r][b] = _mm512_loadu_si512(t.start + b * kByteRowColumns);
  // Three rows for each pointer: addresses have a factor.
  constexpr int kPointers = (kRows + 2) / 3;
  const int64_t row = t.row;
  const uint8_t *from[kPointers], *w = t.weights;
#pragma GCC unroll 5
  for (int i = 0; i < kPointers; ++i) from[i] = t.from + 3 * i * row;
  for (int64_t s = 0; s < t.steps; ++s, w += kBlocks * 4 * kByteRowColumns) {
    __m512i right[kBlocks];
#pragma GCC unroll 2
    for (int b = 0; b < kBlocks; ++b) right[b] = _mm512_loadu_si512(w + b * 4 * kByteRowColumns);
#pragma GCC unroll 14
    for (int r = 0; r < kRows; ++r) {
      int32_t four;
      std::memcpy(&four, from[r / 3] + r % 3 * row, sizeof(four));
      const __m512i left = _mm512_set1_epi32(four);
#pragma GCC unroll 2
      for (int b = 0; b < kBlocks; ++b) asm("vpdpbusd %2, %1, %0" : "+v"(sum[r][b]) : "v"(left), "v"(right[b]));
    }
#pragma GCC unroll 5
    for (int i = 0; i < kPointers; ++i) from[i] += 4;
  }
#pragma GCC unroll 14
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int b = 0; b < kBlocks; ++b) _mm512_store_si512(to + r * kSumsOfRow + b * kByteRowColumns, sum[r][b]);
}

template <int kBlocks>
void dot_rows_of(const BytePixels& t, uint32_t* to) {
  if (t.rows > 12) return dot_rows<kByteDotRows, kBlocks>(t, to);
  if (t.rows > 8) return dot_rows<12, kBlocks>(t, to);
  if (t.rows > 4) return dot_rows<8, kBlocks>(t, to);
  dot_rows<4, kBlocks>(t, to);
}

}  // namespace

void multiply_byte_dots(const BytePixels& t, BytePixelsSpace& space) {
  uint32_t* sums = space.sums[1 - space.next];
  t.blocks > 1 ? dot_rows_of<2>(t, sums) : dot_rows_of<1>(t, sums);
  space.last = t;
  space.done = 0;
  finish_byte_pixels(space);
}

void multiply_byte_pixels(const BytePixels& t, BytePixelsSpace& space) {
  t.takes_signed ? multiply<AmxTiles, true>(t, space) : multiply<AmxTiles, false>(t, space);
}

[[gnu::cold]] void multiply_emulated_byte_pixels(const BytePixels& t, BytePixelsSpace& space) {
  t.takes_signed ? multiply<EmulatedTiles, true>(t, space) : multiply<EmulatedTiles, false>(t, space);
}

void finish_byte_pixels(BytePixelsSpace& space) { finish_rows(space, kByteRowsAtOnce); }

}  // namespace minnow
#endif
