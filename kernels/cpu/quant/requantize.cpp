// The op Requantize, and what it does where it ends another op. The planner gives it three inputs more where x is a sum
// of two functions of small integers: the table of the first, which `x` is then the argument of, the second argument,
// and its table.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/cpu/convert/blocks.h"
#include "kernels/cpu/quant/requantize.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D32 = hn::ScalableTag<int32_t>;
using V32 = hn::Vec<D32>;

// The upper half of 2 * x * m, halves up. The one product that is too large, which needs a negative m, has the greatest
// number for its result.
template <bool kPositive>
HWY_INLINE V32 high_product(V32 x, V32 m) {
  const D32 d;
  const hn::RepartitionToWide<D32> d64;
  const hn::RepartitionToWide<hn::ScalableTag<uint32_t>> u64;
  const auto half = hn::Set(d64, int64_t{1} << 30);
  const auto even = hn::Add(hn::MulEven(x, m), half);
  const auto odd = hn::Add(hn::MulEven(hn::DupOdd(x), hn::DupOdd(m)), half);
  const auto y =
      hn::OddEven(hn::BitCast(d, hn::ShiftLeft<1>(odd)), hn::BitCast(d, hn::ShiftRight<31>(hn::BitCast(u64, even))));
  if constexpr (kPositive) return y;
  return hn::Xor(y, hn::BroadcastSignBit(hn::And(hn::And(x, m), y)));
}

struct Shifts {
  V32 multiplier, left, right, mask, threshold;
};

HWY_INLINE Shifts shifts_of(V32 multiplier, V32 shift) {
  const D32 d;
  const auto none = hn::Zero(d), right = hn::Max(hn::Neg(shift), none);
  const auto mask = hn::Sub(hn::Shl(hn::Set(d, 1), right), hn::Set(d, 1));
  return {multiplier, hn::Max(shift, none), right, mask, hn::ShiftRight<1>(mask)};
}

// kPlain: the multiplier is not negative, and nothing is shifted left.
template <bool kPlain>
HWY_INLINE V32 scaled(V32 x, const Shifts& s) {
  const auto y = high_product<kPlain>(kPlain ? x : hn::Shl(x, s.left), s.multiplier);
  // What is shifted out is rounded, halves away from zero.
  const auto up = hn::Gt(hn::And(y, s.mask), hn::Sub(s.threshold, hn::BroadcastSignBit(y)));
  return hn::Sub(hn::Shr(y, s.right), hn::VecFromMask(D32(), up));
}

// The first n bytes of a vector.
HWY_INLINE void put_bytes(const uint8_t* from, int64_t n, uint8_t* to) {
  if (n & 8) {
    std::memcpy(to, from, 8);
    to += 8;
    from += 8;
  }
  if (n & 4) {
    std::memcpy(to, from, 4);
    to += 4;
    from += 4;
  }
  for (int64_t i = 0; i < (n & 3); ++i) to[i] = from[i];
}

alignas(16) constexpr uint8_t kEvenThenOdd[16] = {0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15};

