// Products in exact f32, by ordinary multiply-adds. As mma_kernel.cuh; a thread makes kThreadM x kThreadN sums, of rows
// and columns that are spread over the tile, so that neighbors read different banks.
#pragma once

#include "kernels/cuda/product/ending.cuh"
#include "kernels/cuda/product/loader.cuh"

namespace minnow::cuda {

template <int kM, int kN, int kThreadM, int kThreadN, int kStages, bool kOne>
__global__ void __launch_bounds__((kM / kThreadM) * (kN / kThreadN))
    plain_kernel(const __grid_constant__ ProductArguments a) {
  constexpr int kAcross = kN / kThreadN, kDown = kM / kThreadM, kThreads = kAcross * kDown, kStride = kN + 4;
  static_assert(kM * kStride * 4 <= kStages * (kM + kN) * 128, "the sums of a tile fit where its operands were");
  extern __shared__ __align__(1024) char shared[];
  const uint32_t stage_a = shared_address(shared), stage_b = stage_a + kStages * kM * 128;
  const int thread = threadIdx.x, across = thread % kAcross, down = thread / kAcross;
  const int tile_m = blockIdx.x / a.column_tiles * kM, tile_n = blockIdx.x % a.column_tiles * kN;
  const int first = blockIdx.z * a.steps_each, steps = min(a.steps - first, a.steps_each);
  let_next_start();

  Loader<float, kM, kN, kThreads, kOne, false> loader(a, thread, tile_m, tile_n, first);
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

  float sum[kThreadM][kThreadN] = {};
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
    const uint32_t from_a = stage_a + stage * kM * 128, from_b = stage_b + stage * kN * 128;
#pragma unroll 2
    for (int chunk = 0; chunk < 8; ++chunk) {
      float4 fb[kThreadN];
#pragma unroll
      for (int j = 0; j < kThreadN; ++j) {
        const int row = across + j * kAcross;
        fb[j] = load_shared(from_b + row * 128 + ((chunk ^ (row & 7)) << 4));
      }
#pragma unroll
      for (int i = 0; i < kThreadM; ++i) {
        const int row = down + i * kDown;
        const float4 f = load_shared(from_a + row * 128 + ((chunk ^ (row & 7)) << 4));
#pragma unroll
        for (int j = 0; j < kThreadN; ++j) {
          float s = sum[i][j];
          s = fmaf(f.x, fb[j].x, s);
          s = fmaf(f.y, fb[j].y, s);
          s = fmaf(f.z, fb[j].z, s);
          sum[i][j] = fmaf(f.w, fb[j].w, s);
        }
      }
    }
    if (++stage == kStages) stage = 0;
  }

  wait_copies<0>();
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kThreadM; ++i)
#pragma unroll
    for (int j = 0; j < kThreadN; ++j)
      store_shared(stage_a + ((down + i * kDown) * kStride + across + j * kAcross) * 4, sum[i][j]);
  meet(gridDim.z);
  finish_shared<float, kM, kN, kStride, true>(a.end, blockIdx.y * a.y_batch, blockIdx.y * a.bias_batch, a.M, tile_m,
                                              tile_n, stage_a, gridDim.z, blockIdx.z, thread, kThreads, false);
  if (gridDim.z > 1) cluster_sync();  // nobody ends while others read what it has left
}

}  // namespace minnow::cuda
