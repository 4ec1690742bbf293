#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include "kernels/cpu/gemm/activation.h"
#include "kernels/cpu/elementwise/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {

// 1 / (1 + e^-x) with a relative error of 1e-7 (x > 0) to 1e-6 (x < -10): half the work of what unary_math has, and as
// exact as the sum it is applied to. Below -87, where it would be denormal, 0.
template <class D, class V>
HWY_INLINE V QuickSigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
#if HWY_TARGET == HWY_AVX3
  // Coefficients of 2^f, 0 <= f < 1. The instructions bring infinities where they belong.
  static const float kCoefficients[] = {0.99999994f,   0.693153083f,   0.240153611f,
                                        0.0558263175f, 0.00898934063f, 0.00187757669f};
  // Beside 1 smaller powers are nothing, but below the normal numbers they would take a hundred times as long.
  const V t = AtLeast(hn::Set(d, -126.0f), hn::Mul(x, hn::Set(d, -1.44269504f)));
  const V f{_mm512_reduce_ps(t.raw, 1)};  // less its floor
  const V e{_mm512_scalef_ps(Polynomial(d, f, kCoefficients).raw, t.raw)};
  const V sum = hn::Add(e, one);
  const V y = hn::ApproximateReciprocal(sum);  // 14 bits, doubled by one step of Newton's
  const V exact = hn::MulAdd(hn::NegMulAdd(sum, y, one), y, y);
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.0f)), exact);  // also where 0 met infinity
#else
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.0f)), hn::Div(one, hn::Add(one, Exp(d, hn::Neg(x)))));
#endif
}

// x times the probability P that a normal variable is < x, with an error of 2e-7 of the larger of |x| and 1, in half
// the work of what unary_math has: P - 1/2 is x times a polynomial, which reaches 1/2 before kFar and is cut off there,
// so that the result is x or 0 beyond.
template <class D, class V>
HWY_INLINE V QuickGelu(D d, V x) {
  constexpr float kFar = 5.6f;
  // Of (P - 1/2) / x, by 2 (x / kFar)^2 - 1.
  static const float kCoefficients[] = {0.1262596f,    -0.06305132f,   0.0469809f,     -0.03834382f,  0.031968657f,
                                        -0.026337063f, 0.020959271f,   -0.01559081f,   0.010885926f,  -0.008085027f,
                                        0.0055924957f, -0.0018930853f, 0.00047818388f, -0.001519909f, 0.000995615f};
  const V half = hn::Set(d, 0.5f), square = AtMost(hn::Set(d, kFar * kFar), hn::Mul(x, x));
  const V z = hn::MulSub(square, hn::Set(d, 2 / (kFar * kFar)), hn::Set(d, 1.0f));
  const V off = hn::Mul(x, Polynomial(d, z, kCoefficients));
  return hn::Mul(x, hn::Add(half, AtMost(half, AtLeast(hn::Neg(half), off))));
}

// x[r * stride + i] = f(x[r * stride + i]). Whole vectors take one plain loop, so that one is begun before the one
// before it is done. What is left of a row takes one more turn of it, from a buffer: `f` may be long, and is there only
// once.
template <class Function>
HWY_INLINE void MapRows(float* x, int64_t rows, int64_t stride, int64_t n, const Function& f) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), whole = n / lanes * lanes, left = n - whole;
  HWY_ALIGN float rest[hn::MaxLanes(d)];
  for (int64_t turn = 0; turn <= (left > 0 ? rows : 0); ++turn) {
    __asm__ volatile("" : "+r"(turn));  // or the compiler would write out the first one
    const bool last = turn > 0;
    float* end = x + (last ? turn - 1 : 0) * stride + whole;
    if (last) hn::Store(LoadPart(d, end, left), d, rest);
    float* to = last ? rest : x;
    const int64_t count = last ? 1 : rows, length = last ? lanes : whole;
    for (int64_t r = 0; r < count; ++r)
      for (int64_t i = 0; i < length; i += lanes)
        hn::StoreU(f(d, hn::LoadU(d, to + r * stride + i)), d, to + r * stride + i);
    if (last) StorePart(d, hn::Load(d, rest), end, left);
  }
}

