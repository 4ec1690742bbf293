// QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear. Integers pass through blocks of i32, whatever their type.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/convert/blocks.h"
#include "kernels/cpu/machine/simd.h"
//
#include "kernels/cpu/elementwise/math-inl.h"
#include "kernels/cpu/quant/dynamic.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {

// y[i] = body(x[i], scale, zero) for n elements, of vectors; scale and zero step along with the elements, or are single
// numbers. y is other memory than x.
template <class X, class Y, class Body>
HWY_INLINE void each_with_parameters(const X* x, const float* scale, const float* zero, bool step, Y* y, int64_t n,
                                     const Body& body) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<X, decltype(d)> dx;
  const hn::Rebind<Y, decltype(d)> dy;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto one_scale = hn::Set(d, *scale), one_zero = hn::Set(d, *zero);
  const auto at = [&](const X* from, const float* s, const float* z, Y* to) HWY_ATTR {
    const auto v = hn::LoadU(dx, from);
    hn::StoreU(step ? body(v, hn::LoadU(d, s), hn::LoadU(d, z)) : body(v, one_scale, one_zero), dy, to);
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) at(x + i, scale + (step ? i : 0), zero + (step ? i : 0), y + i);
  if (i == n) return;
  if (n >= lanes) {  // some once more
    i = n - lanes;
    return at(x + i, scale + (step ? i : 0), zero + (step ? i : 0), y + i);
  }
  HWY_ALIGN X in[hn::MaxLanes(d)] = {};
  HWY_ALIGN Y out[hn::MaxLanes(d)];
  HWY_ALIGN float parameters[2][hn::MaxLanes(d)] = {};
  const auto count = static_cast<size_t>(n);
  std::memcpy(in, x, count * sizeof(X));
  std::memcpy(parameters[0], scale, step ? count * sizeof(float) : 0);
  std::memcpy(parameters[1], zero, step ? count * sizeof(float) : 0);
  at(in, parameters[0], parameters[1], out);
  std::memcpy(y, out, count * sizeof(Y));
}

template <class Y>
void divide_floats(const float* x, const float* scale, const float* zero, bool step, float low, float high,
                   bool quotients, Y* y, int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto least = hn::Set(d, low), most = hn::Set(d, high);
  each_with_parameters(x, scale, zero, step, y, n, [&](auto v, auto s, auto z) HWY_ATTR {
    const auto rounded = hn::Add(hn::Round(quotients ? v : hn::Div(v, s)), z);
    const auto clipped = hn::ConvertTo(di, AtMost(most, AtLeast(least, rounded)));
    const auto q = hn::IfThenZeroElse(hn::RebindMask(di, hn::IsNaN(rounded)), clipped);
    if constexpr (sizeof(Y) == 4)
      return q;
    else
      return hn::TruncateTo(hn::Rebind<Y, decltype(d)>(), hn::BitCast(hn::RebindToUnsigned<decltype(di)>(), q));
  });
}

