// What the kernels for few rows share: how results are joined and written.
#pragma once

#include "kernels/cuda/eight.cuh"
#include "kernels/cuda/few_rows.h"

namespace minnow::cuda {

constexpr int kFewRowsWarps = 8;  // of a block: each takes a part of k

template <typename T>
struct FewRowsArguments {
  const T* x;
  const T* w;
  const float* bias;
  const T* residual;
  T* y;
  int rows, n, k;
  int64_t x_row, y_row;
  Activation activation;
};

// 16 bytes of weights, which nothing else reads again soon.
__device__ __forceinline__ uint4 load_once(const void* from) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}

template <typename T>
__device__ __forceinline__ void write_few(const FewRowsArguments<T>& a, int row, int column, float v) {
  float one[1] = {v + (a.bias == nullptr ? 0.0f : __ldg(a.bias + column))};
  const size_t at = static_cast<size_t>(row) * a.y_row + column;
  if (a.residual != nullptr) one[0] += to_float(a.residual[at]);
  activate<kIsF32<T>>(one, a.activation);
  a.y[at] = from_float<T>(one[0]);
}

// The sums of all warps of a block, [warps][columns of y][8 rows], then y. Every thread comes here.
template <typename T, int columns>
__device__ __forceinline__ void join_few(const FewRowsArguments<T>& a, int first, const float* part) {
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < columns * 8; i += kFewRowsWarps * 32) {
    const int column = first + i / 8, row = i % 8;
    if (row >= a.rows || column >= a.n) continue;
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < kFewRowsWarps; ++w) sum += part[w * columns * 8 + i];
    write_few(a, row, column, sum);
  }
}

}  // namespace minnow::cuda
