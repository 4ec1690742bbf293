// QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear. Integers pass through blocks of i32, whatever their type.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/convert/blocks.h"
#include "kernels/cpu/machine/simd.h"
//
#include "kernels/cpu/elementwise/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {

// For n elements: calls vector(i, scale, zero) for whole vectors and the same with `part` elements for the rest, where
// scale and zero step along with the elements, or are single numbers.
template <class Body>
HWY_INLINE void WithParameters(const float* scale, const float* zero, int step, int64_t n, const Body& body) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  if (step == 0) {
    const auto s = hn::Set(d, *scale), z = hn::Set(d, *zero);
    for (; i < n; i += lanes) body(i, HWY_MIN(lanes, n - i), s, z);
    return;
  }
  for (; i + lanes <= n; i += lanes) body(i, lanes, hn::LoadU(d, scale + i), hn::LoadU(d, zero + i));
  if (i == n) return;
  HWY_ALIGN float rest[2][hn::MaxLanes(d)] = {};
  std::memcpy(rest[0], scale + i, static_cast<size_t>(n - i) * sizeof(float));
  std::memcpy(rest[1], zero + i, static_cast<size_t>(n - i) * sizeof(float));
  body(i, n - i, hn::Load(d, rest[0]), hn::Load(d, rest[1]));
}

// Elements of 8 bits, or of 32, are vectors of i32 in between.
template <class D>
HWY_INLINE hn::Vec<D> LoadAs(D d, DType from, const void* x, int64_t i) {
  const hn::Rebind<uint8_t, D> u8;
  const hn::Rebind<int8_t, D> i8;
  if (from == DType::kU8) return hn::PromoteTo(d, hn::LoadU(u8, static_cast<const uint8_t*>(x) + i));
  if (from == DType::kI8) return hn::PromoteTo(d, hn::LoadU(i8, static_cast<const int8_t*>(x) + i));
  return hn::LoadU(d, static_cast<const int32_t*>(x) + i);
}
template <class D>
HWY_INLINE void StoreAs(D d, hn::Vec<D> v, DType to, void* y, int64_t i) {
  const hn::Rebind<uint8_t, D> bytes;
  if (to == DType::kI32) return hn::StoreU(v, d, static_cast<int32_t*>(y) + i);
  hn::StoreU(hn::TruncateTo(bytes, hn::BitCast(hn::RebindToUnsigned<D>(), v)), bytes, static_cast<uint8_t*>(y) + i);
}

// y = saturate(round(x / scale) + zero), of type u8, i8 or i32. With `quotients`, x is divided already.
void QuantizeFloats(const float* x, const float* scale, const float* zero, int step, float low, float high,
                    bool quotients, DType to, void* y, int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto least = hn::Set(d, low), most = hn::Set(d, high);
  // Division by one number: a product with its reciprocal is within two units in the last place of the quotient. Where
  // that lies this near to the middle between two integers, the quotient itself is asked.
  const float magnitude = *scale < 0 ? -*scale : *scale;
  const float reach = HWY_MAX(*zero - low, high - *zero) + 1;
  if (step == 0 && !quotients && magnitude > 1e-18f && magnitude < 1e18f && reach < 1024) {
    const auto s = hn::Set(d, *scale), r = hn::Set(d, 1.0f / *scale), z = hn::Set(d, *zero);
    const auto bottom = hn::Set(d, low - *zero), top = hn::Set(d, high - *zero);
    // Nothing is in doubt with a power of two: sums of few scaled bytes, whose scale is 1, often lie in the middle.
    int32_t bits;
    std::memcpy(&bits, scale, sizeof(bits));
    const bool exact = (bits & 0x7FFFFF) == 0;
    const auto doubt = hn::Set(d, exact ? 1.0f : 0.5f - reach * 0x1p-21f);
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const int64_t whole = n / lanes * lanes;
    for (int64_t i = 0; i < whole; i += lanes) {
      const auto v = hn::LoadU(d, x + i);
      const auto q = AtMost(top, AtLeast(bottom, hn::Mul(v, r)));
      auto rounded = hn::Round(q);
      if (HWY_UNLIKELY(!hn::AllFalse(d, hn::Gt(hn::Abs(hn::Sub(q, rounded)), doubt))))
        rounded = hn::Round(AtMost(top, AtLeast(bottom, hn::Div(v, s))));
      StoreAs(di, hn::ConvertTo(di, hn::Add(rounded, z)), to, y, i);
    }
    if (n == whole) return;
    n -= whole;
    x += whole;
    y = static_cast<char*>(y) + whole * (to == DType::kI32 ? 4 : 1);
  }
  WithParameters(scale, zero, step, n, [&](int64_t i, int64_t m, auto s, auto z) HWY_ATTR {
    HWY_ALIGN float in[hn::MaxLanes(d)] = {};
    HWY_ALIGN int32_t out[hn::MaxLanes(d)];
    const size_t bytes = static_cast<size_t>(m) * 4;
    const bool whole = m == static_cast<int64_t>(hn::Lanes(d));
    if (!whole) std::memcpy(in, x + i, bytes);
    const auto v = whole ? hn::LoadU(d, x + i) : hn::Load(d, in);
    const auto rounded = hn::Add(hn::Round(quotients ? v : hn::Div(v, s)), z);
    const auto q = hn::ConvertTo(di, AtMost(most, AtLeast(least, rounded)));
    if (whole) return StoreAs(di, q, to, y, i);
    StoreAs(di, q, to, out, 0);
    const int64_t size = to == DType::kI32 ? 4 : 1;
    std::memcpy(static_cast<char*>(y) + i * size, out, static_cast<size_t>(m * size));
  });
}

