// Units for products of bytes by AVX2: with its own instructions, or with those of AVX-VNNI.
#include "kernels/cpu/machine/simd.h"
//
#include "hwy/detect_targets.h"
#include "kernels/cpu/conv/copy_line.h"
#include "kernels/cpu/gemm/byte_product.h"

#if HWY_ARCH_X86_64 && (HWY_TARGETS & HWY_AVX2)
#include <cpuid.h>
#include <immintrin.h>

#include <cstring>

#include "kernels/cpu/gemm/byte_terms.h"

#define MINNOW_AVX2 __attribute__((target("avx2")))
#define MINNOW_AVX2_INLINE MINNOW_AVX2 inline __attribute__((always_inline))
#define MINNOW_VNNI __attribute__((target("avx2,avxvnni")))

// Some files are compiled as one.
namespace minnow {
namespace byte_product_avx2 {
namespace {

constexpr int kRows = 4, kHalf = 8;  // numbers of a vector
constexpr int64_t kPanelVectors = 2;

MINNOW_AVX2_INLINE __m256i load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
MINNOW_AVX2_INLINE void store(void* to, __m256i x) { _mm256_storeu_si256(static_cast<__m256i*>(to), x); }
MINNOW_AVX2_INLINE __m256i all(uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }

// Sums of `rows` rows from `row` on, kByteLanes columns of each, become what is wanted of them.
MINNOW_AVX2 void finish(const ByteProduct& p, int64_t row, int64_t rows, int64_t column, const uint32_t* sums) {
  const int64_t n = std::min<int64_t>(kByteLanes, p.columns - column);
  const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5),
                zero = _mm256_set1_epi16(static_cast<short>(p.zero));
  // What is too large for an integer would become a negative one, as NaN does.
  const __m256 high = _mm256_set1_ps(1024);
  __m256i mask[2], offset[2], at_column[2];
  __m256 scale[2];
  for (int v = 0; v < 2; ++v) {
    const __m256i places =
        _mm256_add_epi32(all(static_cast<uint32_t>(kHalf * v)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    mask[v] = _mm256_cmpgt_epi32(all(static_cast<uint32_t>(n)), places);
    const int64_t at = column + kHalf * v;
    const auto numbers = [&](const uint32_t* from) __attribute__((always_inline, target("avx2"))) {
      return from == nullptr ? _mm256_setzero_si256()
                             : _mm256_maskload_epi32(reinterpret_cast<const int*>(from + at), mask[v]);
    };
    offset[v] = numbers(p.offset);
    at_column[v] = numbers(p.factor == nullptr ? nullptr : p.column);
    scale[v] = p.scale_of_column ? _mm256_maskload_ps(p.scale + at, mask[v]) : _mm256_setzero_ps();
  }
  for (int64_t r = 0; r < rows; ++r, sums += kByteLanes) {
    const __m256i start = all(p.start[row + r]), factor = all(p.factor == nullptr ? 0 : p.factor[row + r]);
    const __m256 of_row = _mm256_set1_ps(p.scale == nullptr ? 0 : p.scale[p.scale_of_row ? row + r : 0]);
    __m256i y[2];
    for (int v = 0; v < 2; ++v) {
      y[v] = _mm256_add_epi32(_mm256_add_epi32(load(sums + kHalf * v), start), offset[v]);
      if (p.factor != nullptr) y[v] = _mm256_sub_epi32(y[v], _mm256_mullo_epi32(at_column[v], factor));
      if (p.scale == nullptr) {
        int* to = reinterpret_cast<int*>(p.sums + (row + r) * p.ldc + column + kHalf * v);
        // A store with a mask takes AMD's processors as long as all the rest.
        n >= kByteLanes ? store(to, y[v]) : _mm256_maskstore_epi32(to, mask[v], y[v]);
        continue;
      }
      const __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(y[v]), p.scale_of_column ? scale[v] : of_row);
      y[v] = _mm256_cvtps_epi32(_mm256_min_ps(high, scaled));
    }
    if (p.scale == nullptr) continue;
    const __m256i pairs = _mm256_adds_epi16(_mm256_packs_epi32(y[0], y[1]), zero);
    const __m256i bytes = p.is_signed ? _mm256_packs_epi16(pairs, pairs) : _mm256_packus_epi16(pairs, pairs);
    const __m128i result = _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(bytes, in_order));
    uint8_t* to = p.bytes + (row + r) * p.ldc + column;
    if (n == kByteLanes) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), result);
      continue;
    }
    alignas(16) uint8_t part[kByteLanes];
    _mm_store_si128(reinterpret_cast<__m128i*>(part), result);
    std::memcpy(to, part, static_cast<size_t>(n));
  }
}