// y = saturate(round(x / scale) + zero), of 8 bits, or of 32 where it is not `narrow`. With `quotients`, x is divided
// already.
void QuantizeFloats(const float* x, const float* scale, const float* zero, int step, float low, float high,
                    bool quotients, bool narrow, void* to, int64_t n) {
  if (!narrow) return divide_floats(x, scale, zero, step != 0, low, high, quotients, static_cast<int32_t*>(to), n);
  uint8_t* y = static_cast<uint8_t*>(to);
  // Division by one number: a product with its reciprocal is within two units in the last place of the quotient. Where
  // that lies this near to the middle between two integers, the quotient itself is asked; and where there is NaN.
  const float magnitude = *scale < 0 ? -*scale : *scale;
  const float reach = HWY_MAX(*zero - low, high - *zero) + 1;
  if (step == 0 && !quotients && magnitude > 1e-18f && magnitude < 1e18f && reach < 1024) {
    const hn::ScalableTag<float> d;
    using V = hn::Vec<decltype(d)>;
    const hn::RebindToSigned<decltype(d)> d32;
    const hn::Repartition<uint16_t, decltype(d)> d16;
    const hn::Repartition<uint8_t, decltype(d)> d8;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), all = 4 * lanes;
    // Signed results are computed as unsigned ones, as far above as makes the least one 0.
    const V r = hn::Set(d, 1.0f / *scale);
    const auto flip = hn::Set(d8, low < 0 ? 0x80 : 0);
    const V bottom = hn::Set(d, low - *zero), top = hn::Set(d, high - *zero);
    // Nothing is in doubt with a power of two: sums of few scaled bytes, whose scale is 1, often lie in the middle.
    int32_t bits;
    std::memcpy(&bits, scale, sizeof(bits));
    const bool exact = (bits & 0x7FFFFF) == 0;
    const V sure = hn::Set(d, exact ? 1.0f : 0.5f - reach * 0x1p-21f);
    // Numbers of 32 bits get a byte of each vector, which are put into their order in blocks of 16 bytes, then block by
    // block. Floats between 2^23 and 2^24 have integers in their lower bits.
    const int32_t blocks = static_cast<int32_t>(lanes) / 4;
    const auto bytes = hn::LoadDup128(d8, kByteOrder);
    HWY_ALIGN int32_t places[hn::MaxLanes(d)];
    for (int32_t k = 0; k < 4 * blocks; ++k) places[k] = k % blocks * 4 + k / blocks;
    const auto order = hn::SetTableIndices(d32, places);
    const V byte = hn::Set(d, 256.0f), zeros = hn::Set(d, (*zero - low) * 257 + 0x1p23f);
    const V magic = hn::Set(d, 0x1.8p23f);  // adding it rounds to an integer
    int64_t i = 0;
    for (; i + all <= n; i += all) {
      const auto quotient = [&](int k) HWY_ATTR {
        return AtMost(top, AtLeast(bottom, hn::Mul(hn::LoadU(d, x + i + k * lanes), r)));
      };
      const auto rounded = [&](V q) HWY_ATTR { return hn::Sub(hn::Add(q, magic), magic); };
      const auto known = [&](V q, V n) HWY_ATTR { return hn::Le(hn::Abs(hn::Sub(q, n)), sure); };
      const V q0 = quotient(0), q1 = quotient(1), q2 = quotient(2), q3 = quotient(3);
      const V n0 = rounded(q0), n1 = rounded(q1), n2 = rounded(q2), n3 = rounded(q3);
      const auto all_known = hn::And(hn::And(known(q0, n0), known(q1, n1)), hn::And(known(q2, n2), known(q3, n3)));
      if (HWY_UNLIKELY(!hn::AllTrue(d, all_known))) {
        divide_floats(x + i, scale, zero, false, low, high, false, y + i, all);
        continue;
      }
      const auto low_pair = hn::BitCast(d16, hn::Add(hn::MulAdd(n1, byte, n0), zeros));
      const auto high_pair = hn::BitCast(d32, hn::Add(hn::MulAdd(n3, byte, n2), zeros));
      const auto numbers = hn::OddEven(hn::BitCast(d16, hn::ShiftLeft<16>(high_pair)), low_pair);
      const auto mixed = hn::BitCast(d32, hn::Xor(hn::TableLookupBytes(hn::BitCast(d8, numbers), bytes), flip));
      hn::StoreU(hn::BitCast(d8, blocks == 1 ? mixed : hn::TableLookupLanes(mixed, order)), d8, y + i);
    }
    n -= i;
    x += i;
    y += i;
  }
  divide_floats(x, scale, zero, step != 0, low, high, quotients, y, n);
}

// y = (x - zero) * scale, exact but for the last rounding if x has 16 bits. x is u8, i8 or i32.
void DequantizeFloats(DType from, const void* x, const float* scale, const float* zero, int step, float* y, int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  if (from == DType::kI32) {
    each_with_parameters(static_cast<const int32_t*>(x), scale, zero, step != 0, y, n,
                         [&](auto v, auto s, auto z) HWY_ATTR { return hn::Mul(hn::Sub(hn::ConvertTo(d, v), z), s); });
    return;
  }
  // Signed bytes as unsigned ones, 128 above.
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const auto flip = hn::Set(d8, from == DType::kI8 ? 0x80 : 0);
  const auto up = hn::Set(d, from == DType::kI8 ? 128.0f : 0.0f);
  each_with_parameters(
      static_cast<const uint8_t*>(x), scale, zero, step != 0, y, n, [&](auto v, auto s, auto z) HWY_ATTR {
        return hn::Mul(hn::Sub(hn::ConvertTo(d, hn::PromoteTo(di, hn::Xor(v, flip))), hn::Add(z, up)), s);
      });
}

