#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include <cstring>

#include "kernels/cpu/convert/blocks.h"
#include "kernels/cpu/gemm/byte_product.h"
#include "kernels/cpu/gemm/integer.h"
#include "kernels/cpu/machine/packed_layout.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D32 = hn::ScalableTag<int32_t>;
using D16 = hn::ScalableTag<int16_t>;
using V32 = hn::Vec<D32>;

// Rows of the left matrix times two vectors of columns, which hold pairs of 16 bits.
template <int kRows>
HWY_INLINE void pair_tile(const IntegerProduct& p, int64_t row, int64_t column, int32_t* c, int64_t ldc) {
  const D32 d32;
  const D16 d16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d32));
  // Each sum is in two parts, as instruction sets differ in where the products of a pair go.
  V32 left[kRows][2], right[kRows][2];
  for (int r = 0; r < kRows; ++r) left[r][0] = left[r][1] = right[r][0] = right[r][1] = hn::Zero(d32);
  const uint32_t* a = p.left + row * p.steps;
  for (int64_t s = 0; s < p.steps; ++s) {
    const int32_t* b = reinterpret_cast<const int32_t*>(p.right) + p.offset[s] + column;
    const auto b0 = hn::BitCast(d16, hn::LoadU(d32, b)), b1 = hn::BitCast(d16, hn::LoadU(d32, b + lanes));
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const auto factor = hn::BitCast(d16, hn::Set(d32, static_cast<int32_t>(a[r * p.steps + s])));
      left[r][0] = hn::ReorderWidenMulAccumulate(d32, factor, b0, left[r][0], left[r][1]);
      right[r][0] = hn::ReorderWidenMulAccumulate(d32, factor, b1, right[r][0], right[r][1]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    hn::StoreU(hn::RearrangeToOddPlusEven(left[r][0], left[r][1]), d32, c + r * ldc);
    hn::StoreU(hn::RearrangeToOddPlusEven(right[r][0], right[r][1]), d32, c + r * ldc + lanes);
  }
}

void multiply_pairs(const IntegerProduct& p) {
  constexpr int kRows = 4, kMost = 64;
  const D32 d32;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d32)), width = 2 * lanes;
  int32_t tile[kRows * kMost];
  for (int64_t j = 0; j < p.columns; j += width) {
    const int64_t columns = HWY_MIN(width, p.columns - j);
    for (int64_t i = 0; i < p.rows;) {
      const int64_t rows = p.rows - i >= kRows ? kRows : 1;
      rows == kRows ? pair_tile<kRows>(p, i, j, tile, width) : pair_tile<1>(p, i, j, tile, width);
      for (int64_t r = 0; r < rows; ++r, ++i) {
        const auto start = hn::Set(d32, static_cast<int32_t>(p.start[i]));
        for (int64_t k = 0; k < width; k += lanes) {
          int32_t* at = tile + r * width + k;
          auto sum = hn::Add(hn::LoadU(d32, at), start);
          if (p.column != nullptr) {
            const auto column = hn::LoadU(d32, reinterpret_cast<const int32_t*>(p.column) + j + k);
            sum = hn::Sub(sum, hn::Mul(column, hn::Set(d32, static_cast<int32_t>(p.factor[i]))));
          }
          hn::StoreU(sum, d32, at);
        }
        std::memcpy(p.c + i * p.ldc + j, tile + r * width, static_cast<size_t>(columns) * sizeof(int32_t));
      }
    }
  }
}

