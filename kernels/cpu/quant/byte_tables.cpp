#include "kernels/cpu/quant/byte_tables.h"

#include "kernels/cpu/machine/packed_layout.h"
#include "kernels/cpu/machine/simd.h"

#if MINNOW_AVX512
#include <immintrin.h>

#include <algorithm>

#define MINNOW_TABLES __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx512vbmi,avx512vnni")))
#define MINNOW_TABLES_INLINE MINNOW_TABLES inline __attribute__((always_inline))

namespace minnow {
namespace {

// Without a mask, GCC 12 warns of what some instructions leave undefined, which is nothing.
constexpr __mmask16 kAll = 0xffff;
constexpr __mmask8 kHalf = 0xff;

// A table of 256 bytes. Two instructions look up 64 bytes in a half of it each.
struct ByteTable {
  __m512i part[4];
};

MINNOW_TABLES_INLINE ByteTable load_table(const uint8_t* table) {
  ByteTable t;
  for (int i = 0; i < 4; ++i) t.part[i] = _mm512_loadu_si512(table + 64 * i);
  return t;
}

MINNOW_TABLES_INLINE __m512i find_bytes(const ByteTable& t, __m512i x) {
  const __m512i low = _mm512_permutex2var_epi8(t.part[0], x, t.part[1]);
  const __m512i high = _mm512_permutex2var_epi8(t.part[2], x, t.part[3]);
  return _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high);
}

// A table of numbers of 32 bits: one for each of their bytes.
struct WideTable {
  alignas(64) uint8_t bytes[4][256];
};

MINNOW_TABLES void split_table(const uint32_t* table, WideTable* t) {
  for (int i = 0; i < 256; i += 16) {
    const __m512i numbers = _mm512_loadu_si512(table + i);
    for (int k = 0; k < 4; ++k) {
      const __m512i shifted = _mm512_maskz_srli_epi32(kAll, numbers, static_cast<unsigned>(8 * k));
      _mm_store_si128(reinterpret_cast<__m128i*>(t->bytes[k] + i), _mm512_maskz_cvtepi32_epi8(kAll, shifted));
    }
  }
}

// 64 numbers of 32 bits.
MINNOW_TABLES_INLINE void find_numbers(const WideTable& t, __m512i x, __m512i (&y)[4]) {
  // The instructions that interleave bytes do so in each quarter of a register.
  const __m512i quarters = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i at = _mm512_maskz_permutexvar_epi32(kAll, quarters, x);
  __m512i part[4];
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) part[k] = find_bytes(load_table(t.bytes[k]), at);
  const __m512i low[2] = {_mm512_unpacklo_epi8(part[0], part[1]), _mm512_unpacklo_epi8(part[2], part[3])};
  const __m512i high[2] = {_mm512_unpackhi_epi8(part[0], part[1]), _mm512_unpackhi_epi8(part[2], part[3])};
  y[0] = _mm512_unpacklo_epi16(low[0], low[1]);
  y[1] = _mm512_unpackhi_epi16(low[0], low[1]);
  y[2] = _mm512_unpacklo_epi16(high[0], high[1]);
  y[3] = _mm512_unpackhi_epi16(high[0], high[1]);
}

struct TwoRoundings {
  __m512i multiplier, positive, negative;
  __m128i shift;
};

// A number in the lower half of each 64 bits: round(round(x * multiplier / 2^31) / 2^right), the first time halves up,
// then away from zero. Both are one shift: of two floors only the last one counts, and a number that is below zero
// after the first rounding is one less for the second.
MINNOW_TABLES_INLINE __m512i scaled_half(__m512i x, const TwoRoundings& r) {
  const __m512i product = _mm512_maskz_mul_epi32(kHalf, x, r.multiplier);
  const __m512i half = _mm512_mask_blend_epi64(_mm512_movepi64_mask(product), r.positive, r.negative);
  return _mm512_maskz_sra_epi64(kHalf, _mm512_add_epi64(product, half), r.shift);
}