// Rows as bytes, or, for other types, as i32. Parameters step along rows (columns), or from row to row.
void fixed_rows(const Requantization& q, int64_t first_row, int64_t rows, const int32_t* x, int64_t ldx, int64_t n,
                void* to, int64_t ldy) {
  const D32 d;
  const hn::Rebind<uint8_t, D32> d8;
  const hn::Repartition<int16_t, D32> d16;
  const hn::Repartition<uint8_t, D32> d_bytes;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  // The sum with the zero point wraps before it is clipped.
  // Signed bytes are narrowed as unsigned ones, 128 above.
  const bool is_signed = q.to == DType::kI8, bytes = is_signed || q.to == DType::kU8;
  const int64_t size = bytes ? 1 : 4;
  const auto up = hn::Set(d, is_signed ? 128 : 0);
  const auto flip = hn::Set(d8, static_cast<uint8_t>(is_signed ? 128 : 0));
  const auto zero = hn::Set(d, q.zero);
  const auto least = hn::Set(d, is_signed ? std::clamp(q.least, -128, 127) : q.least);
  const auto most = hn::Set(d, is_signed ? std::clamp(q.most, -128, 127) : q.most);
  // Four vectors become one of bytes block by block of 16 bytes, in which they lie four by four.
  const int32_t lowest = is_signed ? -128 : 0;
  const auto least16 = hn::Set(d16, static_cast<int16_t>(std::clamp(q.least, lowest, lowest + 255)));
  const auto most16 = hn::Set(d16, static_cast<int16_t>(std::clamp(q.most, lowest, lowest + 255)));
  HWY_ALIGN int32_t place[hn::MaxLanes(D32())];
  for (int64_t i = 0, blocks = lanes / 4; i < lanes; ++i) place[i] = static_cast<int32_t>(i % blocks * 4 + i / blocks);
  const auto in_order = hn::SetTableIndices(d, place);
  const bool step = q.columns && q.factor_step != 0, bias_step = q.columns && q.bias != nullptr && q.bias_step != 0;
  char* y = static_cast<char*>(to);
  const bool few = n < lanes;
  HWY_ALIGN int32_t part[4][hn::MaxLanes(D32())];
  HWY_ALIGN int32_t last[HWY_MAX(4, hn::MaxLanes(D32()))];
  if (few) std::memset(part, 0, sizeof(part));
  for (int64_t r = 0; r < rows; ++r, x += ldx, y += ldy * size) {
    const int64_t row = q.columns ? 0 : first_row + r;
    const int32_t* bias = q.bias == nullptr ? nullptr : q.bias + row * q.bias_step;
    const int32_t *multiplier = q.multiplier + row * q.factor_step, *shift = q.shift + row * q.factor_step;
    const auto one = shifts_of(hn::Set(d, *multiplier), hn::Set(d, *shift));
    const auto one_bias = hn::Set(d, bias == nullptr ? 0 : *bias);
    const auto put = [&](auto plain, V32 v, const int32_t* b, const int32_t* m, const int32_t* s, void* out) HWY_ATTR {
      v = hn::Add(v, bias_step ? hn::LoadU(d, b) : one_bias);
      const auto whole = scaled<plain.value>(v, step ? shifts_of(hn::LoadU(d, m), hn::LoadU(d, s)) : one);
      const auto clipped = hn::Min(hn::Max(hn::Add(whole, zero), least), most);
      if (!bytes) return hn::StoreU(clipped, d, static_cast<int32_t*>(out));
      hn::StoreU(hn::Xor(hn::DemoteTo(d8, hn::Add(clipped, up)), flip), d8, static_cast<uint8_t*>(out));
    };
    for (int64_t i = 0; few && i < n; ++i) {
      keep_scalar();
      part[0][i] = x[i];
      if (bias_step) part[1][i] = bias[i];
      if (!step) continue;
      part[2][i] = multiplier[i];
      part[3][i] = shift[i];
    }
    const bool plain = !step && *shift <= 0 && *multiplier >= 0;
    const int32_t *from = few ? part[0] : x, *biases = few ? part[1] : bias;
    if (few && step) {
      multiplier = part[2];
      shift = part[3];
    }
    char* out = few ? reinterpret_cast<char*>(last) : y;
    const int64_t count = few ? lanes : n;
    const auto at = [&](auto is_plain, int64_t i) HWY_ATTR {
      const int64_t moved = step ? i : 0;
      put(is_plain, hn::LoadU(d, from + i), bias_step ? biases + i : nullptr, multiplier + moved, shift + moved,
          out + i * size);
    };
    int64_t i = 0;
    if (plain && bytes)
      for (; i + 4 * lanes <= count; i += 4 * lanes) {
        const auto whole = [&](int64_t k) HWY_ATTR {
          const V32 v =
              hn::Add(hn::LoadU(d, from + i + k * lanes), bias_step ? hn::LoadU(d, biases + i + k * lanes) : one_bias);
          return hn::Add(scaled<true>(v, one), zero);
        };
        // What saturates to 16 bits is beyond the limits of bytes.
        const auto pair = [&](int64_t k) HWY_ATTR {
          return hn::Min(hn::Max(hn::ReorderDemote2To(d16, whole(k), whole(k + 1)), least16), most16);
        };
        const auto mixed = hn::BitCast(d_bytes, hn::Or(hn::And(pair(0), hn::Set(d16, 255)), hn::ShiftLeft<8>(pair(2))));
        const auto fours = hn::TableLookupBytes(mixed, hn::LoadDup128(d_bytes, kEvenThenOdd));
        hn::StoreU(hn::TableLookupLanes(hn::BitCast(d, fours), in_order), d, reinterpret_cast<int32_t*>(out + i));
      }
    if (plain)
      for (; i + lanes <= count; i += lanes) at(std::true_type(), i);
    for (; i < count; i += lanes) at(std::false_type(), HWY_MIN(i, count - lanes));  // some once more
    if (few && bytes) put_bytes(reinterpret_cast<const uint8_t*>(last), n, reinterpret_cast<uint8_t*>(y));
    if (few && !bytes) std::memcpy(y, last, static_cast<size_t>(n) * sizeof(int32_t));
  }
}

