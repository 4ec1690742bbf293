// QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear. Integers pass through blocks of i32, whatever their type.
#define HWY_TARGET_INCLUDE "kernels/cpu/quantize.cpp"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/simd.h"
//
#include "kernels/cpu/unary_math-inl.h"

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

// y = saturate(round(x / scale) + zero). With `quotients`, x is divided already.
void QuantizeFloats(const float* x, const float* scale, const float* zero, int step, float low, float high,
                    bool quotients, int32_t* y, int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto least = hn::Set(d, low), most = hn::Set(d, high);
  WithParameters(scale, zero, step, n, [&](int64_t i, int64_t m, auto s, auto z) HWY_ATTR {
    HWY_ALIGN float in[hn::MaxLanes(d)] = {};
    HWY_ALIGN int32_t out[hn::MaxLanes(d)];
    const size_t bytes = static_cast<size_t>(m) * 4;
    const bool whole = m == static_cast<int64_t>(hn::Lanes(d));
    if (!whole) std::memcpy(in, x + i, bytes);
    const auto v = whole ? hn::LoadU(d, x + i) : hn::Load(d, in);
    const auto rounded = hn::Add(hn::Round(quotients ? v : hn::Div(v, s)), z);
    const auto q = hn::ConvertTo(di, AtMost(most, AtLeast(least, rounded)));
    if (whole) return hn::StoreU(q, di, y + i);
    hn::Store(q, di, out);
    std::memcpy(y + i, out, bytes);
  });
}

// y = (x - zero) * scale, exact but for the last rounding if x has 16 bits.
void DequantizeFloats(const int32_t* x, const float* scale, const float* zero, int step, float* y, int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  WithParameters(scale, zero, step, n, [&](int64_t i, int64_t m, auto s, auto z) HWY_ATTR {
    HWY_ALIGN int32_t in[hn::MaxLanes(d)] = {};
    HWY_ALIGN float out[hn::MaxLanes(d)];
    const size_t bytes = static_cast<size_t>(m) * 4;
    const bool whole = m == static_cast<int64_t>(hn::Lanes(d));
    if (!whole) std::memcpy(in, x + i, bytes);
    const auto v = whole ? hn::LoadU(di, x + i) : hn::Load(di, in);
    const auto product = hn::Mul(hn::Sub(hn::ConvertTo(d, v), z), s);
    if (whole) return hn::StoreU(product, d, y + i);
    hn::Store(product, d, out);
    std::memcpy(y + i, out, bytes);
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

#include "kernels/infer.h"

namespace minnow {
namespace {

HWY_EXPORT(QuantizeFloats);
HWY_EXPORT(DequantizeFloats);
HWY_EXPORT(RangeOf);

bool is_quantized(DType t) { return t == DType::kI8 || t == DType::kU8 || t == DType::kI16 || t == DType::kU16; }

// What the two ops share: scale and zero point are single numbers, or there is one for each place along an axis.
class Linear : public Kernel {
 public:
  explicit Linear(const NodeContext& node) : attrs_(node.attrs) {}

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    const TensorType& x = *node.in[0];
    count_ = node.in[1]->count();
    outer_ = 1;
    inner_ = stored_count(x);
    if (count_ != 1) {
      int axis = 0;
      MINNOW_RETURN_IF_ERROR(normalize_axis(attrs_.i("axis", 1), x.shape.rank(), &axis));
      outer_ = x.shape.count(0, axis);
      inner_ = x.shape.count(axis + 1, x.shape.rank());
    }
    *workspace = count_ * 2 * 8;
    return ok();
  }

 protected:
  // Scales and zero points as T, the zero points behind the scales.
  template <typename T>
  const T* parameters(const RunContext& context) const {
    constexpr DType kType = sizeof(T) == 8 ? DType::kF64 : DType::kF32;
    T* out = static_cast<T*>(context.workspace);
    convert(context.in[1]->type.dtype, context.in[1]->data, kType, out, count_);
    const Tensor* zero = context.in.size() > 2 ? context.in[2] : nullptr;
    const int64_t zeros = zero == nullptr ? 0 : zero->count();
    for (int64_t i = 0; i < count_; ++i) {
      out[count_ + i] = 0;
      if (zeros > 0)
        convert(zero->type.dtype, offset(zero->data, zeros == 1 ? 0 : i, dtype_size(zero->type.dtype)), kType,
                out + count_ + i, 1);
    }
    return out;
  }

  // Calls row(first element, elements, index of the first parameter, step of the parameters) for blocks of elements.
  template <typename Row>
  void for_blocks(const RunContext& context, Row row) const {
    // Either the elements of a row share their parameters, or, when the axis is the last one, none do.
    const bool along = inner_ == 1 && count_ > 1;
    const int64_t length = along ? count_ : inner_;
    const int64_t pieces = (length + kBlock - 1) / kBlock;
    const int64_t rows = along ? outer_ : outer_ * count_;
    const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, std::min(length, kBlock)));
    context.pool->parallel_for(rows * pieces, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t first = unit % pieces * kBlock;
        const int64_t n = std::min(kBlock, length - first);
        row(unit / pieces * length + first, n, along ? first : unit / pieces % count_, along ? 1 : 0);
      }
    });
  }

  const Attrs& attrs_;
  int64_t count_ = 1;  // of scales
  int64_t outer_ = 1, inner_ = 1;
};