void pack_lanes(const uint8_t* const* rows, int64_t group, int64_t n, uint8_t flip, uint32_t* lanes) {
  const hn::ScalableTag<uint32_t> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const int64_t width = static_cast<int64_t>(hn::Lanes(d));
  const uint8_t *a = rows[0], *b = rows[1], *c = rows[group - 2], *e = rows[group - 1];
  const uint32_t flips = flip * (group == 4 ? 0x01010101u : 0x10001u);
  int64_t i = 0;
  if (group == 4) {
    const hn::CappedTag<uint8_t, 16> bytes;
    const int64_t some = static_cast<int64_t>(hn::Lanes(bytes));
    const auto flipped = hn::Set(bytes, flip);
    const auto at = [&](const uint8_t* from) HWY_ATTR { return hn::Xor(hn::LoadU(bytes, from + i), flipped); };
    for (; i + some <= n; i += some)
      hn::StoreInterleaved4(at(a), at(b), at(c), at(e), bytes, reinterpret_cast<uint8_t*>(lanes + i));
  }
  for (; i + width <= n; i += width) {
    auto x = hn::PromoteTo(d, hn::LoadU(d8, a + i));
    const auto second = hn::PromoteTo(d, hn::LoadU(d8, b + i));
    if (group == 4) {
      const auto third = hn::PromoteTo(d, hn::LoadU(d8, c + i)), fourth = hn::PromoteTo(d, hn::LoadU(d8, e + i));
      x = hn::Or(hn::Or(x, hn::ShiftLeft<8>(second)), hn::Or(hn::ShiftLeft<16>(third), hn::ShiftLeft<24>(fourth)));
    } else {
      x = hn::Or(x, hn::ShiftLeft<16>(second));
    }
    hn::StoreU(hn::Xor(x, hn::Set(d, flips)), d, lanes + i);
  }
  for (; i < n; ++i) {
    keep_scalar();
    const uint32_t second = b[i], third = c[i], fourth = e[i];
    lanes[i] = (a[i] | (group == 4 ? second << 8 | third << 16 | fourth << 24 : second << 16)) ^ flips;
  }
}

void widen_bytes(const uint8_t* from, int64_t n, int32_t flip, int32_t zero, int32_t* lanes) {
  const D32 d;
  const hn::Rebind<uint8_t, D32> d8;
  const int64_t width = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + width <= n; i += width) {
    const auto x = hn::Xor(hn::PromoteTo(d, hn::LoadU(d8, from + i)), hn::Set(d, flip));
    hn::StoreU(hn::Sub(x, hn::Set(d, zero)), d, lanes + i);
  }
  for (; i < n; ++i) {
    keep_scalar();
    lanes[i] = (static_cast<int32_t>(from[i]) ^ flip) - zero;
  }
}

void split_pairs(const uint32_t* from, int64_t n, uint32_t* even, uint32_t* odd) {
  const hn::ScalableTag<uint32_t> d;
  const int64_t width = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + 2 * width <= n; i += 2 * width) {
    hn::Vec<decltype(d)> a, b;
    hn::LoadInterleaved2(d, from + i, a, b);
    hn::StoreU(a, d, even + i / 2);
    hn::StoreU(b, d, odd + i / 2);
  }
  for (; i < n; ++i) {
    keep_scalar();
    (i % 2 == 0 ? even : odd)[i / 2] = from[i];
  }
}

// Bytes with flipped signs, 1 or 2 bytes each in the result. Returns their sum.
uint32_t pack_signed(const uint8_t* from, int64_t n, uint8_t flip, bool wide, void* to) {
  const D32 d;
  const hn::Rebind<int8_t, D32> d8;
  const hn::Rebind<int16_t, D32> d16;
  const int64_t width = static_cast<int64_t>(hn::Lanes(d));
  int8_t* narrow_to = static_cast<int8_t*>(to);
  int16_t* wide_to = static_cast<int16_t*>(to);
  auto sums = hn::Zero(d);
  int64_t i = 0;
  for (; i + width <= n; i += width) {
    const auto x =
        hn::Xor(hn::LoadU(d8, reinterpret_cast<const int8_t*>(from) + i), hn::Set(d8, static_cast<int8_t>(flip)));
    sums = hn::Add(sums, hn::PromoteTo(d, x));
    wide ? hn::StoreU(hn::PromoteTo(d16, x), d16, wide_to + i) : hn::StoreU(x, d8, narrow_to + i);
  }
  uint32_t sum = static_cast<uint32_t>(hn::GetLane(hn::SumOfLanes(d, sums)));
  for (; i < n; ++i) {
    keep_scalar();
    const int8_t x = static_cast<int8_t>(from[i] ^ flip);
    sum += static_cast<uint32_t>(static_cast<int32_t>(x));
    wide ? wide_to[i] = x : narrow_to[i] = x;
  }
  return sum;
}

