// Products by tensor cores (wgmma, Hopper) of operands that the copy engine brings in by tensor maps.
//
// One warp of a block only asks for copies, a ring of stages ahead; groups of four warps multiply what has arrived. Two
// barriers for each stage say when it is full and when it is free. A block makes tile after tile, so the copies for the
// next one run while the sums of this one are finished.
//
// A cluster of blocks either shares columns (each brings a part of the rows of w, for all: kShareColumns), or shares
// the depth of one tile (each sums up a part; then they meet, and each finishes a part of the tile).
#pragma once

#include "kernels/cuda/product/ending.cuh"
#include "kernels/cuda/product/tma_arguments.h"
#include "kernels/cuda/product/wgmma.cuh"

namespace minnow::cuda {

// Registers of a thread, as 128 threads may have: those that only ask for copies give theirs to the others.
constexpr int kFewRegisters = 40;
template <int kGroups, int kBlocksPerProcessor>
struct ManyRegisters {
  static constexpr int kEach = 65536 / ((kGroups + 1) * 128 * kBlocksPerProcessor) / 8 * 8;
  static constexpr int kMost = (kEach * (kGroups + 1) - kFewRegisters) / kGroups / 8 * 8;
  static constexpr int kCount = kMost < 232 ? kMost : 232;
};

// Groups of four warps that multiply: kGroups, each for kM / kGroups rows of the tile; one more asks for copies.
template <typename T, int kM, int kN, int kGroups, int kStages, int kBlocksPerProcessor>
__global__ void __launch_bounds__(kGroups * 128 + 128, kBlocksPerProcessor)
    tma_kernel(const __grid_constant__ MapArguments g) {
#if MINNOW_HOPPER
  constexpr int kGroupRows = kM / kGroups, kParts = kGroupRows / 64;
  constexpr int kStep = 128 / sizeof(T), kBytes = (kM + kN) * 128, kStride = kN + 4;
  static_assert(kM * kStride * 4 <= kStages * kBytes, "the sums of a tile fit where its operands were");
  static_assert(kGroupRows % 64 == 0, "a product has 64 rows");
  const ProductArguments& a = g.a;
  extern __shared__ __align__(1024) char shared[];
  __shared__ __align__(8) uint64_t barriers[2 * kStages];
  const uint32_t ring = (shared_address(shared) + 1023) & ~1023u;
  const uint32_t full = shared_address(barriers), empty = full + 8 * kStages;
  const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
  const int rank = cluster_rank(), share = g.shares_depth ? 1 : g.cluster;
  const int first = g.shares_depth ? rank * a.steps_each : 0;
  const int steps = g.shares_depth ? min(a.steps - first, a.steps_each) : a.steps;
  const int begin = blockIdx.x / g.cluster, stride = gridDim.x / g.cluster;
  let_next_start();
  if (thread == 0) {
    for (int s = 0; s < kStages; ++s) {
      init_barrier(full + 8 * s, 1);
      init_barrier(empty + 8 * s, 4 * kGroups * share);
    }
    fence_barriers();
    prefetch_map(&g.x);
    prefetch_map(&g.w);
  }
  __syncthreads();
  if (g.cluster > 1) cluster_sync();

  if (warp >= kGroups * 4) {
    give_registers<kFewRegisters>();
    if (thread == kGroups * 128) {
      const int part = kN / share;
      const auto load_w = [&](int stage, int n, int tap, int channel, int batch) {
        const uint32_t to = ring + stage * kBytes + kM * 128 + rank * part * 128;
        const int y = g.w_batches ? batch : 0;
        if (share == 1) {
          load_box4(ring + stage * kBytes + kM * 128, &g.w, full + 8 * stage, channel, tap, n, y);
        } else {
          load_box4_to(static_cast<uint16_t>((1 << share) - 1), to, &g.w, full + 8 * stage, channel, tap,
                       n + rank * part, y);
        }
      };
      // How many steps' columns are asked for before the previous kernel has ended.
      int ahead = 0;
      if (a.constant_w && begin < g.work) {
        ahead = min(kStages, steps);
        const int n = begin % a.column_tiles * kN;  // as below, for the first tile; its batch is found there
        const int batch = begin / (a.column_tiles * g.row_tiles);
        for (int s = 0; s < ahead; ++s) {
          expect_bytes(full + 8 * s, kBytes);
          load_w(s, n, (first + s) / g.channel_steps, (first + s) % g.channel_steps * kStep, batch);
        }
      }
      wait_for_previous();
      int stage = 0;
      uint32_t phase = 0;
      for (int t = begin; t < g.work; t += stride) {
        const int batch = t / (a.column_tiles * g.row_tiles), rest = t - batch * (a.column_tiles * g.row_tiles);
        const int row_tile = rest / a.column_tiles, n = (rest - row_tile * a.column_tiles) * kN;
        const int m = (g.shares_depth ? row_tile : row_tile * g.cluster + rank) * kM;
        int image = 0, h = 0, w = 0;
        if (g.windows) {
          image = m / (a.P * a.Q);
          const int pixel = m - image * a.P * a.Q;
          h = pixel / a.Q;
          w = (pixel - h * a.Q) * a.stride_w - a.pad_w;
          h = h * a.stride_h - a.pad_h;
        }
        int tap = first / g.channel_steps, part_of_tap = first - tap * g.channel_steps;
        int tap_h = tap / a.S, tap_w = tap - tap_h * a.S;
        for (int step = 0; step < steps; ++step) {
          const uint32_t to = ring + stage * kBytes;
          if (ahead > 0) {
            --ahead;
          } else {
            wait_barrier(empty + 8 * stage, phase ^ 1);
            expect_bytes(full + 8 * stage, kBytes);
            load_w(stage, n, tap, part_of_tap * kStep, batch);
          }
          const bool second = g.split_steps != 0 && part_of_tap >= g.split_steps;
          const CUtensorMap* const from = second ? &g.more : &g.x;
          const int channel = (part_of_tap - (second ? g.split_steps : 0)) * kStep;
          if (g.windows) {
            load_windows(to, from, full + 8 * stage, channel, w, h, image, static_cast<uint16_t>(tap_w * a.dilation_w),
                         static_cast<uint16_t>(tap_h * a.dilation_h));
          } else {
            load_box3(to, from, full + 8 * stage, channel, m, g.x_batches ? batch : 0);
          }
          if (++part_of_tap == g.channel_steps) {
            part_of_tap = 0;
            ++tap;
            if (++tap_w == a.S) {
              tap_w = 0;
              ++tap_h;
            }
          }
          if (++stage == kStages) {
            stage = 0;
            phase ^= 1;
          }
        }
        // Stages for the results, with the residual in them.
        for (int column = n; g.staged && column < min(n + kN, a.end.columns); column += 64) {
          wait_barrier(empty + 8 * stage, phase ^ 1);
          if (a.end.residual == nullptr) {
            arrive(full + 8 * stage);
          } else {
            expect_bytes(full + 8 * stage, kM * 128);
            load_box3(ring + stage * kBytes, &g.residual, full + 8 * stage, column, m, batch);
          }
          if (++stage == kStages) {
            stage = 0;
            phase ^= 1;
          }
        }
      }
    }
    __syncwarp();
    if (g.shares_depth) cluster_sync();  // as the others, below
  } else {
    take_registers<ManyRegisters<kGroups, kBlocksPerProcessor>::kCount>();
    const int group = warp >> 2;
    float sum[kParts][kN / 2];
    int stage = 0;
    uint32_t phase = 0;
    const auto release = [&](int s) {
      if (share == 1) {
        if (lane == 0) arrive(empty + 8 * s);
      } else if (lane < share) {
        arrive_at(empty + 8 * s, lane);
      }
    };
    for (int t = begin; t < g.work; t += stride) {
      const int batch = t / (a.column_tiles * g.row_tiles), rest = t - batch * (a.column_tiles * g.row_tiles);
      const int row_tile = rest / a.column_tiles, n = (rest - row_tile * a.column_tiles) * kN;
      const int m = (g.shares_depth ? row_tile : row_tile * g.cluster + rank) * kM;
      const int row = group * kGroupRows + (warp & 3) * 16;
      const int64_t base = batch * a.y_batch;
      const int bias_base = batch * a.bias_batch;
      begin_sums<T, 64, false>(a.end, base, bias_base, a.M, m + row, n, lane, !g.shares_depth || rank == 0, sum);
      wait_for_previous();  // at once, but for the first time
      int last = 0;
      for (int step = 0; step < steps; ++step) {
        wait_barrier(full + 8 * stage, phase);
        begin_products();
        const uint32_t at = ring + stage * kBytes;
        const uint64_t from_a = rows_of_128(at + group * kGroupRows * 128);
        const uint64_t from_b = rows_of_128(at + kM * 128);
#pragma unroll
        for (int k = 0; k < 4; ++k)
#pragma unroll
          for (int p = 0; p < kParts; ++p)
            GroupProduct<kN>::run(sum[p], from_a + p * 512 + k * 2, from_b + k * 2, 1, static_cast<const T*>(nullptr));
        commit_products();
        if (step > 0) {
          wait_products<1>();
          release(last);
        }
        last = stage;
        if (++stage == kStages) {
          stage = 0;
          phase ^= 1;
        }
      }
      wait_products<0>();
      release(last);
#pragma unroll
      for (int p = 0; p < kParts; ++p) pin(sum[p]);

      if constexpr (sizeof(T) == 2 && kN % 64 == 0) {
        if (g.staged) {
          bend_sums(a.end, sum);
          const Bounds<T> bounds(a.end);
          // This thread's row of four blocks of 8 x 8: two of rows, two of columns.
          const int block_row = (lane & 7) + (lane & 8), block_chunk = lane >> 4;
          int before = -1;
#pragma unroll
          for (int b = 0; b < kN / 64; ++b) {
            if (n + 64 * b >= a.end.columns) break;
            wait_barrier(full + 8 * stage, phase);
#pragma unroll
            for (int p = 0; p < kParts; ++p) {
              const uint32_t rows = ring + stage * kBytes + (row + p * 64) * 128;
#pragma unroll
              for (int j = 0; j < 4; ++j) {
                const uint32_t at = rows + block_row * 128 + (((2 * j + block_chunk) ^ (lane & 7)) << 4);
                float* s = &sum[p][32 * b + 8 * j];
                uint32_t r[4];
                if (a.end.residual != nullptr) {
                  load_blocks(r, at);
#pragma unroll
                  for (int k = 0; k < 4; ++k) {
                    const float2 f = widen<T>(r[k]);
                    s[2 * k] += f.x;
                    s[2 * k + 1] += f.y;
                  }
                }
#pragma unroll
                for (int k = 0; k < 4; ++k) r[k] = bounds(s[2 * k], s[2 * k + 1]);
                store_blocks(at, r);
              }
            }
            publish_shared();
            __syncwarp();
            if (lane == 0) {
#pragma unroll
              for (int p = 0; p < kParts; ++p)
                store_box3(&g.y, ring + stage * kBytes + (row + p * 64) * 128, n + 64 * b, m + row + p * 64, batch);
              commit_stores();
              wait_stores<1>();
            }
            __syncwarp();
            if (before >= 0) release(before);
            before = stage;
            if (++stage == kStages) {
              stage = 0;
              phase ^= 1;
            }
          }
          if (lane == 0) wait_stores<0>();
          __syncwarp();
          release(before);
          continue;
        }
      }
      if (!g.shares_depth) {
        finish_rows<T, 64>(a.end, base, bias_base, a.M, m + row, n, lane, sum);
        continue;
      }
      // All groups of this block have read the last stage before sums are written over it.
      asm volatile("bar.sync 1, %0;" ::"n"(kGroups * 128) : "memory");
      const uint32_t to = ring + ((row + (lane >> 2)) * kStride + (lane & 3) * 2) * 4;
#pragma unroll
      for (int p = 0; p < kParts; ++p)
#pragma unroll
        for (int j = 0; j < kN / 8; ++j) {
          store2(to + p * 64 * kStride * 4 + j * 32, sum[p][4 * j], sum[p][4 * j + 1]);
          store2(to + p * 64 * kStride * 4 + 8 * kStride * 4 + j * 32, sum[p][4 * j + 2], sum[p][4 * j + 3]);
        }
      // Of the depth, the others have summed up their parts: a cluster has one tile.
      cluster_sync();
      finish_shared<T, kM, kN, kStride>(a.end, base, bias_base, a.M, m, n, ring, g.cluster, rank, thread, kGroups * 128,
                                        false);
    }
  }
  // Nobody ends while others read its memory, copy to it or arrive at its barriers.
  if (g.cluster > 1) cluster_sync();
#endif
}

}  // namespace minnow::cuda