void float_row(const Requantization& q, int64_t row, const int32_t* x, int64_t n, uint8_t* y) {
  const D32 d32;
  const hn::Rebind<float, D32> d;
  const hn::Rebind<uint8_t, D32> d8;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d32));
  const bool bias_step = q.columns && q.bias != nullptr && q.bias_step != 0, step = q.columns && q.factor_step != 0;
  // Signed results are computed as unsigned ones, 128 above.
  const int32_t up = q.to == DType::kI8 ? 128 : 0;
  const auto zero = hn::Set(d, static_cast<float>(q.zero + up)), most = hn::Set(d, 255.0f);
  const auto flip = hn::Set(d8, static_cast<uint8_t>(up));
  const auto one_bias = hn::Set(d32, q.bias == nullptr ? 0 : q.bias[q.columns ? 0 : row * q.bias_step]);
  const auto one_scale = hn::Set(d, q.scale[q.columns ? 0 : row * q.factor_step]);
  const auto result = [&](auto v, const int32_t* b, const float* f) HWY_ATTR {
    const auto bias = bias_step ? hn::LoadU(d32, b) : one_bias;
    const auto scaled = hn::Mul(hn::ConvertTo(d, hn::Add(v, bias)), step ? hn::LoadU(d, f) : one_scale);
    const auto whole = hn::Add(hn::Round(scaled), zero);
    return hn::Xor(hn::DemoteTo(d8, hn::ConvertTo(d32, hn::Min(hn::Max(whole, hn::Zero(d)), most))), flip);
  };
  const auto at = [&](int64_t i) HWY_ATTR {
    const int32_t* b = bias_step ? q.bias + i : nullptr;
    hn::StoreU(result(hn::LoadU(d32, x + i), b, q.scale + (step ? i : 0)), d8, y + i);
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) at(i);
  if (i == n) return;
  if (n >= lanes) return at(n - lanes);  // some once more
  HWY_ALIGN int32_t rest[2][hn::MaxLanes(D32())] = {};
  HWY_ALIGN float factors[hn::MaxLanes(D32())] = {};
  HWY_ALIGN uint8_t bytes[hn::MaxLanes(D32())];
  std::memcpy(rest[0], x, static_cast<size_t>(n) * sizeof(int32_t));
  if (bias_step) std::memcpy(rest[1], q.bias, static_cast<size_t>(n) * sizeof(int32_t));
  if (step) std::memcpy(factors, q.scale, static_cast<size_t>(n) * sizeof(float));
  hn::Store(result(hn::Load(d32, rest[0]), rest[1], factors), d8, bytes);
  std::memcpy(y, bytes, static_cast<size_t>(n));
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/quant/byte_tables.h"
#include "kernels/cpu/gemm/integer.h"
#include "kernels/cpu/machine/packed_layout.h"
#include "kernels/cpu/quant/look_up.h"
#include "kernels/core/infer.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