uint32_t add_unsigned(const uint8_t* from, int64_t n, uint8_t flip) {
  const hn::ScalableTag<uint8_t> d;
  const hn::Repartition<uint64_t, decltype(d)> d64;
  const int64_t width = static_cast<int64_t>(hn::Lanes(d));
  const auto flips = hn::Set(d, flip);
#if HWY_TARGET > HWY_AVX3
  HWY_ALIGN uint8_t few[hn::MaxLanes(d)];
  if (n < width) {
    std::memset(few, flip, sizeof(few));
    std::memcpy(few, from, static_cast<size_t>(n));
    from = few;
    n = width;
  }
#endif
  auto sums = hn::Zero(d64);
  int64_t i = 0;
  for (; i + width <= n; i += width) sums = hn::Add(sums, hn::SumsOf8(hn::Xor(hn::LoadU(d, from + i), flips)));
#if HWY_TARGET <= HWY_AVX3
  const auto some = hn::FirstN(d, static_cast<size_t>(n - i));
  const auto last = hn::Xor(hn::MaskedLoad(some, d, from + i), flips);
  sums = hn::Add(sums, hn::SumsOf8(hn::IfThenElseZero(some, last)));
#else
  if (i < n) {
    const hn::RebindToSigned<decltype(d)> d8;
    const auto is_new = hn::Gt(hn::Iota(d8, 0), hn::Set(d8, static_cast<int8_t>(i + width - n - 1)));
    const auto last = hn::Xor(hn::LoadU(d, from + n - width), flips);
    sums = hn::Add(sums, hn::SumsOf8(hn::And(last, hn::BitCast(d, hn::VecFromMask(d8, is_new)))));
  }
#endif
  return static_cast<uint32_t>(hn::GetLane(hn::SumOfLanes(d64, sums)));
}

// Vectors of neighboring results.
template <int kVectors>
HWY_INLINE void convolve_some(const int32_t* lanes, const int64_t* offset, const int32_t* weight, int64_t taps,
                              int32_t* out) {
  const D32 d32;
  const D16 d16;
  const int64_t width = static_cast<int64_t>(hn::Lanes(d32));
  V32 sum[kVectors][2];
  for (auto& v : sum) v[0] = v[1] = hn::Zero(d32);
  for (int64_t t = 0; t < taps; ++t) {
    const auto w = hn::BitCast(d16, hn::Set(d32, weight[t] & 0xFFFF));
    const int32_t* from = lanes + offset[t];
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k) {
      // The upper halves are signs, which the upper half of a weight, zero, leaves out.
      const auto x = hn::BitCast(d16, hn::LoadU(d32, from + k * width));
      sum[k][0] = hn::ReorderWidenMulAccumulate(d32, x, w, sum[k][0], sum[k][1]);
    }
  }
  for (int k = 0; k < kVectors; ++k) hn::StoreU(hn::RearrangeToOddPlusEven(sum[k][0], sum[k][1]), d32, out + k * width);
}

void convolve_taps(const int32_t* lanes, const int64_t* offset, const int32_t* weight, int64_t taps, int64_t n,
                   int32_t* out) {
  const int64_t width = static_cast<int64_t>(hn::Lanes(D32()));
  int64_t i = 0;
  for (; i + 4 * width <= n; i += 4 * width) convolve_some<4>(lanes + i, offset, weight, taps, out + i);
  for (; i + 2 * width <= n; i += 2 * width) convolve_some<2>(lanes + i, offset, weight, taps, out + i);
  for (; i + width <= n; i += width) convolve_some<1>(lanes + i, offset, weight, taps, out + i);
  if (i == n) return;
  if (n >= width) return convolve_some<1>(lanes + n - width, offset, weight, taps, out + n - width);  // some once more
  HWY_ALIGN int32_t rest[hn::MaxLanes(D32())];
  convolve_some<1>(lanes, offset, weight, taps, rest);
  std::memcpy(out, rest, static_cast<size_t>(n) * sizeof(int32_t));
}