void activate_floats(const Activation& a, float* x, int64_t rows, int64_t stride, int64_t n) {
  using Kind = Activation::Kind;
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;
  const D d;
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0f), alpha = hn::Set(d, a.alpha), beta = hn::Set(d, a.beta);
  switch (a.kind) {
    case Kind::kClamp: {
      const V low = hn::Set(d, a.low), high = hn::Set(d, a.high);
      return MapRows(x, rows, stride, n, [&](D, V v) HWY_ATTR { return AtMost(high, AtLeast(low, v)); });
    }
    case Kind::kLeakyRelu:
      return MapRows(x, rows, stride, n,
                     [&](D, V v) HWY_ATTR { return hn::IfThenElse(hn::Lt(v, zero), hn::Mul(v, alpha), v); });
    case Kind::kHardSwish:
      return MapRows(x, rows, stride, n, [&](D tag, V v) HWY_ATTR {
        const V gate = AtMost(hn::Set(tag, 6.0f), AtLeast(zero, hn::Add(v, hn::Set(tag, 3.0f))));
        return hn::Mul(hn::Mul(v, gate), hn::Set(tag, 1.0f / 6.0f));
      });
    case Kind::kSilu:
      return MapRows(x, rows, stride, n, [&](D tag, V v) HWY_ATTR { return hn::Mul(v, QuickSigmoid(tag, v)); });
    case Kind::kSigmoid:
      return MapRows(x, rows, stride, n, [&](D tag, V v) HWY_ATTR { return QuickSigmoid(tag, v); });
    case Kind::kHardSigmoid:
      return MapRows(x, rows, stride, n,
                     [&](D, V v) HWY_ATTR { return AtMost(one, AtLeast(zero, hn::MulAdd(v, alpha, beta))); });
    case Kind::kTanh:
      return MapRows(x, rows, stride, n, [&](D tag, V v) HWY_ATTR { return Tanh(tag, v); });
    case Kind::kGelu:
      return MapRows(x, rows, stride, n, [&](D tag, V v) HWY_ATTR { return QuickGelu(tag, v); });
  }
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>

#include "kernels/core/activation.h"

namespace minnow {
namespace {

using Kind = Activation::Kind;

struct Row {
  char name[12];
  Kind kind;
};

constexpr Row kKinds[] = {
    {"relu", Kind::kClamp},          {"relu6", Kind::kClamp},
    {"clip", Kind::kClamp},          {"leaky_relu", Kind::kLeakyRelu},
    {"hardswish", Kind::kHardSwish}, {"silu", Kind::kSilu},
    {"sigmoid", Kind::kSigmoid},     {"hardsigmoid", Kind::kHardSigmoid},
    {"tanh", Kind::kTanh},           {"gelu", Kind::kGelu},
};

}  // namespace

Status read_activation(const Attrs& attrs, Activation* activation) {
  *activation = Activation();
  const std::string name = attrs.s("activation");
  if (name.empty()) return ok();
  const ActivationOp* found = find_activation(name);
  for (const Row& row : kKinds) {
    if (found == nullptr || name != row.name) continue;
    const bool given = !found->fixed && *found->alpha != 0;
    activation->kind = row.kind;
    activation->alpha = static_cast<float>(given ? attrs.f("alpha", found->alpha_value) : found->alpha_value);
    activation->beta = static_cast<float>(given ? attrs.f("beta", found->beta_value) : found->beta_value);
    if (row.kind == Kind::kClamp) {
      activation->low = activation->alpha;
      activation->high = activation->beta;
    }
    return ok();
  }
  return fail(Code::kUnsupported, "no activation is called '%s'", name.c_str());
}

HWY_EXPORT(activate_floats);

void activate(const Activation& activation, float* x, int64_t n) {
  HWY_DYNAMIC_DISPATCH(activate_floats)(activation, x, 1, n, n);
}

void activate(const Activation& activation, float* x, int64_t rows, int64_t stride, int64_t n) {
  HWY_DYNAMIC_DISPATCH(activate_floats)(activation, x, rows, stride, n);
}

double activate_scalar(const Activation& a, double x) {
  switch (a.kind) {
    case Kind::kClamp:
      return x < a.low ? a.low : x > a.high ? a.high : x;
    case Kind::kLeakyRelu:
      return x < 0 ? x * a.alpha : x;
    case Kind::kHardSwish:
      return x * (x < -3 ? 0 : x > 3 ? 1 : (x + 3) / 6);
    case Kind::kSilu:
      return x / (1 + std::exp(-x));
    case Kind::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Kind::kHardSigmoid: {
      const double y = x * a.alpha + a.beta;
      return y < 0 ? 0 : y > 1 ? 1 : y;
    }
    case Kind::kTanh:
      return std::tanh(x);
    case Kind::kGelu:
      return 0.5 * x * std::erfc(-x * 0.70710678118654752);
  }
  return x;
}

}  // namespace minnow
#endif
