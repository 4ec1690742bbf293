// The function of one element that CUDA kernels apply to their results: those of kernels/core/activation.h, as numbers.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif

namespace minnow::cuda {

enum class Function : int32_t {
  kNone,
  kClamp,      // relu, relu6, clip: between alpha and beta
  kLeakyRelu,  // alpha below 0
  kHardSwish,
  kHardSigmoid,  // alpha x + beta, between 0 and 1
  kSigmoid,
  kSilu,
  kTanh,
  kGelu,
};

struct Activation {
  Function function = Function::kNone;
  float alpha = 0, beta = 0;
};

#ifdef __CUDACC__
// NaN stays NaN, as in numpy.
__device__ __forceinline__ float clamp_or_nan(float v, float low, float high) {
#if __CUDA_ARCH__ >= 800
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(v) : "f"(low));
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(v) : "f"(high));
  return v;
#else
  v = v < low ? low : v;
  return v > high ? high : v;
#endif
}

// With `exact` to the precision of f32, else to that of 16 bits.
template <bool exact>
__device__ __forceinline__ float gelu(float v) {
  if (exact) return 0.5f * v * erfcf(-0.70710678f * v);
  // erf by a polynomial of 5 terms (Abramowitz and Stegun 7.1.26), off by 1.5e-7 at most.
  const float z = fabsf(v) * 0.70710678f, t = __fdividef(1.0f, fmaf(0.3275911f, z, 1.0f));
  const float p =
      fmaf(t, fmaf(t, fmaf(t, fmaf(t, 1.061405429f, -1.453152027f), 1.421413741f), -0.284496736f), 0.254829592f);
  const float e = t * p * exp2f(-1.44269504f * z * z);
  return v * (v > 0.0f ? 1.0f - 0.5f * e : 0.5f * e);
}

template <bool exact>
__device__ __forceinline__ float sigmoid(float v) {
  return exact ? 1.0f / (1.0f + expf(-v)) : __fdividef(1.0f, 1.0f + __expf(-v));
}

template <bool exact>
__device__ __forceinline__ float hyperbolic_tangent(float v) {
  return exact ? tanhf(v) : 1.0f - __fdividef(2.0f, 1.0f + __expf(2.0f * v));
}

// Of all elements alike: one choice of the function for all of them.
template <bool exact, int N>
__device__ __forceinline__ void activate(float (&v)[N], const Activation& a) {
  const auto all = [&v](auto one) {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = one(v[i]);
  };
  switch (a.function) {
    case Function::kNone:
      return;
    case Function::kClamp:
      return all([&a](float x) { return clamp_or_nan(x, a.alpha, a.beta); });
    case Function::kLeakyRelu:
      return all([&a](float x) { return x < 0.0f ? a.alpha * x : x; });
    case Function::kHardSwish:
      return all([](float x) { return x * clamp_or_nan(x + 3.0f, 0.0f, 6.0f) * (1.0f / 6.0f); });
    case Function::kHardSigmoid:
      return all([&a](float x) { return clamp_or_nan(fmaf(a.alpha, x, a.beta), 0.0f, 1.0f); });
    case Function::kSigmoid:
      return all([](float x) { return sigmoid<exact>(x); });
    case Function::kSilu:
      return all([](float x) { return x * sigmoid<exact>(x); });
    case Function::kTanh:
      return all([](float x) { return hyperbolic_tangent<exact>(x); });
    case Function::kGelu:
      return all([](float x) { return gelu<exact>(x); });
  }
}
#endif

}  // namespace minnow::cuda
