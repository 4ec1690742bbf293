// Elementary functions of float vectors, accurate to about 2 units in the last place over all floats, with the special
// values of C: NaN, infinities, signed zeros, denormals. The polynomials are minimax fits for these intervals.
// To be included inside nothing, after kernels/cpu/machine/simd.h, in files compiled once per instruction set.

#if defined(MINNOW_KERNELS_CPU_UNARY_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MINNOW_KERNELS_CPU_UNARY_MATH_INL_H
#undef MINNOW_KERNELS_CPU_UNARY_MATH_INL_H
#else
#define MINNOW_KERNELS_CPU_UNARY_MATH_INL_H
#endif

#include <cmath>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Floats of a vector, at most.
constexpr int64_t kFloatLanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));

// Bounds against a constant that let NaN in `x` through. On x86 the result is the second operand when one is NaN.
template <class V>
HWY_INLINE V AtLeast(V low, V x) {
#if HWY_ARCH_X86
  return hn::Max(low, x);
#else
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Max(low, x));
#endif
}
template <class V>
HWY_INLINE V AtMost(V high, V x) {
#if HWY_ARCH_X86
  return hn::Min(high, x);
#else
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Min(high, x));
#endif
}

// c[0] + c[1] x + c[2] x^2 + ...
template <class D, class V, size_t N>
HWY_INLINE V Polynomial(D d, V x, const float (&c)[N]) {
  V y = hn::Set(d, c[N - 1]);
  for (size_t i = N - 1; i-- > 0;) y = hn::MulAdd(y, x, hn::Set(d, c[i]));
  return y;
}

// y * 2^n for |n| < 254, with one rounding even where the result is denormal.
template <class D, class V>
HWY_INLINE V Scale2(D d, V y, V n) {
#if HWY_TARGET == HWY_AVX3
  (void)d;
  return V{_mm512_scalef_ps(y.raw, n.raw)};
#else
  const hn::RebindToSigned<D> di;
  const auto i = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(i);
  const auto bias = hn::Set(di, 127);
  const V first = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const V second = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(i, half), bias)));
  return hn::Mul(hn::Mul(y, first), second);
#endif
}

// x = n ln 2 + r with |r| <= ln 2 / 2; gives n, and e^r - 1.
template <class D, class V>
HWY_INLINE V ReduceExp(D d, V x, V* n) {
  static const float kCoefficients[] = {0.5f, 0.166665092f, 0.0416665822f, 0.00837000459f, 0.00139224029f};
  const V magic = hn::Set(d, 12582912.0f);  // adding it rounds to an integer
  *n = hn::Sub(hn::MulAdd(x, hn::Set(d, 1.44269504f), magic), magic);
  // ln 2 in two parts, of which the first has few enough bits for exact products.
  V r = hn::NegMulAdd(*n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(*n, hn::Set(d, -2.12194440e-4f), r);
  return hn::MulAdd(hn::Mul(r, r), Polynomial(d, r, kCoefficients), r);
}

template <class D, class V>
HWY_INLINE V Exp(D d, V x) {
  x = AtMost(hn::Set(d, 89.0f), AtLeast(hn::Set(d, -104.0f), x));
  V n;
  const V e = ReduceExp(d, x, &n);
  return Scale2(d, hn::Add(e, hn::Set(d, 1.0f)), n);
}

// e^x for x <= 0 or NaN: 2^n times 2^r, as one polynomial of r with a relative error of 2e-7. Where e^x is below the
// normal numbers it is 0: computing those takes a hundred times as long, and keys that are not seen are all there.
template <class D, class V>
HWY_INLINE V ExpOfNegative(D d, V x) {
  static const float kCoefficients[] = {1.0f, 0.693147f, 0.24022242f, 0.055507336f, 0.009671513f, 0.0013264727f};
  const V magic = hn::Set(d, 12582912.0f);  // adding it rounds to an integer
  const V least = hn::Set(d, -125.0f);
  const V power = hn::Mul(x, hn::Set(d, 1.44269504f));
  x = AtLeast(least, power);
  const V n = hn::Sub(hn::Add(x, magic), magic);
  return hn::IfThenZeroElse(hn::Lt(power, least), Scale2(d, Polynomial(d, hn::Sub(x, n), kCoefficients), n));
}

template <class D, class V>
HWY_INLINE V Expm1(D d, V x) {
  const V clamped = AtMost(hn::Set(d, 89.0f), AtLeast(hn::Set(d, -104.0f), x));
  V n;
  const V e = ReduceExp(d, clamped, &n);
  // Half the result, because 2^n alone can overflow; doubled at the end.
  const V half = Scale2(d, hn::Set(d, 0.5f), n);
  const V y = hn::MulAdd(half, e, hn::Sub(half, hn::Set(d, 0.5f)));
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 1e-10f)), x, hn::Add(y, y));
}

