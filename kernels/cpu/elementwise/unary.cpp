// Elementwise functions of one number without parameters. One row an op.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/elementwise/frame.h"
#include "kernels/cpu/machine/simd.h"
//
#include "kernels/cpu/elementwise/math-inl.h"
#include "kernels/cpu/table.h"

// name, of a float vector `x` with tag `d`, of a double `x`.
#define MINNOW_UNARY_FUNCTIONS(X)                                                             \
  X(Floor, hn::Floor(x), std::floor(x))                                                       \
  X(Ceil, hn::Ceil(x), std::ceil(x))                                                          \
  X(Sqrt, hn::Sqrt(x), std::sqrt(x))                                                          \
  X(Rsqrt, hn::Div(hn::Set(d, 1.0f), hn::Sqrt(x)), 1 / std::sqrt(x))                          \
  X(Reciprocal, hn::Div(hn::Set(d, 1.0f), x), 1 / x)                                          \
  X(Exp, Exp(d, x), std::exp(x))                                                              \
  X(Expm1, Expm1(d, x), std::expm1(x))                                                        \
  X(Log, Log(d, x), std::log(x))                                                              \
  X(Sin, SinCos<false>(d, x), std::sin(x))                                                    \
  X(Cos, SinCos<true>(d, x), std::cos(x))                                                     \
  X(Asin, Asin(d, x), std::asin(x))                                                           \
  X(Acos, Acos(d, x), std::acos(x))                                                           \
  X(Atan, Atan(d, x), std::atan(x))                                                           \
  X(Tanh, Tanh(d, x), std::tanh(x))                                                           \
  X(Erf, Erf(d, x), std::erf(x))                                                              \
  X(Sigmoid, Sigmoid(d, x), x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x))) \
  X(Silu, hn::Mul(x, Sigmoid(d, x)), x / (1 + std::exp(-x)))                                  \
  X(Softplus, Softplus(d, x), std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))))        \
  X(Softsign, hn::Div(x, hn::Add(hn::Set(d, 1.0f), hn::Abs(x))), x / (1 + std::fabs(x)))      \
  X(Mish, Mish(d, x), x* std::tanh(std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x)))))  \
  X(HardSwish, HardSwish(d, x), x* std::fmin(std::fmax(x + 3, 0.0), 6.0) / 6)

// name, of a float or double `x`: ops that are rare enough for the C library.
#define MINNOW_LIBRARY_FUNCTIONS(X) \
  X(Tan, std::tan(x))               \
  X(Sinh, std::sinh(x))             \
  X(Cosh, std::cosh(x))             \
  X(Asinh, std::asinh(x))           \
  X(Acosh, std::acosh(x))           \
  X(Atanh, std::atanh(x))           \
  X(Log1p, std::log1p(x))           \
  X(Erfc, std::erfc(x))