// Not inlined, where results end within a vector.
[[gnu::noinline]] void put_some(const void* from, int64_t n, uint8_t* to) {
  copy_line(from, static_cast<size_t>(n), to);
}

// The usual case: bytes, by a scale of each row or one for all. Two rows at a time.
MINNOW_AVX2 void finish_bytes(const ByteProduct& p, int64_t row, int64_t rows, int64_t column, const uint32_t* sums) {
  const int64_t n = std::min<int64_t>(kByteLanes, p.columns - column), step = p.scale_of_row ? 1 : 0;
  const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i zero = _mm256_set1_epi16(static_cast<short>(p.zero));
  const __m256 high = _mm256_set1_ps(1024);  // as above
  uint8_t* to = p.bytes + row * p.ldc + column;
  alignas(32) uint8_t block[kRows][kByteLanes];  // for columns
  const auto numbers = [&](int64_t r) __attribute__((always_inline, target("avx2"))) {
    const __m256i start = all(p.start[row + r]);
    const __m256 scale = _mm256_set1_ps(p.scale[(row + r) * step]);
    __m256i y[2];
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      const __m256i sum = _mm256_add_epi32(load(sums + r * kByteLanes + kHalf * v), start);
      y[v] = _mm256_cvtps_epi32(_mm256_min_ps(high, _mm256_mul_ps(_mm256_cvtepi32_ps(sum), scale)));
    }
    return _mm256_adds_epi16(_mm256_packs_epi32(y[0], y[1]), zero);
  };
  for (int64_t r = 0; r < rows; r += 2, to += 2 * p.ldc) {
    const bool both = r + 1 < rows;
    const __m256i one = numbers(r), other = both ? numbers(r + 1) : one;
    const __m256i bytes = p.is_signed ? _mm256_packs_epi16(one, other) : _mm256_packus_epi16(one, other);
    const __m256i result = _mm256_permutevar8x32_epi32(bytes, in_order);
    if (p.is_transposed) {
      store(block[r], result);
      continue;
    }
    if (n == kByteLanes) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(result));
      if (both) _mm_storeu_si128(reinterpret_cast<__m128i*>(to + p.ldc), _mm256_extracti128_si256(result, 1));
      continue;
    }
    alignas(32) uint8_t part[2][kByteLanes];
    store(part, result);
    for (int i = 0; i < (both ? 2 : 1); ++i) put_some(part[i], n, to + i * p.ldc);
  }
  if (!p.is_transposed) return;
  to = p.bytes + row + column * p.ldc;
  const auto line = [&](int r) __attribute__((always_inline, target("avx2"))) {
    return _mm_load_si128(reinterpret_cast<const __m128i*>(block[r]));
  };
  const __m128i low[2] = {_mm_unpacklo_epi8(line(0), line(1)), _mm_unpacklo_epi8(line(2), line(3))};
  const __m128i upper[2] = {_mm_unpackhi_epi8(line(0), line(1)), _mm_unpackhi_epi8(line(2), line(3))};
  alignas(16) uint32_t columns[kByteLanes];
  __m128i* four = reinterpret_cast<__m128i*>(columns);
  _mm_store_si128(four, _mm_unpacklo_epi16(low[0], low[1]));
  _mm_store_si128(four + 1, _mm_unpackhi_epi16(low[0], low[1]));
  _mm_store_si128(four + 2, _mm_unpacklo_epi16(upper[0], upper[1]));
  _mm_store_si128(four + 3, _mm_unpackhi_epi16(upper[0], upper[1]));
  for (int64_t j = 0; j < n; ++j, to += p.ldc)
    rows == kRows ? static_cast<void>(std::memcpy(to, columns + j, kRows)) : put_some(columns + j, rows, to);
}