// Unsigned bytes of lanes, of which some may be zero.
void add_bytes(const uint32_t* lanes, int64_t n, uint32_t* sums) {
  const hn::ScalableTag<uint32_t> d;
  const auto bytes = hn::Set(d, 0xff00ffu), low = hn::Set(d, 0xffffu);
  const int64_t width = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + width <= n; i += width) {
    const auto x = hn::LoadU(d, lanes + i);
    const auto pairs = hn::Add(hn::And(x, bytes), hn::And(hn::ShiftRight<8>(x), bytes));
    const auto all = hn::Add(hn::And(pairs, low), hn::ShiftRight<16>(pairs));
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i), all), d, sums + i);
  }
  for (; i < n; ++i) {
    keep_scalar();
    const uint32_t x = lanes[i];
    sums[i] += (x & 0xff) + (x >> 8 & 0xff) + (x >> 16 & 0xff) + (x >> 24);
  }
}

int64_t pair_panel() { return 2 * static_cast<int64_t>(hn::Lanes(D32())); }

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow {
namespace {

HWY_EXPORT(multiply_pairs);
HWY_EXPORT(pair_panel);
HWY_EXPORT(pack_lanes);
HWY_EXPORT(widen_bytes);
HWY_EXPORT(pack_signed);
HWY_EXPORT(add_unsigned);
HWY_EXPORT(split_pairs);
HWY_EXPORT(add_bytes);
HWY_EXPORT(convolve_taps);

}  // namespace

int64_t integer_group() { return byte_unit() != nullptr || has_dot() ? 4 : 2; }

int64_t integer_panel() {
  if (byte_unit() != nullptr) return byte_unit()->vectors * kByteLanes;
  if (has_dot()) return kDotPanel;
  return HWY_DYNAMIC_DISPATCH(pair_panel)();
}

void gemm_integer(const IntegerProduct& p) {
#if HWY_ARCH_ARM_A64
  if (has_dot()) return gemm_integer_dot(p);
#endif
  HWY_DYNAMIC_DISPATCH(multiply_pairs)(p);
}

uint32_t pack_left(const uint8_t* from, int64_t k, int64_t stride, uint8_t flip, uint32_t* lanes) {
  constexpr int64_t kPart = 1024;
  uint8_t gathered[kPart];
  const int64_t group = integer_group();
  const bool wide = group == 2;
  if (k == 0) return 0;
  lanes[integer_steps(k) - 1] = 0;  // what the last one lacks
  uint32_t sum = 0;
  for (int64_t i = 0; i < k; i += kPart) {
    const int64_t n = std::min(kPart, k - i);
    const uint8_t* x = from + i * stride;
    if (stride != 1) {
      for (int64_t j = 0; j < n; ++j) {
        keep_scalar();
        gathered[j] = x[j * stride];
      }
      x = gathered;
    }
    sum += HWY_DYNAMIC_DISPATCH(pack_signed)(x, n, flip, wide, lanes + i / group);
  }
  return sum;
}

void pack_right(const uint8_t* const* rows, int64_t n, uint8_t flip, uint32_t* lanes) {
  const int64_t group = integer_group();
  const uint8_t* each[4];
  for (int64_t g = 0; g < group; ++g) each[g] = rows[g] != nullptr ? rows[g] : rows[0];  // meets zeros on the left
  HWY_DYNAMIC_DISPATCH(pack_lanes)(each, group, n, flip, lanes);
}

uint32_t sum_unsigned(const uint8_t* from, int64_t n, uint8_t flip) {
  return HWY_DYNAMIC_DISPATCH(add_unsigned)(from, n, flip);
}

void sum_lanes(const uint32_t* lanes, int64_t n, uint32_t* sums) { HWY_DYNAMIC_DISPATCH(add_bytes)(lanes, n, sums); }

void widen_lanes(const uint8_t* from, int64_t n, uint8_t flip, int32_t zero, int32_t* lanes) {
  HWY_DYNAMIC_DISPATCH(widen_bytes)(from, n, flip, zero, lanes);
}

void split_lanes(const uint32_t* from, int64_t n, uint32_t* even, uint32_t* odd) {
  HWY_DYNAMIC_DISPATCH(split_pairs)(from, n, even, odd);
}

void convolve_lanes(const int32_t* lanes, const int64_t* offset, const int32_t* weight, int64_t taps, int64_t n,
                    int32_t* out) {
  HWY_DYNAMIC_DISPATCH(convolve_taps)(lanes, offset, weight, taps, n, out);
}

}  // namespace minnow
#endif