// The least and greatest number, and 0.
void RangeOf(const float* x, int64_t n, float* low, float* high) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  // Two of each, or each vector would wait for the one before.
  auto least = hn::Zero(d), most = least, least2 = least, most2 = least;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto v = hn::LoadU(d, x + i), w = hn::LoadU(d, x + i + lanes);
    least = hn::Min(least, v);
    most = hn::Max(most, v);
    least2 = hn::Min(least2, w);
    most2 = hn::Max(most2, w);
  }
  *low = hn::GetLane(hn::MinOfLanes(d, hn::Min(least, least2)));
  *high = hn::GetLane(hn::MaxOfLanes(d, hn::Max(most, most2)));
  for (; i < n; ++i) {
    keep_scalar();
    *low = x[i] < *low ? x[i] : *low;
    *high = x[i] > *high ? x[i] : *high;
  }
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

#include "kernels/core/infer.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

HWY_EXPORT(QuantizeFloats);
HWY_EXPORT(DequantizeFloats);
HWY_EXPORT(RangeOf);

bool is_quantized(DType t) {
  const bool integer = t == DType::kI8 || t == DType::kU8 || t == DType::kI16 || t == DType::kU16;
  return integer || (is_storage(t) && t != DType::kF8E8M0);
}

// Rounds floats to a 16-bit type and back.
void round_to(DType half, float* x, int64_t n) {
  uint16_t rounded[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i);
    store_block(Compute::kF32, x + i, half, rounded, m);
    load_block(half, rounded, m, x + i);
  }
}

