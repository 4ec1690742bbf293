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

// How a block ends: the sums of its warps, [warps][columns][8 rows], become y. Each of the first threads has one number
// of it; what is added is read before the sums are there.
template <typename T, int columns, int warps = kFewRowsWarps>
class FewRowsEnd {
 public:
  __device__ __forceinline__ FewRowsEnd(const FewRowsArguments<T>& a, int first)
      : column_(first + static_cast<int>(threadIdx.x) / 8), row_(static_cast<int>(threadIdx.x) % 8) {
    there_ = static_cast<int>(threadIdx.x) < columns * 8 && column_ < a.n && row_ < a.rows;
    if (there_ && a.bias != nullptr) add_ = __ldg(a.bias + column_);
  }
  __device__ __forceinline__ void read_residual(const FewRowsArguments<T>& a) {
    if (there_ && a.residual != nullptr) add_ += to_float(a.residual[place(a)]);
  }
  // Every thread comes here.
  __device__ __forceinline__ void join(const FewRowsArguments<T>& a, const float* part) const {
    __syncthreads();
    if (!there_) return;
    float one[1] = {add_};
#pragma unroll
    for (int w = 0; w < warps; ++w) one[0] += part[w * columns * 8 + static_cast<int>(threadIdx.x)];
    activate<kIsF32<T>>(one, a.activation);
    a.y[place(a)] = from_float<T>(one[0]);
  }

 private:
  static_assert(columns * 8 <= warps * 32, "a thread has one number of y");
  __device__ __forceinline__ size_t place(const FewRowsArguments<T>& a) const {
    return static_cast<size_t>(row_) * a.y_row + column_;
  }

  int column_, row_;
  bool there_;
  float add_ = 0.0f;
};

}  // namespace minnow::cuda
