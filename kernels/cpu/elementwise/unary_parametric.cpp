// Elementwise functions of one number with parameters, mostly activations. One row an op.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/elementwise/frame.h"
#include "kernels/cpu/machine/simd.h"
//
#include "kernels/cpu/elementwise/math-inl.h"
#include "kernels/cpu/table.h"

// name, of a float vector `x` (with vectors `a`, `b` of the parameters and tag `d`), of a double `x`.
#define MINNOW_PARAMETRIC_FUNCTIONS(X)                                                                       \
  X(LeakyRelu, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(a, x), x), x < 0 ? a * x : x)                  \
  X(Elu, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(a, Expm1(d, x)), x), x < 0 ? a * std::expm1(x) : x)  \
  X(Selu, hn::Mul(b, hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, hn::Mul(a, Expm1(d, x)))),                    \
    b*(x > 0 ? x : a * std::expm1(x)))                                                                       \
  X(Celu, hn::Add(AtLeast(hn::Zero(d), x), AtMost(hn::Zero(d), hn::Mul(a, Expm1(d, hn::Div(x, a))))),        \
    (x < 0 ? 0 : x) + std::fmin(0.0, a * std::expm1(x / a)))                                                 \
  X(ThresholdedRelu, hn::IfThenElseZero(hn::Gt(x, a), x), x > a ? x : 0)                                     \
  X(HardSigmoid, AtMost(hn::Set(d, 1.0f), AtLeast(hn::Zero(d), hn::MulAdd(a, x, b))), clamp(a* x + b, 0, 1)) \
  X(Clip, AtMost(b, AtLeast(a, x)), clamp(x, a, b))                                                          \
  X(Shrink, Shrink(d, x, a, b), x<-b ? x + a : x> b ? x - a : 0)                                             \
  X(RoundEven, hn::Round(x), std::rint(x))                                                                   \
  X(RoundAway, RoundAway(d, x), std::round(x))                                                               \
  X(GeluErf, Gelu(d, x), 0.5 * x * std::erfc(-x * 0.70710678118654752))                                      \
  X(GeluTanh, GeluTanh(d, x), x / (1 + std::exp(-1.5957691216057308 * (x + 0.044715 * x * x * x))))

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {

template <class D, class V>
HWY_INLINE V Shrink(D, V x, V bias, V lambd) {
  const V above = hn::IfThenElseZero(hn::Gt(x, lambd), hn::Sub(x, bias));
  return hn::IfThenElse(hn::Lt(x, hn::Neg(lambd)), hn::Add(x, bias), above);
}

template <class D, class V>
HWY_INLINE V RoundAway(D d, V x) {
  const V whole = hn::Trunc(x);
  const V up = hn::Add(whole, hn::CopySign(hn::Set(d, 1.0f), x));
  return hn::CopySign(hn::IfThenElse(hn::Ge(hn::Abs(hn::Sub(x, whole)), hn::Set(d, 0.5f)), up, whole), x);
}

#define MINNOW_DEFINE(Name, Vector, Scalar)                                    \
  void Map##Name(const void* in, void* out, int64_t n, const Params& params) { \
    const auto f = [&params](auto d, auto x) HWY_ATTR {                        \
      const auto a = hn::Set(d, static_cast<float>(params.a));                 \
      const auto b = hn::Set(d, static_cast<float>(params.b));                 \
      (void)a, (void)b;                                                        \
      return Vector;                                                           \
    };                                                                         \
    MapFloats(static_cast<const float*>(in), static_cast<float*>(out), n, f);  \
  }
MINNOW_PARAMETRIC_FUNCTIONS(MINNOW_DEFINE)
#undef MINNOW_DEFINE

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>
#include <limits>

namespace minnow {
namespace {

// NaN stays NaN; the upper bound wins where it is the lower one.
double clamp(double x, double low, double high) {
  const double y = x < low ? low : x;
  return y > high ? high : y;
}

#define MINNOW_FUNCTIONS(Name, Vector, Scalar)                                 \
  HWY_EXPORT(Map##Name);                                                       \
  void Name##F64(const void* in, void* out, int64_t n, const Params& params) { \
    const double a = params.a, b = params.b;                                   \
    (void)a, (void)b;                                                          \
    for (int64_t i = 0; i < n; ++i) {                                          \
      const double x = static_cast<const double*>(in)[i];                      \
      static_cast<double*>(out)[i] = Scalar;                                   \
    }                                                                          \
  }                                                                            \
  UnaryFunctions functions_##Name() { return {&HWY_DYNAMIC_DISPATCH(Map##Name), Name##F64}; }
MINNOW_PARAMETRIC_FUNCTIONS(MINNOW_FUNCTIONS)

// Integers by way of double.
template <typename T, DType Type, UnaryFunction Function>
void as_double(const void* in, void* out, int64_t n, const Params& params) {
  Block block;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i);
    convert(Type, static_cast<const T*>(in) + i, DType::kF64, block.bytes, m);
    Function(block.bytes, block.bytes, m, params);
    convert(DType::kF64, block.bytes, Type, static_cast<T*>(out) + i, m);
  }
}

// The least and the greatest integer within [min, max]; bounds beyond the type do not bind.
template <typename T>
T saturate(double bound) {
  using Limits = std::numeric_limits<T>;
  if (!(bound > static_cast<double>(Limits::min()))) return Limits::min();
  return bound >= static_cast<double>(Limits::max()) ? Limits::max() : static_cast<T>(bound);
}