// y = (x - zero) * scale, exact but for the last rounding if x has 16 bits. x is u8, i8 or i32.
void DequantizeFloats(DType from, const void* x, const float* scale, const float* zero, int step, float* y, int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  WithParameters(scale, zero, step, n, [&](int64_t i, int64_t m, auto s, auto z) HWY_ATTR {
    HWY_ALIGN int32_t in[hn::MaxLanes(d)] = {};
    HWY_ALIGN float out[hn::MaxLanes(d)];
    const int64_t size = from == DType::kI32 ? 4 : 1;
    const bool whole = m == static_cast<int64_t>(hn::Lanes(d));
    if (!whole) std::memcpy(in, static_cast<const char*>(x) + i * size, static_cast<size_t>(m * size));
    const auto v = LoadAs(di, from, whole ? x : in, whole ? i : 0);
    const auto product = hn::Mul(hn::Sub(hn::ConvertTo(d, v), z), s);
    if (whole) return hn::StoreU(product, d, y + i);
    hn::Store(product, d, out);
    std::memcpy(y + i, out, static_cast<size_t>(m) * 4);
  });
}

// The least and greatest number, and 0.
void RangeOf(const float* x, int64_t n, float* low, float* high) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto least = hn::Zero(d), most = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    least = hn::Min(least, v);
    most = hn::Max(most, v);
  }
  *low = hn::GetLane(hn::MinOfLanes(d, least));
  *high = hn::GetLane(hn::MaxOfLanes(d, most));
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
#include "kernels/cpu/quant/dynamic.h"
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
  T* parameters(const RunContext& context) const {
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

  // Calls block(first element, elements, index of the first parameter, step of the parameters) for blocks of elements.
  template <typename Block>
  void for_blocks(const RunContext& context, Block block) const {
    if (length_ == 0) return;
    const int64_t pieces = (length_ + kBlock - 1) / kBlock;
    const int64_t grain = std::max<int64_t>(1, 8192 / std::min(length_, kBlock));
    context.pool->parallel_for(rows_ * pieces, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const Row row = row_at(unit / pieces);
        const int64_t first = unit % pieces * kBlock;
        if (first < row.length)
          block(row.at + first, std::min(kBlock, row.length - first), row.parameter + row.step * first, row.step);
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
  Row row_at(int64_t i) const {
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

  void run_floats(const RunContext& context, DType division) const {
    const DType from = context.in[0]->type.dtype, to = context.out[0]->type.dtype;
    const bool is_half = division != DType::kF32, is_float = is_minifloat(to);
    const Storing how = storing();
    float* scale = parameters<float>(context);
    const float* zero = scale + count_;
    if (is_half) round_to(division, scale, count_);
    double low = 0, high = 0;
    if (!is_float) limits(to, &low, &high);
    for_blocks(context, [&](int64_t at, int64_t n, int64_t p, int step) {
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
      const bool direct = to == DType::kU8 || to == DType::kI8;
      HWY_DYNAMIC_DISPATCH(QuantizeFloats)
      (x, scale + p, zero + p, step, static_cast<float>(low), static_cast<float>(high), is_half,
       direct ? to : DType::kI32, direct ? out : result.bytes, n);
      if (!direct) store_block(Compute::kI32, result.bytes, to, out, n);
    });
  }

  void run_doubles(const RunContext& context) const {
    const DType from = context.in[0]->type.dtype, to = context.out[0]->type.dtype;
    const Storing how = storing();
    const double* scale = parameters<double>(context);
    const double* zero = scale + count_;
    double low = 0, high = 0;
    if (!is_minifloat(to)) limits(to, &low, &high);
    for_blocks(context, [&](int64_t at, int64_t n, int64_t p, int step) {
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
  void run_floats(const RunContext& context, DType from, DType to) const {
    const float* scale = parameters<float>(context);
    const float* zero = scale + count_;
    for_blocks(context, [&](int64_t at, int64_t n, int64_t p, int step) {
      Block loaded, result;
      const bool direct = from == DType::kU8 || from == DType::kI8;
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

  void run_doubles(const RunContext& context, DType from, DType to) const {
    const double* scale = parameters<double>(context);
    for_blocks(context, [&](int64_t at, int64_t n, int64_t p, int step) {
      double y[kBlock];
      convert(from, offset(context.in[0]->data, at, dtype_size(from)), DType::kF64, y, n);
      for (int64_t i = 0; i < n; ++i) y[i] = (y[i] - scale[count_ + p + step * i]) * scale[p + step * i];
      store_block(Compute::kF64, y, to, offset(context.out[0]->data, at, dtype_size(to)), n);
    });
  }
};

void run_dynamic(const Attrs& attrs, const RunContext& context) {
  const float* x = context.in[0]->as<float>();
  const int64_t n = context.in[0]->count();
  float low, high;
  HWY_DYNAMIC_DISPATCH(RangeOf)(x, n, &low, &high);
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
  context.pool->parallel_for(y == nullptr ? 0 : n, 16384, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t m = std::min(kBlock, end - i);
      HWY_DYNAMIC_DISPATCH(QuantizeFloats)(x + i, &scale, &zero, 0, 0.0f, 255.0f, false, DType::kU8, y + i, m);
    }
  });
  const auto put = [&](size_t i, auto value) {
    if (i < context.out.size() && context.out[i] != nullptr) *context.out[i]->as<decltype(value)>() = value;
  };
  put(1, scale);
  put(2, static_cast<uint8_t>(zero));
}

// The shape that a scale has, unless it is one number.
Status scale_shape(const InferContext& c, Shape* out) {
  const Shape& x = c.shape(0);
  int axis = 0;
  MINNOW_RETURN_IF_ERROR(normalize_axis(c.attrs.i("axis", 1), x.rank(), &axis));
  const int64_t block = c.attrs.i("block_size", 0);
  if (block < 0) return fail(Code::kFormat, "blocks of %lld elements", static_cast<long long>(block));
  *out = block == 0 ? Shape{x[axis]} : x;
  if (block > 0 && x[axis] > 0) (*out)[axis] = (x[axis] - 1) / block + 1;
  return ok();
}

Status infer_linear(InferContext& c) {
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

Status infer_quantize(InferContext& c) {
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

Status infer_dequantize(InferContext& c) {
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

Status infer_dynamic(InferContext& c) {
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
  HWY_DYNAMIC_DISPATCH(QuantizeFloats)(x, &range.scale, &range.zero, 0, 0.0f, 255.0f, false, DType::kU8, y, n);
}

}  // namespace minnow
#endif  // HWY_ONCE
