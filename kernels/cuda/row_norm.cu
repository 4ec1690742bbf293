// LayerNorm, RMSNorm, and the norms of channels of plain tensors.
#include "kernels/cuda/divide.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/rows.h"

namespace minnow::cuda {
namespace {

template <typename T>
struct Arguments {
  const T* x;
  const void* scale;
  const void* bias;
  T* y;
  int64_t rows;
  int length, row_channels;
  float epsilon;
  bool centered, wide_parameters, per_channel;
  Divisor by_channel_size, by_row_groups;
};

// V neighbors of scale or bias, or that of their channel.
template <typename T, int V>
__device__ __forceinline__ void load_parameter(const Arguments<T>& a, const void* from, int64_t row, int at, float* v) {
  if (a.per_channel) {
    int rest = static_cast<int>(row), inside = at;
    a.by_row_groups.split(&rest);
    const int channel = rest * a.row_channels + a.by_channel_size.split(&inside);
    const float one =
        a.wide_parameters ? static_cast<const float*>(from)[channel] : to_float(static_cast<const T*>(from)[channel]);
#pragma unroll
    for (int e = 0; e < V; ++e) v[e] = one;
  } else if (!a.wide_parameters) {
    load_some<T, V>(static_cast<const T*>(from) + at, v);
  } else if constexpr (V == 1) {
    v[0] = static_cast<const float*>(from)[at];
  } else {
#pragma unroll
    for (int e = 0; e < V; e += 4)
      *reinterpret_cast<float4*>(v + e) = *reinterpret_cast<const float4*>(static_cast<const float*>(from) + at + e);
  }
}

template <typename T, int V>
__device__ __forceinline__ void write(const Arguments<T>& a, T* y, int64_t row, int at, float* v, float mean,
                                      float factor) {
  float parameter[V];
#pragma unroll
  for (int e = 0; e < V; ++e) v[e] = (v[e] - mean) * factor;
  if (a.scale != nullptr) {
    load_parameter<T, V>(a, a.scale, row, at, parameter);
#pragma unroll
    for (int e = 0; e < V; ++e) v[e] *= parameter[e];
  }
  if (a.bias != nullptr) {
    load_parameter<T, V>(a, a.bias, row, at, parameter);
#pragma unroll
    for (int e = 0; e < V; ++e) v[e] += parameter[e];
  }
  store_some<T, V>(y + at, v);
}

template <typename T, int V, int I, bool block>
__global__ void __launch_bounds__(block ? 1024 : 32 * kWarpRows) norm_kernel(const __grid_constant__ Arguments<T> a) {
  allow_next();
  const RowPlace<block> place;
  wait_previous();
  if (place.row >= a.rows) return;
  const T* x = a.x + place.row * a.length;
  T* y = a.y + place.row * a.length;
  const float count = static_cast<float>(a.length);
  float v[(I > 0 ? I : 1) * V];
  const auto begin_of = [&](int i) { return (i * place.threads + place.thread) * V; };
  // For each piece of this thread: `one(its numbers)`.
  const auto each = [&](auto one) {
    if constexpr (I > 0) {
#pragma unroll
      for (int i = 0; i < I; ++i)
        if (begin_of(i) < a.length) one(v + i * V, begin_of(i));
    } else {
      for (int i = 0; begin_of(i) < a.length; ++i) {
        load_some<T, V>(x + begin_of(i), v);
        one(v, begin_of(i));
      }
    }
  };
  if constexpr (I > 0) each([&](float* piece, int at) { load_some<T, V>(x + at, piece); });
  float mean = 0.0f;
  if (a.centered) {
    float sum = 0.0f;
    each([&](const float* piece, int) {
#pragma unroll
      for (int e = 0; e < V; ++e) sum += piece[e];
    });
    mean = reduce<SumOf, block>(sum) / count;
  }
  // What is missing from the rounded mean is seen in the sum of the deviations.
  float squares = 0.0f, rest = 0.0f;
  each([&](const float* piece, int) {
#pragma unroll
    for (int e = 0; e < V; ++e) {
      const float d = piece[e] - mean;
      squares = fmaf(d, d, squares);
      rest += d;
    }
  });
  squares = reduce<SumOf, block>(squares);
  if (a.centered && kIsF32<T>) {
    rest = reduce<SumOf, block>(rest) / count;
    squares -= rest * rest * count;
    mean += rest;
  }
  const float factor = rsqrtf(squares / count + a.epsilon);
  each([&](float* piece, int at) { write<T, V>(a, y, place.row, at, piece, mean, factor); });
}

template <typename T>
struct Make {
  using Kernel = void (*)(Arguments<T>);
  template <typename U, int V, int I, bool block>
  static Kernel kernel() {
    return norm_kernel<U, V, I, block>;
  }
};

template <typename T>
cudaError_t run(const RowNorm& n, const Target& target) {
  if (n.rows * n.length == 0) return cudaSuccess;
  if (n.length > int64_t{1} << 30 || n.rows > int64_t{1} << 30) return cudaErrorInvalidValue;
  if (n.parameter_dtype != DType::kF32 && n.parameter_dtype != n.dtype) return cudaErrorInvalidValue;
  const bool per_channel = n.channel_size > 0;
  const int64_t whole = per_channel ? n.channel_size : n.length;  // a piece must not reach over its end
  const bool aligned = is_aligned(n.x) && is_aligned(n.y) && whole * static_cast<int64_t>(sizeof(T)) % 16 == 0 &&
                       (per_channel || (is_aligned(n.scale) && is_aligned(n.bias)));
  const Arguments<T> a = {static_cast<const T*>(n.x),
                          n.scale,
                          n.bias,
                          static_cast<T*>(n.y),
                          n.rows,
                          static_cast<int>(n.length),
                          static_cast<int>(n.row_channels),
                          n.epsilon,
                          n.centered,
                          n.parameter_dtype == DType::kF32,
                          per_channel,
                          Divisor(per_channel ? static_cast<int>(n.channel_size) : 1),
                          Divisor(per_channel ? static_cast<int>(n.channels / n.row_channels) : 1)};
  typename Make<T>::Kernel kernel = nullptr;
  const RowPlan plan = plan_rows<T, Make<T>>(n.rows, n.length, aligned, &kernel);
  return launch(target, kernel, dim3(static_cast<unsigned>(plan.blocks)), plan.threads, 0, 1, a);
}

}  // namespace

cudaError_t row_norm(const RowNorm& problem, const Target& target) {
  switch (problem.dtype) {
    case DType::kF16:
      return run<half>(problem, target);
    case DType::kBF16:
      return run<bfloat16>(problem, target);
    case DType::kF32:
      return run<float>(problem, target);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace minnow::cuda
