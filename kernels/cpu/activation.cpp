#define HWY_TARGET_INCLUDE "kernels/cpu/activation.cpp"
#include "kernels/cpu/simd.h"
//
#include "kernels/cpu/activation.h"
#include "kernels/cpu/unary_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {

void activate_floats(const Activation& a, float* x, int64_t n) {
  using Kind = Activation::Kind;
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;
  const D d;
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0f), alpha = hn::Set(d, a.alpha), beta = hn::Set(d, a.beta);
  switch (a.kind) {
    case Kind::kClamp: {
      const V low = hn::Set(d, a.low), high = hn::Set(d, a.high);
      return MapFloats(x, x, n, [&](D, V v) HWY_ATTR { return AtMost(high, AtLeast(low, v)); });
    }
    case Kind::kLeakyRelu:
      return MapFloats(x, x, n, [&](D, V v) HWY_ATTR { return hn::IfThenElse(hn::Lt(v, zero), hn::Mul(v, alpha), v); });
    case Kind::kHardSwish:
      return MapFloats(x, x, n, [&](D tag, V v) HWY_ATTR {
        const V gate = AtMost(hn::Set(tag, 6.0f), AtLeast(zero, hn::Add(v, hn::Set(tag, 3.0f))));
        return hn::Mul(hn::Mul(v, gate), hn::Set(tag, 1.0f / 6.0f));
      });
    case Kind::kSilu:
      return MapFloats(x, x, n, [&](D tag, V v) HWY_ATTR { return hn::Mul(v, Sigmoid(tag, v)); });
    case Kind::kSigmoid:
      return MapFloats(x, x, n, [&](D tag, V v) HWY_ATTR { return Sigmoid(tag, v); });
    case Kind::kHardSigmoid:
      return MapFloats(x, x, n,
                       [&](D, V v) HWY_ATTR { return AtMost(one, AtLeast(zero, hn::MulAdd(v, alpha, beta))); });
    case Kind::kTanh:
      return MapFloats(x, x, n, [&](D tag, V v) HWY_ATTR { return Tanh(tag, v); });
    case Kind::kGelu:
      return MapFloats(x, x, n, [&](D tag, V v) HWY_ATTR { return Gelu(tag, v); });
  }
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>

namespace minnow {
namespace {

struct Name {
  const char* name;
  Activation::Kind kind;
  double alpha, beta;  // defaults
};

using Kind = Activation::Kind;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Name kNames[] = {
    {"", Kind::kClamp, -kInfinity, kInfinity},
    {"relu", Kind::kClamp, 0, kInfinity},
    {"relu6", Kind::kClamp, 0, 6},
    {"clip", Kind::kClamp, -kInfinity, kInfinity},
    {"leaky_relu", Kind::kLeakyRelu, 0.01, 0},
    {"hardswish", Kind::kHardSwish, 0, 0},
    {"silu", Kind::kSilu, 0, 0},
    {"sigmoid", Kind::kSigmoid, 0, 0},
    {"hardsigmoid", Kind::kHardSigmoid, 0.2, 0.5},
    {"tanh", Kind::kTanh, 0, 0},
    {"gelu", Kind::kGelu, 0, 0},
};

}  // namespace

Status read_activation(const Attrs& attrs, Activation* activation) {
  const std::string name = attrs.s("activation");
  for (const Name& row : kNames) {
    if (name != row.name) continue;
    *activation = Activation();
    activation->kind = row.kind;
    const bool fixed = name.empty() || name == "relu" || name == "relu6";
    activation->alpha = static_cast<float>(fixed ? row.alpha : attrs.f("alpha", row.alpha));
    activation->beta = static_cast<float>(fixed ? row.beta : attrs.f("beta", row.beta));
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
  HWY_DYNAMIC_DISPATCH(activate_floats)(activation, x, n);
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
