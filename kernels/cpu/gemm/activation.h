// The function that a convolution or a matrix product applies to what it has computed, from the attributes
// activation, alpha and beta.
#pragma once

#include <limits>

#include "kernels/core/kernel.h"

namespace minnow {

struct Activation {
  enum class Kind : uint8_t { kClamp, kLeakyRelu, kHardSwish, kSilu, kSigmoid, kHardSigmoid, kTanh, kGelu };
  Kind kind = Kind::kClamp;  // none, relu, relu6 and clip are all clamps, which the inner loops do themselves
  float alpha = 0, beta = 0;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();

  bool is_clamp() const { return kind == Kind::kClamp; }
};

Status read_activation(const Attrs& attrs, Activation* activation);

// Applies it in place. NaN stays NaN.
void activate(const Activation& activation, float* x, int64_t n);
// The same for `rows` of n numbers, which follow each other every `stride`. Faster than row by row where n is small.
void activate(const Activation& activation, float* x, int64_t rows, int64_t stride, int64_t n);

// The same for one number, in double precision.
double activate_scalar(const Activation& activation, double x);

}  // namespace minnow