// What the two ops share: scale and zero point are single numbers, or there is one for each place along an axis, or for
// each block of places along it.
class Linear : public Kernel {
 public:
  explicit Linear(const NodeContext& node) : attrs_(node.attrs) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    const TensorType& x = *node.in[0];
    count_ = node.in[1]->count();
    rows_ = 1;
    length_ = stored_count(x);
    way_ = Way::kSame;
    if (count_ != 1) {
      int axis = 0;
      MINNOW_RETURN_IF_ERROR(normalize_axis(attrs_.i("axis", 1), x.shape.rank(), &axis));
      const int64_t outer = x.shape.count(0, axis), inner = x.shape.count(axis + 1, x.shape.rank());
      axis_size_ = x.shape[axis];
      block_ = attrs_.i("block_size", 0);
      if (block_ > 0) {
        blocks_ = node.in[1]->shape[axis];
        way_ = inner == 1 ? Way::kBlocksOfRow : Way::kBlocksOfRows;
        rows_ = Shape{outer, inner == 1 ? blocks_ : axis_size_}.count();
        length_ = inner == 1 ? std::min(block_, axis_size_) : inner;
      } else {
        way_ = inner == 1 ? Way::kEach : Way::kRows;
        rows_ = Shape{outer, inner == 1 ? 1 : axis_size_}.count();
        length_ = inner == 1 ? axis_size_ : inner;
      }
    }
    *workspace = count_ * 2 * 8;
    return ok();
  }

 protected:
  // Scales and zero points as T, the zero points behind the scales.
  template <typename T>
  [[gnu::noinline]] T* parameters(const RunContext& context) const {
    constexpr DType kType = sizeof(T) == 8 ? DType::kF64 : DType::kF32;
    T* out = static_cast<T*>(context.workspace);
    convert(context.in[1]->type.dtype, context.in[1]->data, kType, out, count_);
    const Tensor* zero = context.in.size() > 2 ? context.in[2] : nullptr;
    T* zeros = out + count_;
    std::fill(zeros, zeros + count_, T{0});
    if (zero == nullptr || count_ == 0) return out;
    convert(zero->type.dtype, zero->data, kType, zeros, zero->count());
    if (zero->count() == 1) std::fill(zeros, zeros + count_, T{zeros[0]});
    return out;
  }

  // Calls block(first element, elements, index of the first parameter, step of the parameters) for blocks of elements:
  // kBlock, or more where none pass through buffers.
  using OnBlock = FunctionRef<void(int64_t, int64_t, int64_t, int)>;
  [[gnu::cold]] void for_blocks(const RunContext& context, bool buffers, OnBlock block) const {
    if (length_ == 0) return;
    const int64_t most = buffers ? kBlock : 8192, pieces = (length_ + most - 1) / most;
    const int64_t grain = std::max<int64_t>(1, 8192 / std::min(length_, most));
    context.pool->parallel_for(rows_ * pieces, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const Row row = row_at(unit / pieces);
        const int64_t first = unit % pieces * most;
        if (first < row.length)
          block(row.at + first, std::min(most, row.length - first), row.parameter + row.step * first, row.step);
      }
    });
  }

  const Attrs& attrs_;
  int64_t count_ = 1;  // of scales

 private:
  // Rows of elements that share a parameter, or have one each, side by side.
  enum class Way { kSame, kRows, kEach, kBlocksOfRow, kBlocksOfRows };
  struct Row {
    int64_t at, length, parameter;
    int step;
  };
  [[gnu::noinline]] Row row_at(int64_t i) const {
    switch (way_) {
      case Way::kRows:
        return {i * length_, length_, i % count_, 0};
      case Way::kEach:
        return {i * length_, length_, 0, 1};
      case Way::kBlocksOfRow: {
        const int64_t first = i % blocks_ * block_;
        return {i / blocks_ * axis_size_ + first, std::min(block_, axis_size_ - first), i, 0};
      }
      case Way::kBlocksOfRows:
        return {i * length_, length_, (i / axis_size_ * blocks_ + i % axis_size_ / block_) * length_, 1};
      default:
        return {0, length_, 0, 0};
    }
  }

  Way way_ = Way::kSame;
  int64_t rows_ = 1, length_ = 1;
  int64_t axis_size_ = 1, blocks_ = 1, block_ = 0;  // along the axis
};

class Quantize final : public Linear {
 public:
  using Linear::Linear;
  void run(const RunContext& context) override {
    const DType division = division_type(context.in[0]->type.dtype, context.in[1]->type.dtype);
    division == DType::kF64 ? run_doubles(context) : run_floats(context, division);
  }

 private:
  // The type that the quotient has: the wider one, f64 where an integer takes part.
  DType division_type(DType x, DType scale) const {
    if (attrs_.has("precision")) return attrs_.get("precision", DType::kF32);
    if (scale == DType::kF8E8M0) scale = x;
    for (DType t : {x, scale})
      if (t == DType::kI32 || t == DType::kF64) return DType::kF64;
    return x == scale ? x : DType::kF32;
  }

  static void limits(DType to, double* low, double* high) {
    const bool is_signed = to == DType::kI8 || to == DType::kI16 || to == DType::kI4 || to == DType::kI2;
    const double all = to == DType::kI4 || to == DType::kU4   ? 16
                       : to == DType::kI2 || to == DType::kU2 ? 4
                       : dtype_size(to) == 1                  ? 256
                                                              : 65536;
    *low = is_signed ? -all / 2 : 0;
    *high = *low + all - 1;
  }

  Storing storing() const {
    Storing how;
    how.saturate = attrs_.b("saturate", true);
    return how;
  }

