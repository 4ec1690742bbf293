// Products by tensor cores, a warp at a time (mma.sync): for every GPU since 2018, and for small results on all.
//
// Implicit GEMM: rows are pixels of the result, columns its channels, the depth is tap by tap and channel by channel. A
// block makes a tile, in steps of 128 bytes of depth, which a ring of stages in shared memory brings in ahead. A row of
// a stage is 128 bytes, whose 8 chunks are exchanged (chunk ^ row % 8): no reader or writer meets a bank conflict.
#pragma once

#include "kernels/cuda/product/ending.cuh"
#include "kernels/cuda/product/loader.cuh"

namespace minnow::cuda {

// Adds the products of a step of depth to the sums of a warp, whose rows and columns begin at these of the stage.
template <typename T, int kBlocksM, int kSums>
__device__ __forceinline__ void multiply_step(uint32_t from_a, uint32_t from_b, int warp_m, int warp_n, int lane,
                                              float (&sum)[kBlocksM][kSums]) {
  constexpr int kBlocksN = kSums / 4;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    uint32_t fa[kBlocksM][4], fb[kBlocksN / 2][4];
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i) {
      const int row = warp_m + i * 16 + (lane & 15), chunk = k * 2 + (lane >> 4);
      load_blocks(fa[i], from_a + row * 128 + ((chunk ^ (row & 7)) << 4));
    }
#pragma unroll
    for (int j = 0; j < kBlocksN / 2; ++j) {
      const int row = warp_n + j * 16 + (lane & 7) + ((lane >> 4) << 3), chunk = k * 2 + ((lane >> 3) & 1);
      load_blocks(fb[j], from_b + row * 128 + ((chunk ^ (row & 7)) << 4));
    }
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i)
#pragma unroll
      for (int j = 0; j < kBlocksN; ++j)
        multiply(&sum[i][4 * j], fa[i], fb[j / 2][(j & 1) * 2], fb[j / 2][(j & 1) * 2 + 1],
                 static_cast<const T*>(nullptr));
  }
}

// Makes the results of a tile of the sums of its warps, by way of shared memory from `stage` on, where operands were.
template <typename T, int kM, int kN, int kThreads, int kBlocksM, int kSums>
__device__ __forceinline__ void finish_tile(const ProductArguments& a, int64_t base, int bias_base, int tile_m,
                                            int tile_n, int warp_m, int warp_n, int thread, uint32_t stage,
                                            float (&sum)[kBlocksM][kSums]) {
  constexpr int kStride = kN + 4, kBlocksN = kSums / 4;
  const int lane = thread & 31;
  wait_copies<0>();
  __syncthreads();
  if constexpr (sizeof(T) == 2) {
    if (gridDim.z == 1 && is_packed<T>(a.end)) {
      sums_to_tile<T, 16, kN + 8>(a.end, stage, warp_m, warp_n, lane, sum);
      __syncthreads();
      tile_to_memory<T, kM, kN, kN + 8>(a.end, base, a.M, tile_m, tile_n, stage, thread, kThreads);
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < kBlocksM; ++i)
#pragma unroll
    for (int j = 0; j < kBlocksN; ++j) {
      const uint32_t to = stage + ((warp_m + i * 16 + (lane >> 2)) * kStride + warp_n + j * 8 + (lane & 3) * 2) * 4;
      store2(to, sum[i][4 * j], sum[i][4 * j + 1]);
      store2(to + 8 * kStride * 4, sum[i][4 * j + 2], sum[i][4 * j + 3]);
    }
  meet(gridDim.z);
  finish_shared<T, kM, kN, kStride>(a.end, base, bias_base, a.M, tile_m, tile_n, stage, gridDim.z, blockIdx.z, thread,
                                    kThreads, loads_ahead<T>(a.end));
  if (gridDim.z > 1) cluster_sync();  // nobody ends while others read what it has left
}

// The tile is kM x kN, that of a warp kWarpM x kWarpN. kOne: a plain matrix instead of windows.
template <typename T, int kM, int kN, int kWarpM, int kWarpN, int kStages, bool kOne>
__global__ void __launch_bounds__((kM / kWarpM) * (kN / kWarpN) * 32, 1)
    mma_kernel(const __grid_constant__ ProductArguments a) {
  constexpr int kWarpsM = kM / kWarpM, kThreads = kWarpsM * (kN / kWarpN) * 32;
  constexpr int kBlocksM = kWarpM / 16, kBlocksN = kWarpN / 8, kStride = kN + 4;
  static_assert(kM * kStride * 4 <= kStages * (kM + kN) * 128, "the sums of a tile fit where its operands were");
  extern __shared__ __align__(1024) char shared[];
  const uint32_t stage_a = shared_address(shared), stage_b = stage_a + kStages * kM * 128;
  const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
  const int warp_m = warp % kWarpsM * kWarpM, warp_n = warp / kWarpsM * kWarpN;
  const int tile_m = blockIdx.x / a.column_tiles * kM, tile_n = blockIdx.x % a.column_tiles * kN;
  const int first = blockIdx.z * a.steps_each, steps = min(a.steps - first, a.steps_each);
  let_next_start();

  Loader<T, kM, kN, kThreads, kOne, false> loader(a, thread, tile_m, tile_n, first);
  if (!a.constant_w) wait_for_previous();
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s)
    if (s < steps) loader.load_w(a, stage_b + s * kN * 128);
  if (a.constant_w) wait_for_previous();
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < steps) loader.load_x(a, stage_a + s * kM * 128);
    commit_copies();
  }

  const int64_t base = blockIdx.y * a.y_batch;
  const int bias_base = blockIdx.y * a.bias_batch;
  float sum[kBlocksM][kBlocksN * 4];
  begin_sums<T, 16, true>(a.end, base, bias_base, a.M, tile_m + warp_m, tile_n + warp_n, lane, blockIdx.z == 0, sum);
  int stage = 0;
  for (int step = 0; step < steps; ++step) {
    wait_copies<kStages - 2>();
    __syncthreads();
    if (step + kStages - 1 < steps) {
      const int free = stage == 0 ? kStages - 1 : stage - 1;
      loader.load_w(a, stage_b + free * kN * 128);
      loader.load_x(a, stage_a + free * kM * 128);
    }
    commit_copies();
    multiply_step<T>(stage_a + stage * kM * 128, stage_b + stage * kN * 128, warp_m, warp_n, lane, sum);
    if (++stage == kStages) stage = 0;
  }

  finish_tile<T, kM, kN, kThreads>(a, base, bias_base, tile_m, tile_n, warp_m, warp_n, thread, stage_a, sum);
}

}  // namespace minnow::cuda