HWY_EXPORT(fixed_rows);
HWY_EXPORT(float_row);

const int32_t* at(const int32_t* v, int64_t i) { return v == nullptr ? nullptr : v + i; }

void fixed(const Requantization& q, int64_t first_row, int64_t rows, const int32_t* x, int64_t ldx, int64_t n, void* y,
           int64_t ldy) {
  if (is_byte(q.to)) return HWY_DYNAMIC_DISPATCH(fixed_rows)(q, first_row, rows, x, ldx, n, y, ldy);
  int32_t block[kBlock];
  for (int64_t r = 0; r < rows; ++r) {
    // A row, whose parameters are one number now, or step along with it.
    Requantization part = q;
    if (!q.columns) {
      part.bias = at(q.bias, (first_row + r) * q.bias_step);
      part.multiplier += (first_row + r) * q.factor_step;
      part.shift += (first_row + r) * q.factor_step;
      part.bias_step = part.factor_step = 0;
    }
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = std::min(kBlock, n - i);
      HWY_DYNAMIC_DISPATCH(fixed_rows)(part, 0, 1, x + r * ldx + i, m, m, block, m);
      store_block(Compute::kI32, block, q.to, offset(y, r * ldy + i, dtype_size(q.to)), m);
      part.bias = at(part.bias, m * part.bias_step);
      part.multiplier += m * part.factor_step;
      part.shift += m * part.factor_step;
    }
  }
}

// Sums of 64 bits: the multiplier rounds to 15 bits, and halves go up.
void fixed_long(const Requantization& q, int64_t row, const int64_t* x, int64_t n, void* y) {
  int32_t block[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i);
    for (int64_t j = 0; j < m; ++j) {
      keep_scalar();
      const int64_t f = (q.columns ? i + j : row) * q.factor_step;
      const int32_t multiplier = q.multiplier[f];
      const int64_t factor = multiplier < 0x7FFF0000 ? (multiplier + (1 << 15)) >> 16 : 0x7FFF;
      const int shift = 15 - q.shift[f];
      const uint64_t sum =
          static_cast<uint64_t>(x[i + j]) * static_cast<uint64_t>(factor) + (uint64_t{1} << (shift - 1));
      const uint32_t scaled = static_cast<uint32_t>(static_cast<int64_t>(sum) >> shift);
      block[j] = std::clamp(static_cast<int32_t>(scaled + static_cast<uint32_t>(q.zero)), q.least, q.most);
    }
    store_block(Compute::kI32, block, q.to, offset(y, i, dtype_size(q.to)), m);
  }
}