// m in [sqrt(1/2), sqrt(2)) less 1, and e as a float, of a normal positive x = m 2^e.
template <class D, class V>
HWY_INLINE V SplitLog(D d, V x, V* e) {
  const hn::RebindToSigned<D> di;
  const auto root_half = hn::Set(di, 0x3F3504F3);
  const auto bits = hn::Sub(hn::BitCast(di, x), root_half);
  *e = hn::ConvertTo(d, hn::ShiftRight<23>(bits));
  const auto m = hn::Add(hn::And(bits, hn::Set(di, 0x7FFFFF)), root_half);
  return hn::Sub(hn::BitCast(d, m), hn::Set(d, 1.0f));
}

template <class D, class V>
HWY_INLINE V Log(D d, V x) {
  static const float kCoefficients[] = {0.333333105f, -0.25f,       0.200022638f,  -0.166686684f, 0.142170593f,
                                        -0.12391787f, 0.118941233f, -0.117660306f, 0.0684453845f};
  const auto denormal = hn::Lt(x, hn::Set(d, 1.17549435e-38f));
  const V scaled = hn::IfThenElse(denormal, hn::Mul(x, hn::Set(d, 8388608.0f)), x);
  V e;
  const V f = SplitLog(d, scaled, &e);
  e = hn::Sub(e, hn::IfThenElseZero(denormal, hn::Set(d, 23.0f)));
  const V f2 = hn::Mul(f, f);
  V y = hn::Mul(hn::Mul(f2, f), Polynomial(d, f, kCoefficients));
  y = hn::MulAdd(e, hn::Set(d, -2.12194440e-4f), y);
  y = hn::NegMulAdd(f2, hn::Set(d, 0.5f), y);
  y = hn::MulAdd(e, hn::Set(d, 0.693359375f), hn::Add(f, y));
  // 0 -> -inf, below -> NaN; inf and NaN stay.
  const V infinity = hn::Set(d, __builtin_inff());
  const V at_zero = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), hn::Set(d, __builtin_nanf("")));
  y = hn::IfThenElse(hn::Gt(x, hn::Zero(d)), y, at_zero);
  return hn::IfThenElse(hn::Lt(x, infinity), y, hn::Add(x, infinity));
}

// log(1 + y) for y >= 0: the rounding error of 1 + y is put back to first order.
template <class D, class V>
HWY_INLINE V Log1pPositive(D d, V y) {
  const V one = hn::Set(d, 1.0f);
  const V u = hn::Add(one, y);
  return hn::Add(Log(d, u), hn::Div(hn::Sub(y, hn::Sub(u, one)), u));
}

template <class D, class V>
HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V e = Exp(d, hn::Neg(hn::Abs(x)));
  const V sum = hn::Add(one, e), extra = hn::Sub(hn::Sub(sum, one), e);  // what rounding has added to the sum
  const V y = hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), sum);
  return hn::MulAdd(y, extra, y);
}