class Quantize final : public Linear {
 public:
  using Linear::Linear;
  void run(const RunContext& context) override {
    context.in[0]->type.dtype == DType::kF64 ? run_doubles(context) : run_floats(context);
  }

 private:
  static void limits(DType to, double* low, double* high) {
    const bool is_signed = to == DType::kI8 || to == DType::kI16;
    const double all = to == DType::kI8 || to == DType::kU8 ? 256 : 65536;
    *low = is_signed ? -all / 2 : 0;
    *high = *low + all - 1;
  }

  void run_floats(const RunContext& context) const {
    const DType from = context.in[0]->type.dtype, to = context.out[0]->type.dtype;
    const float* scale = parameters<float>(context);
    const float* zero = scale + count_;
    double low, high;
    limits(to, &low, &high);
    for_blocks(context, [&](int64_t at, int64_t n, int64_t p, int step) {
      Block loaded, rounded, result;
      const float* x = static_cast<const float*>(
          load_block(from, offset(context.in[0]->data, at, dtype_size(from)), n, loaded.bytes));
      const bool is_half = from != DType::kF32;
      if (is_half) {  // the quotient is one of the type of x
        float* q = reinterpret_cast<float*>(loaded.bytes);
        for (int64_t i = 0; i < n; ++i) q[i] = x[i] / scale[p + step * i];
        store_block(Compute::kF32, q, from, rounded.bytes, n);
        x = static_cast<const float*>(load_block(from, rounded.bytes, n, loaded.bytes));
      }
      int32_t* y = reinterpret_cast<int32_t*>(result.bytes);
      HWY_DYNAMIC_DISPATCH(QuantizeFloats)
      (x, scale + p, zero + p, step, static_cast<float>(low), static_cast<float>(high), is_half, y, n);
      store_block(Compute::kI32, y, to, offset(context.out[0]->data, at, dtype_size(to)), n);
    });
  }