int32_t number(const Attrs& attrs, const char* name) {
  return static_cast<int32_t>(
      std::clamp<int64_t>(attrs.i(name), std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
}

}  // namespace

void read_limits(const Attrs& attrs, Requantization* q) {
  q->zero = number(attrs, "zero");
  q->least = number(attrs, "min");
  q->most = std::max(q->least, number(attrs, "max"));
}

bool check_shifts(const RunContext& context, const Tensor& shifts, int32_t most) {
  for (int64_t i = 0; i < shifts.count(); ++i) {
    const int32_t shift = shifts.as<int32_t>()[i];
    if (shift >= -31 && shift <= most) continue;
    context.report(fail(Code::kFormat, "a shift of %d, which is not between -31 and %d", static_cast<int>(shift),
                        static_cast<int>(most)));
    return false;
  }
  return true;
}

std::optional<Requantization> read_requantization(const Attrs& attrs, const RunContext& context, size_t first,
                                                  bool columns) {
  Requantization q;
  const auto input = [&](size_t i) { return i < context.in.size() ? context.in[i] : nullptr; };
  const Tensor *bias = input(first), *factor = input(first + 1), *last = input(first + 2);
  if (factor == nullptr) return q;
  if (bias != nullptr) {
    q.bias = bias->as<int32_t>();
    q.bias_step = bias->count() > 1;
  }
  q.factor_step = factor->count() > 1;
  q.columns = columns;
  q.to = context.out[0]->type.dtype;
  if (factor->type.dtype == DType::kF32) {
    q.scale = factor->as<float>();
    if (last != nullptr) q.zero = last->type.dtype == DType::kU8 ? *last->as<uint8_t>() : *last->as<int8_t>();
  } else {
    if (!check_shifts(context, *last)) return std::nullopt;
    q.multiplier = factor->as<int32_t>();
    q.shift = last->as<int32_t>();
    read_limits(attrs, &q);
  }
  return q;
}

void requantize(const Requantization& q, int64_t first_row, int64_t rows, const int32_t* x, int64_t ldx, int64_t n,
                void* y, int64_t ldy) {
  if (q.scale == nullptr) return fixed(q, first_row, rows, x, ldx, n, y, ldy);
  for (int64_t r = 0; r < rows; ++r)
    HWY_DYNAMIC_DISPATCH(float_row)(q, first_row + r, x + r * ldx, n, static_cast<uint8_t*>(y) + r * ldy);
}

namespace {

// The only axis along which the factors differ, counted from the end; 0 for one factor.
[[gnu::cold]] Status factor_axis(const Shape& x, const Shape& factors, int* axis) {
  *axis = 0;
  for (int k = 1; k <= factors.rank(); ++k) {
    if (factors.at(-k) == 1) continue;
    if (*axis != 0 || k > x.rank() || factors.at(-k) != x.at(-k))
      return fail(Code::kFormat, "multipliers of shape %s for numbers of shape %s", factors.str().c_str(),
                  x.str().c_str());
    *axis = -k;
  }
  return factors.rank() <= x.rank() ? ok() : fail(Code::kFormat, "multipliers of a higher rank than the numbers");
}

bool is_result(DType t) { return is_byte(t) || t == DType::kI16 || t == DType::kU16 || t == DType::kI32; }

// One number, or one along an axis of `all`, which is counted from the end.
bool is_along(const Shape& s, const Shape& all, int axis) {
  if (s.rank() > all.rank()) return false;
  return s.count() == 1 || (s.rank() >= -axis && s.at(axis) == all.at(axis) && s.count() == all.at(axis));
}

}  // namespace

[[gnu::cold]] Status infer_requantized(InferContext& c, int first, const Shape& sums, int axis, DType* to) {
  if (c.num_inputs() > first + 3) return fail(Code::kFormat, "takes %d inputs, not %d", first + 3, c.num_inputs());
  if (!c.has(first + 1)) return fail(Code::kFormat, "input %d, the factor, is missing", first + 1);
  const DType factor = c.in(first + 1).dtype;
  *to = c.attrs.get("to", DType::kF32);
  const bool fixed = factor == DType::kI32;
  if (!fixed && factor != DType::kF32) return fail(Code::kFormat, "factors of type %s", dtype_name(factor));
  if (fixed ? !is_result(*to) : !is_byte(*to)) return fail(Code::kUnsupported, "requantization to %s", dtype_name(*to));
  if (fixed && !c.has(first + 2)) return fail(Code::kFormat, "input %d, the shifts, is missing", first + 2);
  for (int i = first; i < first + 3; ++i) {
    if (!c.has(i)) continue;
    const bool zero = i == first + 2 && !fixed;
    const DType want = zero ? *to : i == first + 1 ? factor : DType::kI32;
    if (c.in(i).dtype != want)
      return fail(Code::kFormat, "input %d is %s, not %s", i, dtype_name(c.in(i).dtype), dtype_name(want));
    if (zero ? c.shape(i).count() != 1 : !is_along(c.shape(i), sums, axis))
      return fail(Code::kFormat, "input %d of shape %s for sums of shape %s", i, c.shape(i).str().c_str(),
                  sums.str().c_str());
  }
  if (fixed && c.shape(first + 1).count() != c.shape(first + 2).count())
    return fail(Code::kFormat, "multipliers of shape %s and shifts of shape %s", c.shape(first + 1).str().c_str(),
                c.shape(first + 2).str().c_str());
  return ok();
}

namespace {

[[gnu::cold]] Status infer_requantize(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 3));
  if (c.num_inputs() > 3) return fail(Code::kFormat, "takes 3 inputs, not %d", c.num_inputs());
  const DType x = c.in(0).dtype, to = c.attrs.get("to", DType::kF32);
  if (x != DType::kI32 && x != DType::kI64) return fail(Code::kFormat, "takes i32 or i64, not %s", dtype_name(x));
  if (!is_result(to)) return fail(Code::kUnsupported, "requantization to %s", dtype_name(to));
  for (int i : {1, 2})
    if (c.in(i).dtype != DType::kI32) return fail(Code::kFormat, "input %d is %s", i, dtype_name(c.in(i).dtype));
  if (c.shape(1) != c.shape(2))
    return fail(Code::kFormat, "multipliers of shape %s and shifts of shape %s", c.shape(1).str().c_str(),
                c.shape(2).str().c_str());
  int axis = 0;
  MINNOW_RETURN_IF_ERROR(factor_axis(c.shape(0), c.shape(1), &axis));
  c.set(0, to, c.shape(0));
  return ok();
}