template <int kVectors>
MINNOW_AVX2_INLINE void load_step(const ByteTerm& term, const uint32_t* right, size_t width, __m256i (&x)[kVectors]) {
  const uint32_t* from = right + term.step * width;
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) x[v] = load(from + kHalf * v);
}

// By terms, whose sums fit into 16 bits.
template <int kVectors>
MINNOW_AVX2 void term_tile(const ByteProduct& p, const ByteTerms& block, int64_t column, uint32_t* sums) {
  __m256i sum[kRows][kVectors];
  const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm256_setzero_si256();
  const uint32_t* right = p.right + column;
  const size_t width = static_cast<size_t>(p.width);
  const ByteTerm *term = block.terms(), *end = term + 2 * block.pairs;
  for (; term < end; term += 2) {
    __m256i x[kVectors], y[kVectors];
    load_step(term[0], right, width, x);
    load_step(term[1], right, width, y);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const __m256i one = all(term[0].weight[r]), other = all(term[1].weight[r]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const __m256i both = _mm256_add_epi16(_mm256_maddubs_epi16(x[v], one), _mm256_maddubs_epi16(y[v], other));
        sum[r][v] = _mm256_add_epi32(sum[r][v], _mm256_madd_epi16(both, ones));
      }
    }
  }
  for (end += block.singles; term < end; ++term) {
    __m256i x[kVectors];
    load_step(*term, right, width, x);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const __m256i w = all(term->weight[r]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v)
        sum[r][v] = _mm256_add_epi32(sum[r][v], _mm256_madd_epi16(_mm256_maddubs_epi16(x[v], w), ones));
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) store(sums + r * kByteLanes + kHalf * v, sum[r][v]);
}

// Bytes of both kinds as numbers of 16 bits, in whose sums nothing is lost.
struct Widened {
  template <int kR, int kVectors>
  static MINNOW_AVX2_INLINE void add(const uint32_t* b, const uint32_t* a, __m256i (&sum)[kR][kVectors]) {
    const __m256i low = _mm256_set1_epi16(0xff);
    __m256i even[kVectors], odd[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __m256i x = load(b + kHalf * v);
      even[v] = _mm256_and_si256(x, low);
      odd[v] = _mm256_srli_epi16(x, 8);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kR; ++r) {
      const __m256i w = all(a[r]), upper = _mm256_srai_epi16(w, 8),
                    lower = _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = _mm256_add_epi32(sum[r][v], _mm256_madd_epi16(even[v], lower));
        sum[r][v] = _mm256_add_epi32(sum[r][v], _mm256_madd_epi16(odd[v], upper));
      }
    }
  }
};

struct Fours {
  template <int kR, int kVectors>
  static MINNOW_VNNI inline __attribute__((always_inline)) void add(const uint32_t* b, const uint32_t* a,
                                                                    __m256i (&sum)[kR][kVectors]) {
    __m256i x[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) x[v] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + kHalf * v));
#pragma GCC unroll 4
    for (int r = 0; r < kR; ++r) {
      const __m256i w = _mm256_set1_epi32(static_cast<int>(a[r]));
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm256_dpbusd_avx_epi32(sum[r][v], x[v], w);
    }
  }
};

