// Products and convolutions of bytes by tensor cores: implicit GEMM as in kernels/cuda/product/mma_kernel.cuh, with the
// same stages in shared memory. A step is 128 bytes of depth, which is 128 multiply-adds for each sum.
#pragma once

#include "kernels/cuda/integer/integer_constants.cuh"
#include "kernels/cuda/integer/integer_loader.cuh"

namespace minnow::cuda {

// The tile is kM x kN, that of a warp kWarpM x kWarpN; x is copied in chunks of kChunk bytes. kOne: a plain matrix
// instead of windows. kBlocks: how many are to be on a processor, as far as registers go.
template <int kM, int kN, int kWarpM, int kWarpN, int kStages, int kChunk, bool kOne, int kBlocks>
__global__ void __launch_bounds__((kM / kWarpM) * (kN / kWarpN) * 32, MINNOW_CLUSTERS ? kBlocks : 1)
    integer_kernel(const __grid_constant__ IntegerArguments a) {
  constexpr int kWarpsM = kM / kWarpM, kThreads = kWarpsM * (kN / kWarpN) * 32;
  constexpr int kBlocksM = kWarpM / 16, kBlocksN = kWarpN / 8, kStride = kN + 4;
  static_assert(kM * (kStride + 1) * 4 <= kStages * (kM + kN) * 128, "the sums of a tile fit where its operands were");
  extern __shared__ __align__(1024) char shared[];
  const uint32_t stage_a = shared_address(shared), stage_b = stage_a + kStages * kM * 128;
  const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
  const int warp_m = warp % kWarpsM * kWarpM, warp_n = warp / kWarpsM * kWarpN;
  const int tile_m = blockIdx.x / a.column_tiles * kM, tile_n = blockIdx.x % a.column_tiles * kN;
  const int first = blockIdx.z * a.steps_each, steps = min(a.steps - first, a.steps_each);
  let_next_start();

  const int arrays = blockIdx.y * a.column_batch;
  const uint32_t constants = stage_b + kStages * kN * 128;
  copy_constants<kN, kThreads>(a, constants, arrays, tile_n, thread);
  IntegerLoader<kM, kN, kThreads, kChunk, kOne> loader(a, thread, tile_m, tile_n, first);
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

  int sum[kBlocksM][kBlocksN * 4] = {};
  int row_sum[kBlocksM][4] = {};
  // The warps of the first columns add up the rows.
  const bool row_sums = a.row_sums && warp_n == 0;
  const uint32_t flip = a.flip;
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
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      uint32_t fa[kBlocksM][4], fb[kBlocksN / 2][4];
#pragma unroll
      for (int i = 0; i < kBlocksM; ++i) {
        const int row = warp_m + i * 16 + (lane & 15), chunk = k * 2 + (lane >> 4);
        load_blocks(fa[i], from_a + row * 128 + ((chunk ^ (row & 7)) << 4));
#pragma unroll
        for (int e = 0; e < 4; ++e) fa[i][e] ^= flip;
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
          multiply(&sum[i][4 * j], fa[i], fb[j / 2][(j & 1) * 2], fb[j / 2][(j & 1) * 2 + 1]);
      if (row_sums) {
#pragma unroll
        for (int i = 0; i < kBlocksM; ++i) multiply(row_sum[i], fa[i], 0x01010101u, 0x01010101u);
      }
    }
    if (++stage == kStages) stage = 0;
  }

  // Of a block's rows, which those of a cluster share, each thread has the same columns of some.
  constexpr int kAcross = kN / 8, kApart = kThreads / kAcross;
  static_assert(kThreads % kAcross == 0 && kM % kApart == 0, "threads have the same number of rows");
  const int blocks = static_cast<int>(gridDim.z), rank = static_cast<int>(blockIdx.z);
  const int n = thread % kAcross * 8, top = thread / kAcross * blocks + rank, apart = kApart * blocks;
  const int rows = min(kM, a.M - tile_m);
  const int64_t base = blockIdx.y * a.y_batch;
  const bool is_sum = a.end.other != nullptr && tile_n + n < a.end.columns;
  const auto other_of = [&](int row) {
    if (!is_sum || row >= rows) return make_uint2(0, 0);
    return load_other(a.end, base + (tile_m + row) * a.end.row + tile_n + n, a.end.columns - tile_n - n);
  };
  uint2 next = other_of(top), after = other_of(top + apart);

  wait_copies<0>();
  __syncthreads();
  const uint32_t sums_of_rows = stage_a + kM * kStride * 4;
#pragma unroll
  for (int i = 0; i < kBlocksM; ++i) {
    const int row = warp_m + i * 16 + (lane >> 2);
#pragma unroll
    for (int j = 0; j < kBlocksN; ++j) {
      const uint32_t to = stage_a + (row * kStride + warp_n + j * 8 + (lane & 3) * 2) * 4;
      store_pair(to, sum[i][4 * j], sum[i][4 * j + 1]);
      store_pair(to + 8 * kStride * 4, sum[i][4 * j + 2], sum[i][4 * j + 3]);
    }
    if (row_sums && (lane & 3) == 0) {
      store_integer(sums_of_rows + row * 4, row_sum[i][0]);
      store_integer(sums_of_rows + (row + 8) * 4, row_sum[i][2]);
    }
  }
  meet(blocks);
  const int x_zero = a.end.x_zero != nullptr ? zero_of(a.end.x_zero, flip != 0) : 0;
  const EightColumns columns = columns_shared<kN>(constants, n);
  const EndingTables tables = tables_shared(shared + kStages * (kM + kN) * 128 + kN * 12);
  // Unrolled, these are up to 10000 instructions, more than a processor keeps, each of which a tile runs once.
#pragma unroll 1
  for (int row = top; row < rows; row += apart) {
    const uint2 other = next;
    next = after;
    after = other_of(row + 2 * apart);
    const uint32_t from = stage_a + (row * kStride + n) * 4;
    uint4 low = load_words(from), high = load_words(from + 16);
    int of_row = a.row_sums ? load_integer(sums_of_rows + row * 4) : 0;
    for (int more = 1; more < blocks; ++more) {
      const uint32_t from_rank = (rank + more) % blocks;
      const uint4 l = load_words_from_cluster(of_block(from, from_rank)),
                  h = load_words_from_cluster(of_block(from + 16, from_rank));
      low = make_uint4(low.x + l.x, low.y + l.y, low.z + l.z, low.w + l.w);
      high = make_uint4(high.x + h.x, high.y + h.y, high.z + h.z, high.w + h.w);
      if (a.row_sums) of_row += load_integer_from_cluster(of_block(sums_of_rows + row * 4, from_rank));
    }
    int v[8] = {static_cast<int>(low.x),  static_cast<int>(low.y),  static_cast<int>(low.z),  static_cast<int>(low.w),
                static_cast<int>(high.x), static_cast<int>(high.y), static_cast<int>(high.z), static_cast<int>(high.w)};
    finish_eight(a.end, columns, tables, base, arrays, tile_m + row, tile_n + n, x_zero, of_row, other, v);
  }
  if (blocks > 1) cluster_sync();  // nobody ends while others read what it has left
}

}  // namespace minnow::cuda