// Two arguments of tables in place of a number: [a, multiplier, shift, table of a, b, table of b].
[[gnu::cold]] Status infer_quantized_sum(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 6));
  if (c.num_inputs() > 6) return fail(Code::kFormat, "takes 6 inputs, not %d", c.num_inputs());
  const DType to = c.attrs.get("to", DType::kF32);
  if (!is_result(to)) return fail(Code::kUnsupported, "requantization to %s", dtype_name(to));
  for (int i : {0, 4}) {
    const int table = i == 0 ? 3 : 5;
    const DType kind = c.in(i).dtype;
    if (!is_byte(kind) && kind != DType::kI16 && kind != DType::kU16)
      return fail(Code::kFormat, "input %d is %s", i, dtype_name(kind));
    if (c.in(table).dtype != DType::kI32 || c.shape(table).rank() != 1 ||
        c.shape(table).count() != (is_byte(kind) ? 256 : 65536))
      return fail(Code::kFormat, "input %d is no table for numbers of type %s", table, dtype_name(kind));
  }
  if (c.shape(0) != c.shape(4))
    return fail(Code::kFormat, "a sum of shapes %s and %s", c.shape(0).str().c_str(), c.shape(4).str().c_str());
  for (int i : {1, 2})
    if (c.in(i).dtype != DType::kI32) return fail(Code::kFormat, "input %d is %s", i, dtype_name(c.in(i).dtype));
  if (c.shape(1) != c.shape(2)) return fail(Code::kFormat, "multipliers and shifts of different shapes");
  int axis = 0;
  MINNOW_RETURN_IF_ERROR(factor_axis(c.shape(0), c.shape(1), &axis));
  c.set(0, to, c.shape(0));
  return ok();
}