  [[gnu::cold]] void run_floats(const RunContext& context, DType division) const {
    const DType from = context.in[0]->type.dtype, to = context.out[0]->type.dtype;
    const bool is_half = division != DType::kF32, is_float = is_minifloat(to);
    const Storing how = storing();
    float* scale = parameters<float>(context);
    const float* zero = scale + count_;
    if (is_half) round_to(division, scale, count_);
    double low = 0, high = 0;
    if (!is_float) limits(to, &low, &high);
    const bool direct = to == DType::kU8 || to == DType::kI8;
    for_blocks(context, is_half || !direct || from != DType::kF32, [&](int64_t at, int64_t n, int64_t p, int step) {
      Block loaded, result;
      float* q = reinterpret_cast<float*>(loaded.bytes);
      const float* x = q;
      void* out = offset(context.out[0]->data, at, dtype_size(to));
      const void* in = offset(context.in[0]->data, at, dtype_size(from));
      if (compute_type(from) == Compute::kF32) {
        x = static_cast<const float*>(load_block(from, in, n, q));
      } else {
        convert(from, in, DType::kF32, q, n);
      }
      if (is_half || is_float) {
        std::copy_n(x, x == q ? 0 : n, q);
        if (is_half && from != division) round_to(division, q, n);
        for (int64_t i = 0; i < n; ++i) q[i] /= scale[p + step * i];
        if (is_half) round_to(division, q, n);
        x = q;
      }
      if (is_float) {
        for (int64_t i = 0; i < n; ++i) q[i] += zero[p + step * i];
        return store_block(Compute::kF32, q, to, out, n, how);
      }
      HWY_DYNAMIC_DISPATCH(QuantizeFloats)
      (x, scale + p, zero + p, step, static_cast<float>(low), static_cast<float>(high), is_half, direct,
       direct ? out : result.bytes, n);
      if (!direct) store_block(Compute::kI32, result.bytes, to, out, n);
    });
  }

  [[gnu::cold]] void run_doubles(const RunContext& context) const {
    const DType from = context.in[0]->type.dtype, to = context.out[0]->type.dtype;
    const Storing how = storing();
    const double* scale = parameters<double>(context);
    const double* zero = scale + count_;
    double low = 0, high = 0;
    if (!is_minifloat(to)) limits(to, &low, &high);
    for_blocks(context, true, [&](int64_t at, int64_t n, int64_t p, int step) {
      double y[kBlock];
      float sums[kBlock];
      void* out = offset(context.out[0]->data, at, dtype_size(to));
      convert(from, offset(context.in[0]->data, at, dtype_size(from)), DType::kF64, y, n);
      for (int64_t i = 0; i < n; ++i) y[i] /= scale[p + step * i];
      if (is_minifloat(to)) {
        for (int64_t i = 0; i < n; ++i) sums[i] = static_cast<float>(y[i]) + static_cast<float>(zero[p + step * i]);
        return store_block(Compute::kF32, sums, to, out, n, how);
      }
      for (int64_t i = 0; i < n; ++i) {
        const double q = std::rint(y[i]) + zero[p + step * i];
        y[i] = q < low ? low : q > high ? high : q;
      }
      store_block(Compute::kF64, y, to, out, n);
    });
  }
};

class Dequantize final : public Linear {
 public:
  using Linear::Linear;
  void run(const RunContext& context) override {
    const DType from = context.in[0]->type.dtype, to = context.out[0]->type.dtype;
    from == DType::kI32 || to == DType::kF64 ? run_doubles(context, from, to) : run_floats(context, from, to);
  }

 private:
  [[gnu::cold]] void run_floats(const RunContext& context, DType from, DType to) const {
    const float* scale = parameters<float>(context);
    const float* zero = scale + count_;
    const bool direct = from == DType::kU8 || from == DType::kI8;
    for_blocks(context, !direct || to != DType::kF32, [&](int64_t at, int64_t n, int64_t p, int step) {
      Block loaded, result;
      const void* x = offset(context.in[0]->data, at, dtype_size(from));
      if (!direct) x = load_block(from, x, n, loaded.bytes);
      void* out = offset(context.out[0]->data, at, dtype_size(to));
      float* y = static_cast<float*>(to == DType::kF32 ? out : result.bytes);
      if (is_minifloat(from)) {
        const float* v = static_cast<const float*>(x);
        for (int64_t i = 0; i < n; ++i) y[i] = (v[i] - zero[p + step * i]) * scale[p + step * i];
      } else {
        HWY_DYNAMIC_DISPATCH(DequantizeFloats)(direct ? from : DType::kI32, x, scale + p, zero + p, step, y, n);
      }
      store_block(Compute::kF32, y, to, out, n);
    });
  }

