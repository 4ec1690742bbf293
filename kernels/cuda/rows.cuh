// Rows that a warp or a block holds in registers.
#pragma once

#include "kernels/cuda/eight.cuh"

namespace minnow::cuda {

// Of V neighbors, aligned to their size.
template <typename T, int V>
__device__ __forceinline__ void load_some(const T* from, float* v) {
  if constexpr (V == 1) {
    v[0] = to_float(*from);
  } else if constexpr (V == 4) {
    static_assert(kIsF32<T>, "16 bytes");
    *reinterpret_cast<float4*>(v) = *reinterpret_cast<const float4*>(from);
  } else {
    load_eight(from, *reinterpret_cast<float(*)[8]>(v));
  }
}
template <typename T, int V>
__device__ __forceinline__ void store_some(T* to, const float* v) {
  if constexpr (V == 1) {
    *to = from_float<T>(v[0]);
  } else if constexpr (V == 4) {
    static_assert(kIsF32<T>, "16 bytes");
    *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(v);
  } else {
    store_eight(to, *reinterpret_cast<const float(*)[8]>(v));
  }
}

struct SumOf {
  static constexpr float kNothing = 0.0f;
  __device__ __forceinline__ static float join(float a, float b) { return a + b; }
};
struct MaximumOf {
  static constexpr float kNothing = -INFINITY;
  __device__ __forceinline__ static float join(float a, float b) { return fmaxf(a, b); }
};

// The sum or the maximum of a number of each thread: of its warp, or of its block, whose threads then all come here.
template <class Op, bool block>
__device__ __forceinline__ float reduce(float v) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) v = Op::join(v, __shfl_xor_sync(0xffffffffu, v, o));
  if constexpr (block) {
    __shared__ float part[32];
    const int lane = static_cast<int>(threadIdx.x) & 31, warp = static_cast<int>(threadIdx.x) >> 5;
    __syncthreads();  // the last result has been read
    if (lane == 0) part[warp] = v;
    __syncthreads();
    v = lane < static_cast<int>(blockDim.x) >> 5 ? part[lane] : Op::kNothing;
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) v = Op::join(v, __shfl_xor_sync(0xffffffffu, v, o));
  }
  return v;
}

// How a row is divided: `threads` threads hold I times V neighbors each.
constexpr int kWarpRows = 4;  // rows of a block where a warp makes one

template <bool block>
struct RowPlace {
  int64_t row;
  int thread, threads;
  __device__ __forceinline__ RowPlace() {
    if (block) {
      row = blockIdx.x;
      thread = static_cast<int>(threadIdx.x);
      threads = static_cast<int>(blockDim.x);
    } else {
      row = static_cast<int64_t>(blockIdx.x) * kWarpRows + (threadIdx.x >> 5);
      thread = static_cast<int>(threadIdx.x & 31);
      threads = 32;
    }
  }
};

// A kernel of a family `Make::kernel<T, V, I, block>()`, for rows of that length; `aligned`: every row begins at a
// multiple of 16 bytes, and ends at one. I = 0: rows of any length, read from memory as often as needed.
struct RowPlan {
  int threads = 0;  // of a block
  int64_t blocks = 0;
};

template <typename T, class Make>
RowPlan plan_rows(int64_t rows, int64_t length, bool aligned, typename Make::Kernel* kernel) {
  constexpr int V = 16 / static_cast<int>(sizeof(T));
  const int64_t pieces = aligned ? length / V : length;
  const auto per_warp = [&](int count) { return pieces <= 32 * count; };
  // Whole warps, as few as hold the row.
  const auto per_block = [&](int count) { return static_cast<int>((pieces + 32 * count - 1) / (32 * count) * 32); };
  if (aligned) {
    if (per_warp(1)) return *kernel = Make::template kernel<T, V, 1, false>(), RowPlan{128, (rows + 3) / 4};
    if (per_warp(4)) return *kernel = Make::template kernel<T, V, 4, false>(), RowPlan{128, (rows + 3) / 4};
    if (per_block(1) <= 512) return *kernel = Make::template kernel<T, V, 1, true>(), RowPlan{per_block(1), rows};
    if (per_block(4) <= 1024) return *kernel = Make::template kernel<T, V, 4, true>(), RowPlan{per_block(4), rows};
    return *kernel = Make::template kernel<T, V, 0, true>(), RowPlan{1024, rows};
  }
  if (per_warp(2)) return *kernel = Make::template kernel<T, 1, 2, false>(), RowPlan{128, (rows + 3) / 4};
  if (per_warp(16)) return *kernel = Make::template kernel<T, 1, 16, false>(), RowPlan{128, (rows + 3) / 4};
  if (per_block(12) <= 1024) return *kernel = Make::template kernel<T, 1, 12, true>(), RowPlan{per_block(12), rows};
  return *kernel = Make::template kernel<T, 1, 0, true>(), RowPlan{1024, rows};
}

inline bool is_aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

}  // namespace minnow::cuda