// name, of a float vector, of a scalar, of a signed integer, of an unsigned one. Integers wrap.
#define MINNOW_NUMERIC_FUNCTIONS(X)                                                       \
  X(Abs, hn::Abs(x), std::fabs(x), x < 0 ? negate(x) : x, x)                              \
  X(Neg, hn::Neg(x), -x, negate(x), negate(x))                                            \
  X(Square, hn::Mul(x, x), x* x, square(x), square(x))                                    \
  X(Sign, Sign(d, x), x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x, (x > 0) - (x < 0), x != 0) \
  X(Relu, AtLeast(hn::Zero(d), x), x < 0 ? 0 : x, x < 0 ? 0 : x, x)

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {

template <class D, class V>
HWY_INLINE V Sign(D d, V x) {
  const V one = hn::CopySign(hn::Set(d, 1.0f), x);
  const V y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Zero(d), one);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

template <class D, class V>
HWY_INLINE V HardSwish(D d, V x) {
  const V gate = AtMost(hn::Set(d, 6.0f), AtLeast(hn::Zero(d), hn::Add(x, hn::Set(d, 3.0f))));
  return hn::Mul(x, hn::Mul(gate, hn::Set(d, 1.0f / 6.0f)));
}

// The arc of tangent num / den in [0, inf] is that of a number in [-tan(pi/8), tan(pi/8)], and a multiple of pi/4.
template <class D, class V>
HWY_INLINE V Atan(D d, V x) {
  static const float kCoefficients[] = {-0.333333164f, 0.199984893f, -0.142438442f, 0.105959661f, -0.0608335994f};
  const V one = hn::Set(d, 1.0f), size = hn::Abs(x);
  const auto middle = hn::Gt(size, hn::Set(d, 0.414213562f)), far = hn::Gt(size, hn::Set(d, 2.41421356f));
  const V above = hn::IfThenElse(middle, hn::Sub(size, one), size), below = hn::Add(size, one);
  const V num = hn::IfThenElse(far, hn::Neg(one), above);
  const V den = hn::IfThenElse(far, size, hn::IfThenElse(middle, below, one));
  const V r = hn::Div(num, den), r2 = hn::Mul(r, r);
  // The multiple in two parts, of which the second takes part in the small sum.
  const V high = hn::IfThenElse(far, hn::Set(d, 1.57079637f), hn::IfThenElseZero(middle, hn::Set(d, 0.785398185f)));
  const V low =
      hn::IfThenElse(far, hn::Set(d, -4.37113883e-8f), hn::IfThenElseZero(middle, hn::Set(d, -2.18556941e-8f)));
  const V curve = hn::MulAdd(hn::Mul(r2, r), Polynomial(d, r2, kCoefficients), low);
  return hn::CopySignToAbs(hn::Add(high, hn::Add(r, curve)), x);
}

// asin(s) - s for s in [0, 1/2], over s.
template <class D, class V>
HWY_INLINE V AsinCurve(D d, V s2) {
  static const float kCoefficients[] = {0.166666597f,  0.0750051066f, 0.0445157215f,
                                        0.0318176113f, 0.0144026093f, 0.0375651978f};
  return hn::Mul(s2, Polynomial(d, s2, kCoefficients));
}

// Beyond 1/2 by way of half the angle: acos(x) = 2 asin(sqrt((1 - x) / 2)). The root of what is negative is NaN.
template <class D, class V>
HWY_INLINE V Asin(D d, V x) {
  const V size = hn::Abs(x), half = hn::Set(d, 0.5f);
  const auto far = hn::Gt(size, half);
  const V s2 = hn::IfThenElse(far, hn::NegMulAdd(size, half, half), hn::Mul(size, size));
  const V s = hn::IfThenElse(far, hn::Sqrt(s2), size), curve = AsinCurve(d, s2);
  const V near = hn::MulAdd(s, curve, s);
  const V two = hn::Set(d, 2.0f), rest = hn::MulAdd(s, curve, hn::Set(d, 2.18556941e-8f));
  const V beyond = hn::NegMulAdd(two, rest, hn::NegMulAdd(two, s, hn::Set(d, 1.57079637f)));
  return hn::CopySignToAbs(hn::IfThenElse(far, beyond, near), x);
}

template <class D, class V>
HWY_INLINE V Acos(D d, V x) {
  const V size = hn::Abs(x), half = hn::Set(d, 0.5f), two = hn::Set(d, 2.0f);
  const auto far = hn::Gt(size, half), negative = hn::Lt(x, hn::Zero(d));
  const V s2 = hn::IfThenElse(far, hn::NegMulAdd(size, half, half), hn::Mul(size, size));
  const V s = hn::IfThenElse(far, hn::Sqrt(s2), x);
  const V arc = hn::MulAdd(s, AsinCurve(d, s2), hn::IfThenElseZero(hn::Not(far), hn::Set(d, 4.37113883e-8f)));
  const V near = hn::Sub(hn::Set(d, 1.57079637f), hn::Add(s, arc));
  const V beyond = hn::Mul(two, hn::Add(s, arc));
  const V mirrored = hn::Sub(hn::Set(d, 3.14159274f), hn::Add(beyond, hn::Set(d, 8.74227766e-8f)));
  return hn::IfThenElse(far, hn::IfThenElse(negative, mirrored, beyond), near);
}

#define MINNOW_DEFINE(Name, Vector, ...)                                                                \
  void Map##Name(const void* in, void* out, int64_t n, const Params&) {                                 \
    MapFloats(static_cast<const float*>(in), static_cast<float*>(out), n, [](auto d, auto x) HWY_ATTR { \
      (void)d;                                                                                          \
      return Vector;                                                                                    \
    });                                                                                                 \
  }