  void run_doubles(const RunContext& context) const {
    const DType to = context.out[0]->type.dtype;
    const double* scale = parameters<double>(context);
    double low, high;
    limits(to, &low, &high);
    for_blocks(context, [&](int64_t at, int64_t n, int64_t p, int step) {
      double y[kBlock];
      for (int64_t i = 0; i < n; ++i) {
        const double q =
            std::rint(context.in[0]->as<double>()[at + i] / scale[p + step * i]) + scale[count_ + p + step * i];
        y[i] = q < low ? low : q > high ? high : q;
      }
      store_block(Compute::kF64, y, to, offset(context.out[0]->data, at, dtype_size(to)), n);
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
    for_blocks(context, [&](int64_t at, int64_t n, int64_t p, int step) {
      Block loaded, result;
      const void* x = load_block(from, offset(context.in[0]->data, at, dtype_size(from)), n, loaded.bytes);
      void* out = offset(context.out[0]->data, at, dtype_size(to));
      float* y = static_cast<float*>(to == DType::kF32 ? out : result.bytes);
      HWY_DYNAMIC_DISPATCH(DequantizeFloats)(static_cast<const int32_t*>(x), scale + p, scale + count_ + p, step, y, n);
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

void run_dynamic(const Attrs&, const RunContext& context) {
  const float* x = context.in[0]->as<float>();
  const int64_t n = context.in[0]->count();
  float low, high;
  HWY_DYNAMIC_DISPATCH(RangeOf)(x, n, &low, &high);
  const float scale = high == low ? 1.0f : (high - low) / 255.0f;
  // Written so that NaN becomes 0.
  const float zero = -low / scale > 0 ? std::rint(std::min(-low / scale, 255.0f)) : 0.0f;
  uint8_t* y = context.out[0] == nullptr ? nullptr : context.out[0]->as<uint8_t>();
  context.pool->parallel_for(y == nullptr ? 0 : n, 16384, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t m = std::min(kBlock, end - i);
      int32_t q[kBlock];
      HWY_DYNAMIC_DISPATCH(QuantizeFloats)(x + i, &scale, &zero, 0, 0.0f, 255.0f, false, q, m);
      store_block(Compute::kI32, q, DType::kU8, y + i, m);
    }
  });
  const auto put = [&](size_t i, auto value) {
    if (i < context.out.size() && context.out[i] != nullptr) *context.out[i]->as<decltype(value)>() = value;
  };
  put(1, scale);
  put(2, static_cast<uint8_t>(zero));
}

Status infer_linear(InferContext& c) {
  const int axis_default = 1;
  const Shape& shape = c.shape(0);
  for (int i = 1; i < std::min(3, c.num_inputs()); ++i) {
    if (!c.has(i) || c.shape(i).count() == 1) continue;
    int axis = 0;
    MINNOW_RETURN_IF_ERROR(normalize_axis(c.attrs.i("axis", axis_default), shape.rank(), &axis));
    if (c.shape(i) != Shape{shape[axis]} || c.shape(1).count() == 1)
      return fail(Code::kFormat, "input %d of shape %s: one number is needed, or %lld along axis %d", i,
                  c.shape(i).str().c_str(), static_cast<long long>(shape[axis]), axis);
  }
  return ok();
}

Status infer_quantize(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  if (!is_float(c.in(0).dtype) || !is_float(c.in(1).dtype))
    return fail(Code::kFormat, "takes floats, not %s with a scale of %s", dtype_name(c.in(0).dtype),
                dtype_name(c.in(1).dtype));
  const DType to = c.attrs.get("to", DType::kU8);
  if (!is_quantized(to)) return fail(Code::kUnsupported, "quantization to %s", dtype_name(to));
  if (c.has(2) && c.in(2).dtype != to)
    return fail(Code::kFormat, "a zero point of %s for %s", dtype_name(c.in(2).dtype), dtype_name(to));
  c.set(0, to, c.shape(0));
  return infer_linear(c);
}

Status infer_dequantize(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  const DType from = c.in(0).dtype;
  if (!is_quantized(from) && from != DType::kI32)
    return fail(Code::kUnsupported, "dequantization of %s", dtype_name(from));
  if (!is_float(c.in(1).dtype)) return fail(Code::kFormat, "a scale of %s", dtype_name(c.in(1).dtype));
  if (c.has(2) && c.in(2).dtype != from)
    return fail(Code::kFormat, "a zero point of %s for %s", dtype_name(c.in(2).dtype), dtype_name(from));
  c.set(0, c.in(1).dtype, c.shape(0));
  return infer_linear(c);
}

Status infer_dynamic(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  if (c.in(0).dtype != DType::kF32) return fail(Code::kFormat, "takes f32, not %s", dtype_name(c.in(0).dtype));
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

MINNOW_OP("QuantizeLinear", infer_quantize, create<Quantize>, LayoutRule::kPlain, false, layout_of);
MINNOW_OP("DequantizeLinear", infer_dequantize, create<Dequantize>, LayoutRule::kPlain, false, layout_of);
MINNOW_OP("DynamicQuantizeLinear", infer_dynamic, create_simple<run_dynamic>);

}  // namespace
}  // namespace minnow
#endif  // HWY_ONCE
