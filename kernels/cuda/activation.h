// The function of one element that CUDA kernels apply to their results: those of kernels/core/activation.h, as numbers.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#include <cuda_runtime.h>
#define MINNOW_HOST_DEVICE __host__ __device__
#else
#include <cmath>
#define MINNOW_HOST_DEVICE
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

// The logarithm to the base 2 of what the normal distribution has beyond z, for z of [0, kMostTail]. It is nearly a
// parabola; the polynomial has the least error relative to the tail itself. GELU is max(v, 0) - |v| tail(|v|): off by
// 1.2e-5 of it at most above v = -4.2, and by 1e-9 below. tests/kernels/cuda/test_activation.py measures that.
constexpr float kMostTail = 8.0f;
MINNOW_HOST_DEVICE inline float log2_of_tail(float z) {
  float log = 2.99038575e-05f;
  log = fmaf(log, z, -7.16032760e-04f);
  log = fmaf(log, z, 7.78787911e-03f);
  log = fmaf(log, z, -5.27135279e-02f);
  log = fmaf(log, z, -4.59504756e-01f);
  log = fmaf(log, z, -1.15091597f);
  return fmaf(log, z, -1.00001449f);
}

#ifdef __CUDACC__
// As fmaxf and fminf, but NaN stays NaN, as in numpy.
__device__ __forceinline__ float at_least(float v, float low) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(v), "f"(low));
  return r;
#else
  return v < low ? low : v;
#endif
}
__device__ __forceinline__ float at_most(float v, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(v), "f"(high));
  return r;
#else
  return v > high ? high : v;
#endif
}
__device__ __forceinline__ float clamp_or_nan(float v, float low, float high) {
  return at_most(at_least(v, low), high);
}

// To about 2^-22 of it: one instruction each.
__device__ __forceinline__ float fast_power_of_two(float v) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(v));
  return power;
}
__device__ __forceinline__ float fast_reciprocal(float v) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(v));
  return result;
}

// With `exact` to the precision of f32, else to that of 16 bits.
template <bool exact>
__device__ __forceinline__ float gelu(float v) {
  if (exact) return 0.5f * v * erfcf(-0.70710678f * v);
  const float z = fminf(fabsf(v), kMostTail);
  return fmaf(-z, fast_power_of_two(log2_of_tail(z)), at_least(v, 0.0f));
}

template <bool exact>
__device__ __forceinline__ float sigmoid(float v) {
  return exact ? 1.0f / (1.0f + expf(-v)) : fast_reciprocal(1.0f + fast_power_of_two(-1.44269504f * v));
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
