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
  bool centered, wide_parameters, constant_parameters, per_channel;
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

// V neighbors in memory, which is aligned to them, as floats; nothing is read where it is not `there`.
template <typename T, int V>
__device__ __forceinline__ void load_row(const T* from, bool there, float* v) {
  if constexpr (V * sizeof(T) == 8) {
    uint2 raw = make_uint2(0, 0);
    if (there) raw = *reinterpret_cast<const uint2*>(from);
    const float2 low = pair_to_floats(raw.x, T()), high = pair_to_floats(raw.y, T());
    v[0] = low.x, v[1] = low.y, v[2] = high.x, v[3] = high.y;
  } else {
#pragma unroll
    for (int e = 0; e < V; ++e) v[e] = 0.0f;
    if (there) load_some<T, V>(from, v);
  }
}
template <typename T, int V>
__device__ __forceinline__ void store_row(T* to, const float* v) {
  if constexpr (V * sizeof(T) == 8) {
    *reinterpret_cast<uint2*>(to) = make_uint2(floats_to_pair(v[0], v[1], T()), floats_to_pair(v[2], v[3], T()));
  } else {
    store_some<T, V>(to, v);
  }
}
template <typename T, int V>
__device__ __forceinline__ void load_short_parameter(const Arguments<T>& a, const void* from, int at, float* v) {
  if (a.wide_parameters) {
#pragma unroll
    for (int e = 0; e < V; e += 4)
      *reinterpret_cast<float4*>(v + e) = *reinterpret_cast<const float4*>(static_cast<const float*>(from) + at + e);
  } else {
    load_row<T, V>(static_cast<const T*>(from) + at, true, v);
  }
}

// Threads of a block, and blocks that a multiprocessor holds: so many registers does a lane take that has I times V
// numbers, and scale and bias for each.
template <int V, int I>
constexpr int kShortThreads = V* I > 16 ? 128 : 256;
template <int V, int I>
constexpr int kShortBlocks = V* I > 24                 ? 4
                             : V* I > 12 && V* I <= 16 ? 3
                                                       : 5;

// Rows that a warp holds, I times V numbers in each lane, with scale and bias, which are read before the previous
// kernel has ended. Many warps for each multiprocessor count more than long loads.
template <typename T, int V, int I>
__global__ void __launch_bounds__(kShortThreads<V, I>, kShortBlocks<V, I>)
    short_norm_kernel(const __grid_constant__ Arguments<T> a) {
  allow_next();
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int row = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) >> 5);
  float scale[I * V], bias[I * V], v[I * V];
  if (!a.constant_parameters) wait_previous();
#pragma unroll
  for (int i = 0; i < I; ++i) {
    const int at = (i * 32 + lane) * V;
#pragma unroll
    for (int e = i * V; e < i * V + V; ++e) scale[e] = 1.0f, bias[e] = 0.0f;
    if (a.scale != nullptr && at < a.length) load_short_parameter<T, V>(a, a.scale, at, scale + i * V);
    if (a.bias != nullptr && at < a.length) load_short_parameter<T, V>(a, a.bias, at, bias + i * V);
  }
  wait_previous();
  if (row >= a.rows) return;
  const int begin = row * a.length + lane * V;
#pragma unroll
  for (int i = 0; i < I; ++i) load_row<T, V>(a.x + begin + i * 32 * V, (i * 32 + lane) * V < a.length, v + i * V);
  const float part = 1.0f / static_cast<float>(a.length);
  if (a.centered) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < I; ++i) {
      float piece = v[i * V];
#pragma unroll
      for (int e = 1; e < V; ++e) piece += v[i * V + e];
      sum += piece;
    }
    const float mean = reduce<SumOf, false>(sum) * part;
#pragma unroll
    for (int e = 0; e < I * V; ++e) v[e] -= mean;
  }
  float squares = 0.0f, rest = 0.0f;
#pragma unroll
  for (int i = 0; i < I; ++i) {
    if ((i * 32 + lane) * V >= a.length) continue;
    float piece = 0.0f;
#pragma unroll
    for (int e = i * V; e < i * V + V; ++e) {
      piece = fmaf(v[e], v[e], piece);
      rest += v[e];
    }
    squares += piece;
  }
  squares = reduce<SumOf, false>(squares) * part;
  if (kIsF32<T> && a.centered) {  // what is missing from the rounded mean
    rest = reduce<SumOf, false>(rest) * part;
    squares -= rest * rest;
#pragma unroll
    for (int e = 0; e < I * V; ++e) v[e] -= rest;
  }
  const float factor = rsqrtf(squares + a.epsilon);
#pragma unroll
  for (int i = 0; i < I; ++i) {
#pragma unroll
    for (int e = i * V; e < i * V + V; ++e) v[e] = fmaf(v[e] * factor, scale[e], bias[e]);
    if ((i * 32 + lane) * V < a.length) store_row<T, V>(a.y + begin + i * 32 * V, v + i * V);
  }
}

template <typename T, int V, int I>
cudaError_t run_short(const Arguments<T>& a, const Target& target) {
  // Warps of few rows go to as many multiprocessors as there are.
  const int threads = a.rows <= 2 * target.multiprocessors ? 32 : kShortThreads<V, I>;
  const auto blocks = static_cast<unsigned>((a.rows * 32 + threads - 1) / threads);
  return launch(target, short_norm_kernel<T, V, I>, dim3(blocks), threads, 0, 1, a);
}

// Rows of at most this length.
template <typename T>
constexpr int kShortLength = kIsF32<T> ? 512 : 1024;

template <typename T>
cudaError_t run_short(const Arguments<T>& a, const Target& target) {
  if (a.length <= 128) return run_short<T, 4, 1>(a, target);
  if (a.length <= 256) return run_short<T, 4, 2>(a, target);
  if (a.length <= 384) return run_short<T, 4, 3>(a, target);
  if (a.length <= 512) return run_short<T, 4, 4>(a, target);
  if constexpr (!kIsF32<T>) return a.length <= 768 ? run_short<T, 8, 3>(a, target) : run_short<T, 8, 4>(a, target);
  return cudaErrorInvalidValue;
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
                          n.constant_parameters,
                          per_channel,
                          Divisor(per_channel ? static_cast<int>(n.channel_size) : 1),
                          Divisor(per_channel ? static_cast<int>(n.channels / n.row_channels) : 1)};
  if (aligned && !per_channel && n.length <= kShortLength<T> && n.rows * n.length < int64_t{1} << 30)
    return run_short<T>(a, target);
  typename Make<T>::Kernel kernel = nullptr;
  const RowPlan plan = plan_rows<T, Make<T>>(n.rows, n.length, aligned, &kernel);
  return launch(target, kernel, dim3(static_cast<unsigned>(plan.blocks)), plan.threads, 0, 1, a);
}

}  // namespace

cudaError_t row_norm(const RowNorm& problem, const Target& target) {
  return with_float_type(problem.dtype, [&](auto number) { return run<decltype(number)>(problem, target); });
}

}  // namespace minnow::cuda
