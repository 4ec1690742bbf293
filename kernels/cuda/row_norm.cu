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

// The sum over the L lanes that make a row.
template <int L>
__device__ __forceinline__ float sum_of(float v) {
#pragma unroll
  for (int o = L / 2; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}

// 16 bytes of memory as floats.
template <typename T>
__device__ __forceinline__ void widen(const uint4& raw, float* v) {
  const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (kIsF32<T>) {
      v[i] = __uint_as_float(words[i]);
    } else {
      const float2 pair = pair_to_floats(words[i], T());
      v[2 * i] = pair.x;
      v[2 * i + 1] = pair.y;
    }
  }
}

// Blocks that a multiprocessor holds: so many registers do I times 16 bytes take, with scale and bias.
template <typename T, int I>
constexpr int kShortBlocks = I == 4                 ? (kIsF32<T> ? 5 : 3)
                             : I == 3 && !kIsF32<T> ? 4
                                                    : 6;

// Rows of which L lanes hold I times 16 bytes each, with their scale and bias, which are read before the previous
// kernel has ended. While a row is computed, the next one of its lanes is on its way.
template <typename T, int L, int I>
__global__ void __launch_bounds__(128, kShortBlocks<T, I>) short_norm_kernel(const __grid_constant__ Arguments<T> a) {
  constexpr int V = 16 / sizeof(T);
  allow_next();
  const int lane = static_cast<int>(threadIdx.x) % L;
  const int step = static_cast<int>(gridDim.x * blockDim.x) / L;
  float scale[I * V], bias[I * V];
  if (!a.constant_parameters) wait_previous();
#pragma unroll
  for (int i = 0; i < I; ++i) {
    const int at = (i * L + lane) * V;
#pragma unroll
    for (int e = i * V; e < i * V + V; ++e) scale[e] = 1.0f, bias[e] = 0.0f;
    if (a.scale != nullptr && at < a.length) load_parameter<T, V>(a, a.scale, 0, at, scale + i * V);
    if (a.bias != nullptr && at < a.length) load_parameter<T, V>(a, a.bias, 0, at, bias + i * V);
  }
  const float part = 1.0f / static_cast<float>(a.length);
  int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) / L;
  const int rows = static_cast<int>(a.rows);
  uint4 next[I];
  const auto load = [&](int from) {
    const T* const x = a.x + static_cast<int64_t>(from) * a.length;
#pragma unroll
    for (int i = 0; i < I; ++i) {
      const int at = (i * L + lane) * V;
      next[i] = make_uint4(0, 0, 0, 0);
      if (from < rows && at < a.length) next[i] = *reinterpret_cast<const uint4*>(x + at);
    }
  };
  wait_previous();
  load(row);
  // All lanes of a warp stay together, also where some of them have no row.
#pragma unroll 1
  for (; __any_sync(0xffffffffu, row < rows); row += step) {
    float v[I * V];
#pragma unroll
    for (int i = 0; i < I; ++i) widen<T>(next[i], v + i * V);
    load(row + step);
    if (a.centered) {
      float sum = 0.0f;
#pragma unroll
      for (int e = 0; e < I * V; ++e) sum += v[e];
      const float mean = sum_of<L>(sum) * part;
#pragma unroll
      for (int e = 0; e < I * V; ++e) v[e] -= mean;
    }
    float squares = 0.0f, rest = 0.0f;
#pragma unroll
    for (int i = 0; i < I; ++i) {
      if ((i * L + lane) * V >= a.length) continue;
#pragma unroll
      for (int e = i * V; e < i * V + V; ++e) {
        squares = fmaf(v[e], v[e], squares);
        rest += v[e];
      }
    }
    squares = sum_of<L>(squares) * part;
    if (kIsF32<T> && a.centered) {  // what is missing from the rounded mean
      rest = sum_of<L>(rest) * part;
      squares -= rest * rest;
#pragma unroll
      for (int e = 0; e < I * V; ++e) v[e] -= rest;
    }
    const float factor = rsqrtf(squares + a.epsilon);
    T* const y = a.y + static_cast<int64_t>(row) * a.length;
#pragma unroll
    for (int i = 0; i < I; ++i) {
      const int at = (i * L + lane) * V;
#pragma unroll
      for (int e = i * V; e < i * V + V; ++e) v[e] = fmaf(v[e] * factor, scale[e], bias[e]);
      if (row < rows && at < a.length) store_some<T, V>(y + at, v + i * V);
    }
  }
}

template <typename T, int L, int I>
cudaError_t run_short(const Arguments<T>& a, const Target& target) {
  // Warps of few rows go to as many multiprocessors as there are; of many rows each has as many as others.
  const int64_t lanes = a.rows * L;
  const int threads = lanes <= int64_t{64} * target.multiprocessors ? 32 : 128;
  const int64_t most = int64_t{target.multiprocessors} * kShortBlocks<T, I> * (128 / threads);
  const int64_t needed = (lanes + threads - 1) / threads, rounds = (needed + most - 1) / most;
  const auto blocks = static_cast<unsigned>((needed + rounds - 1) / rounds);
  return launch(target, short_norm_kernel<T, L, I>, dim3(blocks), threads, 0, 1, a);
}

template <typename T>
cudaError_t run_short(const Arguments<T>& a, const Target& target) {
  const int pieces = a.length / (16 / static_cast<int>(sizeof(T)));
  if (pieces <= 16) return run_short<T, 8, 2>(a, target);
  if (pieces <= 32) return run_short<T, 16, 2>(a, target);
  if (pieces <= 48) return run_short<T, 16, 3>(a, target);
  if (pieces <= 64) return run_short<T, 32, 2>(a, target);
  if (pieces <= 96) return run_short<T, 32, 3>(a, target);
  return run_short<T, 32, 4>(a, target);
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
  if (aligned && !per_channel && n.length * static_cast<int64_t>(sizeof(T)) <= 128 * 16) return run_short<T>(a, target);
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