  [[gnu::cold]] void run_doubles(const RunContext& context, DType from, DType to) const {
    const double* scale = parameters<double>(context);
    for_blocks(context, true, [&](int64_t at, int64_t n, int64_t p, int step) {
      double y[kBlock];
      convert(from, offset(context.in[0]->data, at, dtype_size(from)), DType::kF64, y, n);
      for (int64_t i = 0; i < n; ++i) y[i] = (y[i] - scale[count_ + p + step * i]) * scale[p + step * i];
      store_block(Compute::kF64, y, to, offset(context.out[0]->data, at, dtype_size(to)), n);
    });
  }
};

[[gnu::cold]] void run_dynamic(const Attrs& attrs, const RunContext& context) {
  const float* x = context.in[0]->as<float>();
  const int64_t n = context.in[0]->count();
  constexpr int64_t kPieces = 16, kPiece = 16384;
  const int64_t pieces = std::clamp<int64_t>(n / kPiece, 1, kPieces);
  float lows[kPieces], highs[kPieces];
  context.pool->parallel_for(pieces, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = n / pieces * i, count = (i + 1 == pieces ? n : n / pieces * (i + 1)) - first;
      HWY_DYNAMIC_DISPATCH(RangeOf)(x + first, count, lows + i, highs + i);
    }
  });
  const float low = *std::min_element(lows, lows + pieces), high = *std::max_element(highs, highs + pieces);
  float scale = high == low ? 1.0f : (high - low) / 255.0f;
  double lowest = -low / scale, most = 255;
  if (const int64_t steps = attrs.i("steps", 0); steps > 0) {
    most = static_cast<double>(steps);
    scale = static_cast<float>((static_cast<double>(high) - static_cast<double>(low)) / most);
    if (scale == 0 || std::isinf(1.0f / scale)) scale = 0.1f;
    lowest = -static_cast<double>(low) / static_cast<double>(scale);
  }
  // Written so that NaN becomes 0.
  const float zero = lowest > 0 ? static_cast<float>(std::rint(std::min(lowest, most))) : 0.0f;
  uint8_t* y = context.out[0] == nullptr ? nullptr : context.out[0]->as<uint8_t>();
  context.pool->parallel_for(y == nullptr ? 0 : n, kPiece, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(QuantizeFloats)
    (x + begin, &scale, &zero, 0, 0.0f, 255.0f, false, true, y + begin, end - begin);
  });
  const auto put = [&](size_t i, auto value) {
    if (i < context.out.size() && context.out[i] != nullptr) *context.out[i]->as<decltype(value)>() = value;
  };
  put(1, scale);
  put(2, static_cast<uint8_t>(zero));
}

// The shape that a scale has, unless it is one number.
[[gnu::cold]] Status scale_shape(const InferContext& c, Shape* out) {
  const Shape& x = c.shape(0);
  int axis = 0;
  MINNOW_RETURN_IF_ERROR(normalize_axis(c.attrs.i("axis", 1), x.rank(), &axis));
  const int64_t block = c.attrs.i("block_size", 0);
  if (block < 0) return fail(Code::kFormat, "blocks of %lld elements", static_cast<long long>(block));
  *out = block == 0 ? Shape{x[axis]} : x;
  if (block > 0 && x[axis] > 0) (*out)[axis] = (x[axis] - 1) / block + 1;
  return ok();
}

[[gnu::cold]] Status infer_linear(InferContext& c) {
  for (int i = 1; i < std::min(3, c.num_inputs()); ++i) {
    if (!c.has(i) || c.shape(i).count() == 1) continue;
    Shape wanted;
    MINNOW_RETURN_IF_ERROR(scale_shape(c, &wanted));
    if (c.shape(i) != wanted || c.shape(1).count() == 1)
      return fail(Code::kFormat, "input %d of shape %s: one number is needed, or the shape %s", i,
                  c.shape(i).str().c_str(), wanted.str().c_str());
  }
  return ok();
}