#define MINNOW_TILE(NAME, KIND, TARGET)                                                                      \
  template <int kR, int kVectors>                                                                            \
  TARGET void NAME(const ByteProduct& p, int64_t row, int64_t column, uint32_t* sums) {                      \
    __m256i sum[kR][kVectors];                                                                               \
    for (int r = 0; r < kR; ++r)                                                                             \
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm256_setzero_si256();                                 \
    const uint32_t *a = p.left + row * p.steps, *b = p.right + column;                                       \
    for (int64_t s = p.steps; s > 0; --s, a += kRows, b += p.width) KIND::add<kR, kVectors>(b, a, sum);      \
    for (int r = 0; r < kR; ++r)                                                                             \
      for (int v = 0; v < kVectors; ++v)                                                                     \
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + r * kVectors * kHalf + kHalf * v), sum[r][v]); \
  }
MINNOW_TILE(wide_tile, Widened, MINNOW_AVX2)
MINNOW_TILE(vnni_tile, Fours, MINNOW_VNNI)
#undef MINNOW_TILE

using Tile = void (*)(const ByteProduct& p, int64_t row, int64_t column, uint32_t* sums);

// One row reads a line of the panel at once, as it comes from memory.
template <Tile kTile, Tile kLine, Tile kRow>
void multiply_left(const ByteProduct& p) {
  alignas(32) uint32_t sums[kRows * kByteLanes];
  for (int64_t j = 0; j < p.columns;) {
    const bool line = p.rows == 1 && p.columns - j > kByteLanes;
    for (int64_t i = 0; i < p.rows; i += kRows) {
      const int64_t rows = std::min<int64_t>(kRows, p.rows - i);
      (line ? kLine : rows == 1 ? kRow : kTile)(p, i, j, sums);
      finish(p, i, rows, j, sums);
      if (line) finish(p, i, rows, j + kByteLanes, sums + kByteLanes);
    }
    j += line ? 2 * kByteLanes : kByteLanes;
  }
}

void multiply_avx2(const ByteProduct& p) {
  if (p.terms == nullptr) return multiply_left<wide_tile<kRows, 2>, wide_tile<1, 4>, wide_tile<1, 2>>(p);
  alignas(32) uint32_t sums[kRows * kByteLanes] = {};
  const bool usual = p.scale != nullptr && p.factor == nullptr && p.offset == nullptr && !p.scale_of_column;
  for (int64_t j = 0; j < p.columns; j += kByteLanes) {
    const bool narrow = p.columns - j <= kHalf;
    for (int64_t i = 0; i < p.rows; i += kRows) {
      const ByteTerms& block = *reinterpret_cast<const ByteTerms*>(p.terms + p.blocks[i / kRows]);
      narrow ? term_tile<1>(p, block, j, sums) : term_tile<2>(p, block, j, sums);
      const int64_t rows = std::min<int64_t>(kRows, p.rows - i);
      usual ? finish_bytes(p, i, rows, j, sums) : finish(p, i, rows, j, sums);
    }
  }
}

MINNOW_AVX2 void panel_of_planes(const uint8_t* from, int64_t plane, int64_t channels, int64_t n, uint8_t flip,
                                 int64_t width, uint32_t* panel) {
  const __m128i flips = _mm_set1_epi8(static_cast<char>(flip));
  for (int64_t c = 0; c < channels; c += 4, panel += width) {
    for (int64_t i = 0; i < width; i += kByteLanes) {
      const int64_t count = std::clamp<int64_t>(n - i, 0, kByteLanes);
      __m128i x[4];
      for (int64_t k = 0; k < 4; ++k) {
        const uint8_t* at = from + std::min(c + k, channels - 1) * plane + i;  // one too many meets zeros
        alignas(16) uint8_t part[kByteLanes] = {};
        if (count < kByteLanes) at = static_cast<uint8_t*>(std::memcpy(part, at, static_cast<size_t>(count)));
        x[k] = _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)), flips);
      }
      const __m128i low[2] = {_mm_unpacklo_epi8(x[0], x[1]), _mm_unpacklo_epi8(x[2], x[3])};
      const __m128i high[2] = {_mm_unpackhi_epi8(x[0], x[1]), _mm_unpackhi_epi8(x[2], x[3])};
      __m128i* to = reinterpret_cast<__m128i*>(panel + i);
      _mm_storeu_si128(to, _mm_unpacklo_epi16(low[0], low[1]));
      _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(low[0], low[1]));
      _mm_storeu_si128(to + 2, _mm_unpacklo_epi16(high[0], high[1]));
      _mm_storeu_si128(to + 3, _mm_unpackhi_epi16(high[0], high[1]));
    }
  }
}

