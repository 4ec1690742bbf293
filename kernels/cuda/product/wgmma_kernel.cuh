// Products by tensor cores, four warps at a time (wgmma, Hopper), of operands that ordinary threads bring in: for
// windows of few channels, whose taps share a step of the depth, and as an alternative to tma_kernel.cuh elsewhere.
//
// As mma_kernel.cuh, but a group of four warps makes 64 rows of the tile, and reads its operands from shared memory:
// the exchange of chunks there is the one that wgmma calls a swizzle of 128 bytes.
#pragma once

#include "kernels/cuda/product/ending.cuh"
#include "kernels/cuda/product/loader.cuh"
#include "kernels/cuda/product/wgmma.cuh"

namespace minnow::cuda {

template <typename T, int kM, int kN, int kStages, int kBlocksPerProcessor, bool kOne>
__global__ void __launch_bounds__(kM * 2, kBlocksPerProcessor)
    wgmma_kernel(const __grid_constant__ ProductArguments a) {
#if MINNOW_HOPPER
  constexpr int kThreads = kM * 2, kStride = kN + 4;
  constexpr int kAhead = kStages > 2 ? kStages - 2 : 1;  // one stage is still read by the products of the step before
  static_assert(kM * kStride * 4 <= kStages * (kM + kN) * 128, "the sums of a tile fit where its operands were");
  extern __shared__ __align__(1024) char shared[];
  const uint32_t stage_a = (shared_address(shared) + 1023) & ~1023u, stage_b = stage_a + kStages * kM * 128;
  const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5, group = warp >> 2;
  const int tile_m = blockIdx.x / a.column_tiles * kM, tile_n = blockIdx.x % a.column_tiles * kN;
  const int first = blockIdx.z * a.steps_each, steps = min(a.steps - first, a.steps_each);
  let_next_start();

  Loader<T, kM, kN, kThreads, kOne, !kOne> loader(a, thread, tile_m, tile_n, first);
  if (!a.constant_w) wait_for_previous();
#pragma unroll
  for (int s = 0; s < kAhead; ++s)
    if (s < steps) loader.load_w(a, stage_b + s * kN * 128);
  if (a.constant_w) wait_for_previous();
#pragma unroll
  for (int s = 0; s < kAhead; ++s) {
    if (s < steps) loader.load_x(a, stage_a + s * kM * 128);
    commit_copies();
  }

  const int64_t base = blockIdx.y * a.y_batch;
  const int bias_base = blockIdx.y * a.bias_batch, row = group * 64 + (warp & 3) * 16;
  float sums[1][kN / 2];
  float(&sum)[kN / 2] = sums[0];
  begin_sums<T, 64, true>(a.end, base, bias_base, a.M, tile_m + row, tile_n, lane, blockIdx.z == 0, sums);
  int stage = 0, free = kAhead;
  for (int step = 0; step < steps; ++step) {
    wait_copies<kAhead - 1>();
    publish_shared();
    __syncthreads();
    begin_products();
    const uint64_t from_a = rows_of_128(stage_a + stage * kM * 128 + group * 64 * 128);
    const uint64_t from_b = rows_of_128(stage_b + stage * kN * 128);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      GroupProduct<kN>::run(sum, from_a + k * 2, from_b + k * 2, 1, static_cast<const T*>(nullptr));
    commit_products();
    if (step + kAhead < steps) {
      loader.load_w(a, stage_b + free * kN * 128);
      loader.load_x(a, stage_a + free * kM * 128);
    }
    commit_copies();
    wait_products<(kStages > 2 ? 1 : 0)>();
    if (++stage == kStages) stage = 0;
    if (++free == kStages) free = 0;
  }
  wait_products<0>();
  pin(sum);

  wait_copies<0>();
  __syncthreads();
  if constexpr (sizeof(T) == 2) {
    if (gridDim.z == 1 && is_packed<T>(a.end)) {
      sums_to_tile<T, 64, kN + 8>(a.end, stage_a, row, 0, lane, sums);
      __syncthreads();
      tile_to_memory<T, kM, kN, kN + 8>(a.end, base, a.M, tile_m, tile_n, stage_a, thread, kThreads);
      return;
    }
  }
  const uint32_t to = stage_a + ((row + (lane >> 2)) * kStride + (lane & 3) * 2) * 4;
#pragma unroll
  for (int j = 0; j < kN / 8; ++j) {
    store2(to + j * 32, sum[4 * j], sum[4 * j + 1]);
    store2(to + j * 32 + 8 * kStride * 4, sum[4 * j + 2], sum[4 * j + 3]);
  }
  meet(gridDim.z);
  finish_shared<T, kM, kN, kStride>(a.end, base, bias_base, a.M, tile_m, tile_n, stage_a, gridDim.z, blockIdx.z, thread,
                                    kThreads, loads_ahead<T>(a.end));
  if (gridDim.z > 1) cluster_sync();  // nobody ends while others read what it has left
#endif
}

}  // namespace minnow::cuda