// The same with the multiplier 2^30, which only halves, and shifts of less than 31: nothing exceeds 32 bits.
MINNOW_TABLES_INLINE __m512i halved(__m512i x, __m512i half, __m128i right) {
  const __m512i low = _mm512_maskz_and_epi32(kAll, x, _mm512_set1_epi32(1));
  const __m512i y = _mm512_add_epi32(_mm512_maskz_srai_epi32(kAll, x, 1), low);
  const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(y, half), _mm512_maskz_srai_epi32(kAll, y, 31));
  return _mm512_maskz_sra_epi32(kAll, rounded, right);
}

MINNOW_TABLES_INLINE __m512i scaled(__m512i x, const TwoRoundings& r) {
  const __m512i even = scaled_half(x, r), odd = scaled_half(_mm512_maskz_srli_epi64(kHalf, x, 32), r);
  return _mm512_mask_shuffle_epi32(even, 0xaaaa, odd, _MM_PERM_CCAA);
}

}  // namespace

bool has_byte_tables() {
  static const bool has =
      pack_width() == 16 && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni");
  return has;
}

MINNOW_TABLES void find_narrow(const uint8_t* x, const uint8_t* table, uint8_t lowest, int64_t n, uint8_t* y) {
  const ByteTable t = load_table(table);
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(lowest));
  int64_t i = 0;
  for (; i + 64 <= n; i += 64)
    _mm512_storeu_si512(y + i, find_bytes(t, _mm512_xor_si512(_mm512_loadu_si512(x + i), flip)));
  if (i == n) return;
  const __mmask64 mask = (uint64_t{1} << (n - i)) - 1;
  const __m512i last = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, x + i), flip);
  _mm512_mask_storeu_epi8(y + i, mask, find_bytes(t, last));
}

MINNOW_TABLES void find_wide(const uint8_t* x, const uint32_t* table, uint8_t lowest, int64_t n, uint32_t* y) {
  WideTable t;
  split_table(table, &t);
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(lowest));
  for (int64_t i = 0; i < n; i += 64) {
    __m512i numbers[4];
    find_numbers(t, _mm512_xor_si512(_mm512_loadu_si512(x + i), flip), numbers);
    for (int k = 0; k < 4; ++k) _mm512_storeu_si512(y + i + 16 * k, numbers[k]);
  }
}

namespace {

// A sum of tables as numbers of 32 bits, the way that QuantizedSum says.
class TableSum {
 public:
  MINNOW_TABLES explicit TableSum(const ByteSum& s) : halves_(s.multiplier == 1 << 30 && s.right < 31) {
    for (int i = 0; i < 2; ++i) split_table(s.table[i], &table_[i]);
    for (int i = 0; i < 2; ++i) flip_[i] = _mm512_set1_epi8(static_cast<char>(s.lowest[i]));
    const int64_t half = (int64_t{1} << 30) + (int64_t{1} << (30 + s.right));
    rounding_ = {_mm512_set1_epi64(s.multiplier), _mm512_set1_epi64(half), _mm512_set1_epi64(half - (int64_t{1} << 31)),
                 _mm_cvtsi32_si128(31 + s.right)};
    small_half_ = _mm512_set1_epi32(halves_ ? 1 << (s.right - 1) : 0);
    right_ = _mm_cvtsi32_si128(s.right);
    zero_ = _mm512_set1_epi32(s.zero);
    least_ = _mm512_set1_epi32(s.least);
    most_ = _mm512_set1_epi32(s.most);
  }

  // Up to 64 numbers.
  MINNOW_TABLES void add(const uint8_t* a, const uint8_t* b, int64_t n, uint8_t* y) const {
    const __mmask64 mask = ~uint64_t{0} >> (64 - n);
    __m512i one[4], other[4];
    find_numbers(table_[0], _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, a), flip_[0]), one);
    find_numbers(table_[1], _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, b), flip_[1]), other);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const __m512i total = _mm512_add_epi32(one[k], other[k]);
      const __m512i sum =
          _mm512_add_epi32(halves_ ? halved(total, small_half_, right_) : scaled(total, rounding_), zero_);
      const __m512i bounded = _mm512_maskz_min_epi32(kAll, _mm512_maskz_max_epi32(kAll, sum, least_), most_);
      _mm512_mask_cvtepi32_storeu_epi8(y + 16 * k, static_cast<__mmask16>(mask >> (16 * k)), bounded);
    }
  }

 private:
  WideTable table_[2];
  __m512i flip_[2];
  TwoRoundings rounding_;
  bool halves_;
  __m512i small_half_, zero_, least_, most_;
  __m128i right_;
};