template <typename T>
void clip_ints(const void* in, void* out, int64_t n, const Params& params) {
  const T low = saturate<T>(std::ceil(params.a));
  const T high = saturate<T>(std::floor(params.b));
  for (int64_t i = 0; i < n; ++i) static_cast<T*>(out)[i] = std::min(std::max(static_cast<const T*>(in)[i], low), high);
}

// Attributes have the precision of float.
double number(const Attrs& attrs, const char* name, double fallback) {
  return static_cast<float>(attrs.f(name, fallback));
}

std::unique_ptr<Kernel> create_clip(const NodeContext& node) {
  UnaryFunctions functions = functions_Clip();
  functions.i32 = clip_ints<int32_t>;
  functions.i64 = clip_ints<int64_t>;
  functions.u64 = clip_ints<uint64_t>;
  Params params{number(node.attrs, "min", -HUGE_VAL), number(node.attrs, "max", HUGE_VAL)};
  // Small integers are computed in wider ones, and so do not bind the bounds to their own range yet.
  const DType dtype = node.in[0]->dtype;
  const bool is_signed = dtype == DType::kI8 || dtype == DType::kI16 || dtype == DType::kI32;
  if (!is_float(dtype) && dtype_size(dtype) < 8) {
    const double most = std::ldexp(1, static_cast<int>(8 * dtype_size(dtype)) - is_signed) - 1;
    params.a = clamp(params.a, is_signed ? -most - 1 : 0, most);
    params.b = clamp(params.b, is_signed ? -most - 1 : 0, most);
  }
  return create_unary(functions, params);
}

UnaryFunctions functions_shrink() {
  UnaryFunctions functions = functions_Shrink();
  functions.i32 = as_double<int32_t, DType::kI32, ShrinkF64>;
  functions.i64 = as_double<int64_t, DType::kI64, ShrinkF64>;
  functions.u64 = as_double<uint64_t, DType::kU64, ShrinkF64>;
  return functions;
}

// An attribute that is one of two words, of which the first is the default.
Status infer_choice(InferContext& c, const char* name, const char* first, const char* second) {
  const std::string given = c.attrs.s(name, first);
  if (given != first && given != second)
    return fail(Code::kUnsupported, "%s=\"%s\" is neither \"%s\" nor \"%s\"", name, given.c_str(), first, second);
  return infer_float(c);
}

Status infer_gelu(InferContext& c) { return infer_choice(c, "approximate", "none", "tanh"); }
Status infer_round(InferContext& c) { return infer_choice(c, "halves", "even", "away"); }

std::unique_ptr<Kernel> create_gelu(const NodeContext& node) {
  const bool is_tanh = node.attrs.s("approximate") == "tanh";
  return create_unary(is_tanh ? functions_GeluTanh() : functions_GeluErf(), {});
}
std::unique_ptr<Kernel> create_round(const NodeContext& node) {
  const bool is_away = node.attrs.s("halves") == "away";
  return create_unary(is_away ? functions_RoundAway() : functions_RoundEven(), {});
}

MINNOW_OP("Clip", infer_numeric, kElementwise);
MINNOW_KERNEL("Clip", create_clip, LayoutRule::kFollow, /*in_place=*/true, nullptr, Pieces::kVectors);
MINNOW_OP("Gelu", infer_gelu, kElementwise);
MINNOW_KERNEL("Gelu", create_gelu, LayoutRule::kFollow, /*in_place=*/true, nullptr, Pieces::kVectors);
MINNOW_OP("Round", infer_round, kElementwise);
MINNOW_KERNEL("Round", create_round, LayoutRule::kFollow, /*in_place=*/true, nullptr, Pieces::kVectors);

#define MINNOW_PARAMETRIC(Name, infer, functions, a_name, a_default, b_name, b_default)                               \
  std::unique_ptr<Kernel> create_##Name(const NodeContext& node) {                                                    \
    return create_unary(functions(), {number(node.attrs, a_name, a_default), number(node.attrs, b_name, b_default)}); \
  }                                                                                                                   \
  MINNOW_OP(#Name, infer, kElementwise);                                                                              \
  MINNOW_KERNEL(#Name, create_##Name, LayoutRule::kFollow, /*in_place=*/true, nullptr, Pieces::kVectors)

MINNOW_PARAMETRIC(LeakyRelu, infer_float, functions_LeakyRelu, "alpha", 0.01, "", 0);
MINNOW_PARAMETRIC(Elu, infer_float, functions_Elu, "alpha", 1, "", 0);
MINNOW_PARAMETRIC(Selu, infer_float, functions_Selu, "alpha", 1.6732632423543772, "gamma", 1.0507009873554805);
MINNOW_PARAMETRIC(Celu, infer_float, functions_Celu, "alpha", 1, "", 0);
MINNOW_PARAMETRIC(ThresholdedRelu, infer_float, functions_ThresholdedRelu, "alpha", 1, "", 0);
MINNOW_PARAMETRIC(HardSigmoid, infer_float, functions_HardSigmoid, "alpha", 0.2, "beta", 0.5);
MINNOW_PARAMETRIC(Shrink, infer_numeric, functions_shrink, "bias", 0, "lambd", 0.5);

}  // namespace
}  // namespace minnow
#endif  // HWY_ONCE