[[gnu::cold]] Status infer_quantize(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  const DType x = c.in(0).dtype, scale = c.in(1).dtype;
  if ((!is_float(x) && x != DType::kI32) || (!is_float(scale) && scale != DType::kI32 && scale != DType::kF8E8M0))
    return fail(Code::kFormat, "takes floats, not %s with a scale of %s", dtype_name(x), dtype_name(scale));
  const DType to = c.attrs.get("to", DType::kU8), precision = c.attrs.get("precision", DType::kF32);
  if (!is_quantized(to)) return fail(Code::kUnsupported, "quantization to %s", dtype_name(to));
  if (!is_float(precision)) return fail(Code::kFormat, "a precision of %s", dtype_name(precision));
  if (c.has(2) && c.in(2).dtype != to)
    return fail(Code::kFormat, "a zero point of %s for %s", dtype_name(c.in(2).dtype), dtype_name(to));
  c.set(0, to, c.shape(0));
  return infer_linear(c);
}

[[gnu::cold]] Status infer_dequantize(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  const DType from = c.in(0).dtype, scale = c.in(1).dtype;
  if (!is_quantized(from) && from != DType::kI32)
    return fail(Code::kUnsupported, "dequantization of %s", dtype_name(from));
  if (!is_float(scale) && scale != DType::kF8E8M0) return fail(Code::kFormat, "a scale of %s", dtype_name(scale));
  const DType to = c.attrs.get("to", scale);
  if (!is_float(to)) return fail(Code::kFormat, "dequantization to %s", dtype_name(to));
  if (c.has(2) && c.in(2).dtype != from)
    return fail(Code::kFormat, "a zero point of %s for %s", dtype_name(c.in(2).dtype), dtype_name(from));
  c.set(0, to, c.shape(0));
  return infer_linear(c);
}

[[gnu::cold]] Status infer_dynamic(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  if (c.in(0).dtype != DType::kF32) return fail(Code::kFormat, "takes f32, not %s", dtype_name(c.in(0).dtype));
  const int64_t steps = c.attrs.i("steps", 0);
  if (steps < 0 || steps > 255) return fail(Code::kFormat, "%lld steps", static_cast<long long>(steps));
  c.set(0, DType::kU8, c.shape(0));
  c.set(1, DType::kF32, Shape());
  c.set(2, DType::kU8, Shape());
  return ok();
}

template <typename T>
std::unique_ptr<Kernel> create(const NodeContext& node) {
  return std::make_unique<T>(node);
}

// With one scale for all, the order of the elements does not matter.
LayoutRule layout_of(const std::vector<const TensorType*>& in) {
  return in.size() > 1 && in[1] != nullptr && in[1]->count() == 1 ? LayoutRule::kFollow : LayoutRule::kPlain;
}

MINNOW_OP("QuantizeLinear", infer_quantize);
MINNOW_KERNEL("QuantizeLinear", create<Quantize>, LayoutRule::kPlain, /*in_place=*/false, layout_of);
MINNOW_OP("DequantizeLinear", infer_dequantize);
MINNOW_KERNEL("DequantizeLinear", create<Dequantize>, LayoutRule::kPlain, /*in_place=*/false, layout_of);
MINNOW_OP("DynamicQuantizeLinear", infer_dynamic);
MINNOW_KERNEL("DynamicQuantizeLinear", create_simple<run_dynamic>);

}  // namespace

ByteRange byte_range(const float* x, int64_t n) {
  float low, high;
  HWY_DYNAMIC_DISPATCH(RangeOf)(x, n, &low, &high);
  ByteRange range;
  if (high != low) range.scale = (high - low) / 255.0f;
  // Written so that NaN becomes 0.
  const float lowest = -low / range.scale;
  if (lowest > 0) range.zero = std::rint(std::min(lowest, 255.0f));
  return range;
}

void quantize_bytes(const float* x, int64_t n, const ByteRange& range, uint8_t* y) {
  HWY_DYNAMIC_DISPATCH(QuantizeFloats)(x, &range.scale, &range.zero, 0, 0.0f, 255.0f, false, true, y, n);
}

}  // namespace minnow
#endif  // HWY_ONCE