// 64 numbers of each table, from -128 on; false where some sums are in doubt. The sums are in the order that packing
// them undoes.
MINNOW_TABLES_INLINE bool add_lines(const ByteSum::Lines& line, __m512i a, __m512i b, __m512i (&sum)[4]) {
  const __m512i high = _mm512_set1_epi32(static_cast<int>(line.high)),
                low = _mm512_set1_epi32(static_cast<int>(line.low));
  const __m512i start = _mm512_set1_epi32(line.start), doubt = _mm512_set1_epi32(line.doubt);
  const __m512i none = _mm512_setzero_si512();
  const __m128i fraction = _mm_cvtsi32_si128(line.fraction);
  const __m512i pairs[2] = {_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b)};
  __mmask16 doubts = 0;
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    // A number is the upper byte of 16 bits: 256 times itself for one instruction, itself for the other.
    const __m512i x = k % 2 == 0 ? _mm512_unpacklo_epi8(none, pairs[k / 2]) : _mm512_unpackhi_epi8(none, pairs[k / 2]);
    const __m512i y = _mm512_dpbusd_epi32(_mm512_dpwssd_epi32(start, x, high), low, x);
    doubts = static_cast<__mmask16>(doubts | _mm512_testn_epi32_mask(y, doubt));
    sum[k] = _mm512_maskz_sra_epi32(kAll, y, fraction);
  }
  return doubts == 0;
}

MINNOW_TABLES void sum_lines(const ByteSum& s, const TableSum& tables, const uint8_t* a, const uint8_t* b, int64_t n,
                             uint8_t* y) {
  const __m512i least = _mm512_set1_epi16(static_cast<short>(s.least));
  const __m512i most = _mm512_set1_epi16(static_cast<short>(s.most));
  const __m512i flip[2] = {_mm512_set1_epi8(static_cast<char>(s.lowest[0] ^ 0x80)),
                           _mm512_set1_epi8(static_cast<char>(s.lowest[1] ^ 0x80))};
  // Numbers from 0 to 255, or up to 127, are those that packing is limited to.
  const bool is_signed = s.least < 0, is_whole = s.most - s.least == 255;
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    __m512i sum[4];
    if (!add_lines(s.lines, _mm512_xor_si512(_mm512_loadu_si512(a + i), flip[0]),
                   _mm512_xor_si512(_mm512_loadu_si512(b + i), flip[1]), sum)) {
      tables.add(a + i, b + i, 64, y + i);
      continue;
    }
    __m512i pair[2];
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
      pair[k] = _mm512_packs_epi32(sum[2 * k], sum[2 * k + 1]);
      if (!is_whole) pair[k] = _mm512_min_epi16(_mm512_max_epi16(pair[k], least), most);
    }
    _mm512_storeu_si512(y + i,
                        is_signed ? _mm512_packs_epi16(pair[0], pair[1]) : _mm512_packus_epi16(pair[0], pair[1]));
  }
  if (i < n) tables.add(a + i, b + i, n - i, y + i);
}

}  // namespace

MINNOW_TABLES void sum_bytes(const ByteSum& s, const uint8_t* a, const uint8_t* b, int64_t n, uint8_t* y) {
  const TableSum tables(s);
  if (s.lines.fraction > 0) return sum_lines(s, tables, a, b, n, y);
  for (int64_t i = 0; i < n; i += 64) tables.add(a + i, b + i, std::min<int64_t>(64, n - i), y + i);
}

}  // namespace minnow
#else
namespace minnow {

bool has_byte_tables() { return false; }
void find_narrow(const uint8_t*, const uint8_t*, uint8_t, int64_t, uint8_t*) {}
void find_wide(const uint8_t*, const uint32_t*, uint8_t, int64_t, uint32_t*) {}
void sum_bytes(const ByteSum&, const uint8_t*, const uint8_t*, int64_t, uint8_t*) {}

}  // namespace minnow
#endif
