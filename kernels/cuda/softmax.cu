// Softmax and LogSoftmax.
#include "kernels/cuda/divide.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/rows.h"

namespace minnow::cuda {
namespace {

constexpr float kLog2E = 1.44269504f;

template <typename T>
struct Arguments {
  const T* x;
  T* y;
  int64_t rows;
  int length;
  bool log;
};

// e^x: to about 2^-22 of it.
__device__ __forceinline__ float exponential(float x) { return exp2f(x * kLog2E); }

// The maximum of numbers, some of which may be NaN, comes without them; they return with the exponentials.
template <typename T, int V, int I, bool block>
__global__ void __launch_bounds__(block ? 1024 : 32 * kWarpRows) row_kernel(const __grid_constant__ Arguments<T> a) {
  allow_next();
  const RowPlace<block> place;
  wait_previous();
  if (place.row >= a.rows) return;
  const T* x = a.x + place.row * a.length;
  T* y = a.y + place.row * a.length;
  if constexpr (I > 0) {
    float v[I * V];
    float most = -INFINITY;
#pragma unroll
    for (int i = 0; i < I; ++i) {
      const int at = (i * place.threads + place.thread) * V;
      if (at < a.length) {
        load_some<T, V>(x + at, v + i * V);
#pragma unroll
        for (int e = 0; e < V; ++e) most = fmaxf(most, v[i * V + e]);
      }
    }
    most = reduce<MaximumOf, block>(most);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < I; ++i) {
      if ((i * place.threads + place.thread) * V < a.length) {
#pragma unroll
        for (int e = 0; e < V; ++e) {
          const float shifted = v[i * V + e] - most, power = exponential(shifted);
          v[i * V + e] = a.log ? shifted : power;
          sum += power;
        }
      }
    }
    sum = reduce<SumOf, block>(sum);
    const float factor = 1.0f / sum, shift = a.log ? logf(sum) : 0.0f;
#pragma unroll
    for (int i = 0; i < I; ++i) {
      const int at = (i * place.threads + place.thread) * V;
      if (at < a.length) {
#pragma unroll
        for (int e = 0; e < V; ++e) v[i * V + e] = a.log ? v[i * V + e] - shift : v[i * V + e] * factor;
        store_some<T, V>(y + at, v + i * V);
      }
    }
  } else {
    float most = -INFINITY, sum = 0.0f;
    float v[V];
    for (int at = place.thread * V; at < a.length; at += place.threads * V) {
      load_some<T, V>(x + at, v);
#pragma unroll
      for (int e = 0; e < V; ++e) most = fmaxf(most, v[e]);
    }
    most = reduce<MaximumOf, block>(most);
    for (int at = place.thread * V; at < a.length; at += place.threads * V) {
      load_some<T, V>(x + at, v);
#pragma unroll
      for (int e = 0; e < V; ++e) sum += exponential(v[e] - most);
    }
    sum = reduce<SumOf, block>(sum);
    const float factor = 1.0f / sum, shift = logf(sum);
    for (int at = place.thread * V; at < a.length; at += place.threads * V) {
      load_some<T, V>(x + at, v);
#pragma unroll
      for (int e = 0; e < V; ++e) v[e] = a.log ? v[e] - most - shift : exponential(v[e] - most) * factor;
      store_some<T, V>(y + at, v);
    }
  }
}

// Rows whose numbers lie `inner` apart: a thread makes one.
template <typename T>
__global__ void __launch_bounds__(128)
    column_kernel(const T* x, T* y, int64_t columns, int length, int64_t inner, bool log) {
  allow_next();
  wait_previous();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 128 + threadIdx.x;
  if (i >= columns) return;
  const int64_t at = i / inner * length * inner + i % inner;
  x += at;
  y += at;
  float most = -INFINITY, sum = 0.0f;
#pragma unroll 4
  for (int k = 0; k < length; ++k) most = fmaxf(most, to_float(x[k * inner]));
#pragma unroll 4
  for (int k = 0; k < length; ++k) sum += exponential(to_float(x[k * inner]) - most);
  const float factor = 1.0f / sum, shift = logf(sum);
#pragma unroll 4
  for (int k = 0; k < length; ++k) {
    const float shifted = to_float(x[k * inner]) - most;
    y[k * inner] = from_float<T>(log ? shifted - shift : exponential(shifted) * factor);
  }
}

template <typename T>
struct Make {
  using Kernel = void (*)(Arguments<T>);
  template <typename U, int V, int I, bool block>
  static Kernel kernel() {
    return row_kernel<U, V, I, block>;
  }
};

template <typename T>
cudaError_t run(const Softmax& s, const Target& target) {
  const auto* x = static_cast<const T*>(s.x);
  auto* y = static_cast<T*>(s.y);
  if (s.outer * s.inner * s.length == 0) return cudaSuccess;
  if (s.length > int64_t{1} << 30 || s.outer * s.inner > int64_t{1} << 30) return cudaErrorInvalidValue;
  const int length = static_cast<int>(s.length);
  if (s.inner > 1) {
    const int64_t columns = s.outer * s.inner;
    return launch(target, column_kernel<T>, dim3(static_cast<unsigned>((columns + 127) / 128)), 128, 0, 1, x, y,
                  columns, length, s.inner, s.log);
  }
  const bool aligned = is_aligned(x) && is_aligned(y) && s.length * static_cast<int64_t>(sizeof(T)) % 16 == 0;
  typename Make<T>::Kernel kernel = nullptr;
  const RowPlan plan = plan_rows<T, Make<T>>(s.outer, s.length, aligned, &kernel);
  return launch(target, kernel, dim3(static_cast<unsigned>(plan.blocks)), plan.threads, 0, 1,
                Arguments<T>{x, y, s.outer, length, s.log});
}

}  // namespace

cudaError_t softmax(const Softmax& problem, const Target& target) {
  return with_float_type(problem.dtype, [&](auto number) { return run<decltype(number)>(problem, target); });
}

}  // namespace minnow::cuda