template <class D, class V>
HWY_INLINE V Tanh(D d, V x) {
  static const float kCoefficients[] = {-0.333332777f, 0.133313209f, -0.0537291318f, 0.0206032377f, -0.00566361519f};
  const V size = hn::Abs(x);
  const V x2 = hn::Mul(x, x);
  const V near = hn::MulAdd(hn::Mul(x2, size), Polynomial(d, x2, kCoefficients), size);
  const V one = hn::Set(d, 1.0f);
  const V e = Exp(d, hn::Add(size, size));
  const V far = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one)));
  return hn::CopySignToAbs(hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.63f)), near, far), x);
}

// erf(x) for |x| < 0.92 as near(x), and erfc(|x|) for larger x.
template <class D, class V>
HWY_INLINE V ErfNear(D d, V x) {
  static const float kCoefficients[] = {0.128379226f,   -0.376131088f,   0.112899587f,   -0.0271637812f,
                                        0.00587311806f, -0.00150067615f, 0.000347259513f};
  return hn::MulAdd(Polynomial(d, hn::Mul(x, x), kCoefficients), x, x);
}
template <class D, class V>
HWY_INLINE V ErfcFar(D d, V size) {
  static const float kCoefficients[] = {-0.000489958795f, -1.12687755f,    -0.637535572f,  -0.104905561f,
                                        0.0237064511f,    -0.00392060727f, 0.00044946966f, -3.34245196e-05f,
                                        1.43946124e-06f,  -2.71259388e-08f};
  const V t = AtMost(hn::Set(d, 10.05f), size);
  return Exp(d, Polynomial(d, t, kCoefficients));
}

template <class D, class V>
HWY_INLINE V Erf(D d, V x) {
  const V size = hn::Abs(x);
  const V bounded = AtMost(hn::Set(d, 4.5f), size);  // 1 from there on; spares the slow denormals
  const V far = hn::CopySignToAbs(hn::Sub(hn::Set(d, 1.0f), ErfcFar(d, bounded)), x);
  return hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.921875f)), ErfNear(d, x), far);
}

// x * P(a normal variable < x), without the cancellation of 1 + erf at negative x.
template <class D, class V>
HWY_INLINE V Gelu(D d, V x) {
  const V half = hn::Set(d, 0.5f);
  const V t = hn::Mul(x, hn::Set(d, 0.707106781f));
  const V size = hn::Abs(t);
  const V tail = hn::Mul(half, ErfcFar(d, size));
  const V far = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(hn::Set(d, 1.0f), tail));
  const V near = hn::MulAdd(half, ErfNear(d, t), half);
  return hn::Mul(x, hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.921875f)), near, far));
}

template <class D, class V>
HWY_INLINE V GeluTanh(D d, V x) {
  const V x3 = hn::Mul(hn::Mul(x, x), x);
  const V u = hn::Mul(hn::MulAdd(x3, hn::Set(d, 0.044715f), x), hn::Set(d, 1.59576912f));  // 2 sqrt(2 / pi)
  return hn::Mul(x, Sigmoid(d, u));
}

template <class D, class V>
HWY_INLINE V Softplus(D d, V x) {
  return hn::Add(AtLeast(hn::Zero(d), x), Log1pPositive(d, Exp(d, hn::Neg(hn::Abs(x)))));
}

// x tanh(log(1 + e^x)), where tanh(log(1 + e)) = e (e + 2) / (e (e + 2) + 2).
template <class D, class V>
HWY_INLINE V Mish(D d, V x) {
  const V two = hn::Set(d, 2.0f);
  const V e = Exp(d, AtMost(hn::Set(d, 20.0f), x));
  const V n = hn::Mul(e, hn::Add(e, two));
  return hn::Mul(x, hn::Div(n, hn::Add(n, two)));
}