class RequantizeKernel final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const Shape& x = node.in[0]->shape;
    int axis = 0;
    MINNOW_RETURN_IF_ERROR(factor_axis(x, node.in[1]->shape, &axis));
    total_ = node.in[0]->layout == Layout::kLast ? last_count(x) : x.count();
    columns_ = axis == -1;
    factors_ = node.in[1]->shape.count();
    row_ = axis == 0 ? total_ : columns_ ? factors_ : x.count(x.rank() + axis + 1, x.rank());
    q_.columns = columns_;
    q_.factor_step = axis != 0;
    q_.to = node.out[0]->dtype;
    read_limits(node.attrs, &q_);
    return ok();
  }

  void run(const RunContext& context) override {
    if (total_ == 0) return;
    const Tensor& x = *context.in[0];
    const int32_t *multipliers = context.in[1]->as<int32_t>(), *shifts = context.in[2]->as<int32_t>();
    const bool is_long = x.type.dtype == DType::kI64, sums = context.in.size() > 3;
    if (!check_shifts(context, *context.in[2], is_long ? 14 : 31)) return;
    if (sums && add_bytes(context, *multipliers, *shifts)) return;
    const size_t size = dtype_size(q_.to);
    // Rows are cut into pieces, which have at most a block of elements where sums are computed for them.
    const int64_t most = sums ? kBlock : 8192, pieces = (row_ + most - 1) / most;
    const int64_t grain = std::max<int64_t>(1, 8192 / std::min(row_, most));
    context.pool->parallel_for(total_ / row_ * pieces, grain, [&](int64_t begin, int64_t end, int) {
      int32_t buffer[2][kBlock];
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t row = piece / pieces, first = piece % pieces * most, n = std::min(most, row_ - first);
        const int64_t i = row * row_ + first, f = columns_ ? first : row % factors_;
        Requantization own = q_;
        own.multiplier = multipliers + f;
        own.shift = shifts + f;
        void* y = offset(context.out[0]->data, i, size);
        if (is_long) {
          fixed_long(own, 0, x.as<int64_t>() + i, n, y);
          continue;
        }
        const int32_t* from = x.as<int32_t>() + i;
        if (sums) {
          look_up(*context.in[3], x, i, n, buffer[0]);
          look_up(*context.in[5], *context.in[4], i, n, buffer[1]);
          for (int64_t j = 0; j < n; ++j)
            buffer[0][j] =
                static_cast<int32_t>(static_cast<uint32_t>(buffer[0][j]) + static_cast<uint32_t>(buffer[1][j]));
          from = buffer[0];
        }
        fixed(own, 0, 1, from, n, n, y, n);
      }
    });
  }

 private:
  // The usual case: tables that are nearly lines, or any, where instructions for them are there.
  bool add_bytes(const RunContext& context, int32_t multiplier, int32_t shift) const {
    const Tensor *terms[2] = {context.in[0], context.in[4]}, *tables[2] = {context.in[3], context.in[5]};
    if (factors_ != 1 || multiplier < 0 || shift > -2 || !is_byte(q_.to)) return false;
    ByteSum sum;
    for (size_t i = 0; i < 2; ++i) {
      if (!is_byte(terms[i]->type.dtype)) return false;
      sum.table[i] = tables[i]->as<uint32_t>();
      sum.lowest[i] = terms[i]->type.dtype == DType::kI8 ? 0x80 : 0;
    }
    sum.multiplier = multiplier;
    sum.right = -shift;
    sum.zero = q_.zero;
    const int32_t lowest = q_.to == DType::kI8 ? -128 : 0;
    sum.least = std::clamp(q_.least, lowest, lowest + 255);
    sum.most = std::clamp(q_.most, lowest, lowest + 255);
    sum.prepare();
    if (!has_byte_tables() && sum.lines.fraction == 0) return false;
    const auto add = has_byte_tables() ? sum_bytes : sum_byte_lines;
    context.pool->parallel_for(total_, 32768, [&](int64_t begin, int64_t end, int) {
      add(sum, terms[0]->as<uint8_t>() + begin, terms[1]->as<uint8_t>() + begin, end - begin,
          static_cast<uint8_t*>(context.out[0]->data) + begin);
    });
    return true;
  }

  Requantization q_;
  bool columns_ = false;
  int64_t total_ = 0, row_ = 1, factors_ = 1;
};

std::unique_ptr<Kernel> create_requantize(const NodeContext&) { return std::make_unique<RequantizeKernel>(); }

// Byte by byte, with one factor for all.
LayoutRule layout_of_sum(const std::vector<const TensorType*>& in) {
  const bool follows = in.size() == 6 && is_byte(in[0]->dtype) && is_byte(in[4]->dtype) && in[1]->count() == 1;
  return follows ? LayoutRule::kFollowLast : LayoutRule::kPlain;
}

MINNOW_OP("Requantize", infer_requantize);
MINNOW_KERNEL("Requantize", create_requantize);
MINNOW_OP("QuantizedSum", infer_quantized_sum);
MINNOW_KERNEL("QuantizedSum", create_requantize, LayoutRule::kPlain, /*in_place=*/false, layout_of_sum);

}  // namespace
}  // namespace minnow
#endif  // HWY_ONCE