MINNOW_UNARY_FUNCTIONS(MINNOW_DEFINE)
MINNOW_NUMERIC_FUNCTIONS(MINNOW_DEFINE)
#undef MINNOW_DEFINE

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>

namespace minnow {
namespace {

// Integers wrap: the sums are those of unsigned numbers.
template <typename T>
T negate(T x) {
  return static_cast<T>(std::make_unsigned_t<T>{0} - static_cast<std::make_unsigned_t<T>>(x));
}
template <typename T>
T square(T x) {
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(x) * static_cast<std::make_unsigned_t<T>>(x));
}

template <typename T, typename Function>
void each(const void* in, void* out, int64_t n, Function function) {
  const T* x = static_cast<const T*>(in);
  T* y = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (sizeof(T) == 8) keep_scalar();  // rare
    y[i] = static_cast<T>(function(x[i]));
  }
}

#define MINNOW_UNARY_ROW(Name, infer, ...)                                                                  \
  std::unique_ptr<Kernel> create_##Name(const NodeContext&) { return create_unary(__VA_ARGS__); }           \
  MINNOW_REGISTER(OpRegistrar, op_##Name, #Name, infer, kElementwise);                                      \
  MINNOW_REGISTER(CpuKernelRegistrar, row_##Name, #Name, create_##Name, LayoutRule::kFollow, true, nullptr, \
                  Pieces::kVectors);

#define MINNOW_EACH(Suffix, Name, T, Scalar)                               \
  void Name##Suffix(const void* in, void* out, int64_t n, const Params&) { \
    each<T>(in, out, n, [](T x) { return Scalar; });                       \
  }

#define MINNOW_VECTOR_ROW(Name, Vector, Scalar) \
  HWY_EXPORT(Map##Name);                        \
  MINNOW_EACH(F64, Name, double, Scalar)        \
  MINNOW_UNARY_ROW(Name, infer_float, &HWY_DYNAMIC_DISPATCH(Map##Name), Name##F64)
MINNOW_UNARY_FUNCTIONS(MINNOW_VECTOR_ROW)

#define MINNOW_LIBRARY_ROW(Name, Scalar) \
  MINNOW_EACH(F32, Name, float, Scalar)  \
  MINNOW_EACH(F64, Name, double, Scalar) \
  MINNOW_UNARY_ROW(Name, infer_float, Name##F32, Name##F64, nullptr, nullptr, nullptr, /*grain=*/2048)
MINNOW_LIBRARY_FUNCTIONS(MINNOW_LIBRARY_ROW)

#define MINNOW_NUMERIC_ROW(Name, Vector, Scalar, Signed, Unsigned) \
  HWY_EXPORT(Map##Name);                                           \
  MINNOW_EACH(F64, Name, double, Scalar)                           \
  MINNOW_EACH(I32, Name, int32_t, Signed)                          \
  MINNOW_EACH(I64, Name, int64_t, Signed)                          \
  MINNOW_EACH(U64, Name, uint64_t, Unsigned)                       \
  MINNOW_UNARY_ROW(Name, infer_numeric, &HWY_DYNAMIC_DISPATCH(Map##Name), Name##F64, Name##I32, Name##I64, Name##U64)
MINNOW_NUMERIC_FUNCTIONS(MINNOW_NUMERIC_ROW)

}  // namespace
}  // namespace minnow
#endif  // HWY_ONCE
