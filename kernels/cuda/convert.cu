#include "kernels/cuda/convert.h"

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/eight.cuh"

namespace minnow::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 132 * 16;
constexpr float kMostF16 = 65504.0f;

// Masks hold the most negative f32: in f16 it would be an infinity, and what is added to it NaN.
template <typename To>
__device__ __forceinline__ float in_range(float v) {
  if constexpr (std::is_same_v<To, half>)
    if (isfinite(v)) return fminf(fmaxf(v, -kMostF16), kMostF16);
  return v;
}

template <typename From, typename To>
__global__ void __launch_bounds__(kThreads) convert_kernel(const From* x, To* y, int64_t n) {
  allow_next();
  wait_previous();
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = first; i < n / 8; i += step) {
    float v[8];
    load_eight(x + i * 8, v);
#pragma unroll
    for (float& one : v) one = in_range<To>(one);
    store_eight(y + i * 8, v);
  }
  if (first < n % 8) {
    const int64_t i = n / 8 * 8 + first;
    y[i] = from_float<To>(in_range<To>(to_float(x[i])));
  }
}

template <typename From, typename To>
cudaError_t run(const FloatConversion& p, const Target& target) {
  const int64_t blocks = std::min((p.count / 8 + kThreads) / kThreads, kMostBlocks);
  return launch(target, convert_kernel<From, To>, dim3(static_cast<unsigned>(blocks)), kThreads, 0, 1,
                static_cast<const From*>(p.x), static_cast<To*>(p.y), p.count);
}

}  // namespace

bool can_convert_floats(const FloatConversion& p) {
  const auto is_half = [](DType type) { return type == DType::kF16 || type == DType::kBF16; };
  const auto is_aligned = [](const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; };
  return ((p.from == DType::kF32 && is_half(p.to)) || (is_half(p.from) && p.to == DType::kF32)) && is_aligned(p.x) &&
         is_aligned(p.y);
}

cudaError_t convert_floats(const FloatConversion& p, const Target& target) {
  if (p.count == 0) return cudaSuccess;
  if (p.from == DType::kF16) return run<half, float>(p, target);
  if (p.from == DType::kBF16) return run<bfloat16, float>(p, target);
  return p.to == DType::kF16 ? run<float, half>(p, target) : run<float, bfloat16>(p, target);
}

}  // namespace minnow::cuda