MINNOW_AVX2 void panel_of_rows(const uint8_t* from, int64_t k, int64_t n, uint8_t flip, int64_t width,
                               uint32_t* panel) {
  constexpr int64_t kSide = 4;
  const __m128i flips = _mm_set1_epi8(static_cast<char>(flip));
  for (int64_t j = 0; j < n; ++j) {
    int64_t i = 0;
    if (j % kSide == 0 && j + kSide <= n) {
      for (; i + 4 * kSide <= k; i += 4 * kSide) {
        __m128 x[kSide];
        for (int64_t r = 0; r < kSide; ++r)
          x[r] = _mm_castsi128_ps(
              _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + (j + r) * k + i)), flips));
        _MM_TRANSPOSE4_PS(x[0], x[1], x[2], x[3]);
        for (int64_t s = 0; s < kSide; ++s)
          _mm_storeu_ps(reinterpret_cast<float*>(panel + (i / 4 + s) * width + j), x[s]);
      }
    } else if (j / kSide * kSide + kSide <= n) {
      i = k / (4 * kSide) * (4 * kSide);  // is there already
    }
    for (; i < k; i += 4) {
      uint32_t lane = 0;
      std::memcpy(&lane, from + j * k + i, static_cast<size_t>(std::min<int64_t>(4, k - i)));
      panel[i / 4 * width + j] = lane ^ (flip * 0x01010101u);
    }
  }
}

MINNOW_AVX2 void panel_of_lanes(const uint32_t* from, const int64_t* offset, int64_t steps, const ByteSegment* segments,
                                int count, int64_t width, uint32_t* panel) {
  for (int64_t s = 0; s < steps; ++s, panel += width) {
    for (int i = 0; i < count; ++i) {
      const uint32_t* source = from + offset[s] + segments[i].from;
      uint32_t* to = panel + segments[i].to;
      const int64_t n = segments[i].n;
      int64_t k = 0;
      for (; k + kHalf <= n; k += kHalf) store(to + k, load(source + k));
      for (; k < n; ++k) to[k] = source[k];
    }
  }
}

constexpr ByteUnit kAvx2 = {"bytes_avx2",        kRows,         1, kPanelVectors, 1, multiply_avx2, panel_of_planes,
                            panel_of_lanes,      panel_of_rows,
                            /*takes_terms=*/true};
constexpr ByteUnit kAvxVnni = {"bytes_avx_vnni",
                               kRows,
                               1,
                               kPanelVectors,
                               1,
                               multiply_left<vnni_tile<kRows, 2>, vnni_tile<1, 4>, vnni_tile<1, 2>>,
                               panel_of_planes,
                               panel_of_lanes};

bool has_avx_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & 1u << 4) != 0;
}

}  // namespace
}  // namespace byte_product_avx2

const ByteUnit* avx2_byte_unit(const std::string& wanted) {
  using namespace byte_product_avx2;
  if ((wanted.empty() || wanted == "avx_vnni") && has_avx_vnni()) return &kAvxVnni;
  return wanted.empty() || wanted == "avx2" ? &kAvx2 : nullptr;
}

}  // namespace minnow
#else
namespace minnow {

const ByteUnit* avx2_byte_unit(const std::string&) { return nullptr; }

}  // namespace minnow
#endif