// Sine or cosine of an angle. Beyond 8192 the reduction to [-pi/4, pi/4] would take more digits of pi: there the C
// library computes all lanes.
template <bool cosine, class D, class V>
HWY_INLINE V SinCos(D d, V x) {
  static const float kSin[] = {-0.166666672f, 0.00833337847f, -0.000198525624f, 2.82634051e-06f};
  static const float kCos[] = {0.0416666456f, -0.00138873013f, 2.44306702e-05f};
  const V size = hn::Abs(x);
  if (HWY_UNLIKELY(!hn::AllTrue(d, hn::Le(size, hn::Set(d, 8192.0f))))) {
    HWY_ALIGN float lane[hn::MaxLanes(d)];
    hn::Store(x, d, lane);
    for (size_t i = 0; i < hn::Lanes(d); ++i) lane[i] = cosine ? std::cos(lane[i]) : std::sin(lane[i]);
    return hn::Load(d, lane);
  }
  const hn::RebindToSigned<D> di;
  const V magic = hn::Set(d, 12582912.0f);
  const V shifted = hn::MulAdd(size, hn::Set(d, 0.636619772f), magic);
  const V n = hn::Sub(shifted, magic);
  // pi / 2 in parts of 11 bits, so that all products but the last are exact.
  V r = hn::NegMulAdd(n, hn::Set(d, 1.5703125f), size);
  r = hn::NegMulAdd(n, hn::Set(d, 4.837512969970703e-4f), r);
  r = hn::NegMulAdd(n, hn::Set(d, 7.549533620476723e-8f), r);
  r = hn::NegMulAdd(n, hn::Set(d, 2.5633440682570896e-12f), r);
  const V r2 = hn::Mul(r, r);
  const V sin = hn::MulAdd(hn::Mul(r2, r), Polynomial(d, r2, kSin), r);
  const V cos =
      hn::MulAdd(hn::Mul(r2, r2), Polynomial(d, r2, kCos), hn::NegMulAdd(r2, hn::Set(d, 0.5f), hn::Set(d, 1.0f)));
  auto quadrant = hn::BitCast(di, shifted);
  if (cosine) quadrant = hn::Add(quadrant, hn::Set(di, 1));
  const auto one = hn::Set(di, 1), two = hn::Set(di, 2);
  const V y = hn::IfThenElse(hn::MaskFromVec(hn::BitCast(d, hn::VecFromMask(di, hn::Eq(hn::And(quadrant, one), one)))),
                             cos, sin);
  const V sign = hn::BitCast(d, hn::ShiftLeft<30>(hn::And(quadrant, two)));
  return hn::Xor(y, cosine ? sign : hn::Xor(sign, hn::Xor(x, size)));
}

// The first n floats of a vector, less than there are lanes; nothing else in memory is touched. The other lanes are 0.
template <class D>
HWY_INLINE hn::Vec<D> LoadPart(D d, const float* x, int64_t n) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(n)), d, x);
#else
  HWY_ALIGN float lane[hn::MaxLanes(d)] = {};
  std::memcpy(lane, x, static_cast<size_t>(n) * sizeof(float));
  return hn::Load(d, lane);
#endif
}

template <class D>
HWY_INLINE void StorePart(D d, hn::Vec<D> v, float* y, int64_t n) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(n)), d, y);
#else
  HWY_ALIGN float lane[hn::MaxLanes(d)];
  hn::Store(v, d, lane);
  std::memcpy(y, lane, static_cast<size_t>(n) * sizeof(float));
#endif
}

// y[i] = f(x[i]), where `f` maps vectors of `D`. What does not fill a vector is put into a buffer, and takes a second
// turn of the same loop: `f` may be long, and is there only once.
template <class Function>
HWY_INLINE void MapFloats(const float* x, float* y, int64_t n, const Function& f) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = n / lanes * lanes;
  HWY_ALIGN float rest[hn::MaxLanes(d)];
  if (whole < n) hn::Store(LoadPart(d, x + whole, n - whole), d, rest);
  const float* from = x;
  float* to = y;
  int64_t count = whole;
  for (int turns = whole < n ? 2 : 1; turns > 0; --turns) {
    __asm__ volatile("" : "+r"(turns));  // or the compiler would write out both turns
    for (int64_t i = 0; i < count; i += lanes) hn::StoreU(f(d, hn::LoadU(d, from + i)), d, to + i);
    from = to = rest;
    count = lanes;
  }
  if (whole < n) StorePart(d, hn::Load(d, rest), y + whole, n - whole);
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MINNOW_KERNELS_CPU_UNARY_MATH_INL_H
