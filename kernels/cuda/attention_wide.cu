// Attention without masks for many rows, on tensor cores of Hopper in f16 or bf16 with sums in f32. All warps of a
// block share the keys and the values, which come a ring of tiles ahead; a warp has 16 or 32 rows, whose queries and
// scores stay in registers. Rows in shared memory are not padded: their 16-byte chunks are exchanged, so that eight
// rows lie in different banks.
#include <type_traits>

#include "kernels/cuda/attention_score.cuh"
#include "kernels/cuda/tensor_core.cuh"

namespace minnow::cuda {
namespace {

constexpr int kTile = 64;  // keys
constexpr int kStages = 4;
constexpr int kRing = kStages * kTile;
// How far, in powers of two, scores may exceed what is taken away from them: f16 holds such exponentials.
constexpr float kMostGrowth = 8.0f;

// Keys, and behind them values.
template <int D>
constexpr int kRingBytes = 2 * kRing* D * 2;

// The index of this block; the compiler does not know that it is the same each time, so what is found from it need not
// stay in registers.
__device__ __forceinline__ int block_index() {
  int index;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(index));
  return index;
}
__device__ __forceinline__ int item_of_block(const AttentionArguments& a) {
  int block = block_index();
  return a.by_blocks.split(&block);
}

// `blocks` that a multiprocessor is to hold; M times 16 rows for a warp; scores of kStep keys are in its registers.
template <typename T, int D, int warps, int M, int kStep, int blocks>
__global__ void __launch_bounds__(warps * 32, blocks)
    attention_wide_kernel(const __grid_constant__ AttentionArguments a) {
#if __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1000
  constexpr int kThreads = warps * 32, kRows = warps * M * 16, kChunks = D / 8, kLineBytes = D * 2;
  constexpr int kValues = kRing * kLineBytes;  // where values begin
  static_assert(kRows <= 2 * kTile && kTile % (M * 16) == 0, "results fit where a tile was");
  extern __shared__ __align__(128) char memory[];
  const uint32_t ring = shared_address(memory);
  allow_next();
  const int thread = static_cast<int>(threadIdx.x), lane = thread & 31, warp = thread >> 5;
  int block = block_index();
  const int item_index = a.by_blocks.split(&block);
  const int first = block * kRows, end = min(first + kRows, a.all_rows);

  const auto read_tile = [&](int tile) {
    const ItemPlace item(a, item_of_block(a));
    const auto* const k = static_cast<const T*>(a.k) + item.k;
    const auto* const v = static_cast<const T*>(a.v) + item.v;
    const int left = a.keys - tile * kTile, used = min(kTile, (left + 15) / 16 * 16);
    const uint32_t slot = ring + tile % kStages * kTile * kLineBytes;
    constexpr int kEach = kThreads / kChunks;  // rows that all threads bring at once
#pragma unroll
    for (int i = 0; i < (kTile + kEach - 1) / kEach; ++i) {
      const int row = i * kEach + thread / kChunks, chunk = thread % kChunks;
      if (row >= used) continue;
      const bool there = row < left;
      const int64_t from = there ? tile * kTile + row : 0;
      const uint32_t to = slot + row * kLineBytes + ((chunk ^ (row & 7)) << 4);
      copy_async(to, k + from * a.k_place.row + chunk * 8, there);
      copy_async(to + kValues, v + from * a.v_place.row + chunk * 8, there);
    }
  };

  wait_previous();
#pragma unroll 1
  for (int s = 0; s < kStages - 1; ++s) {
    if (s * kTile < a.keys) read_tile(s);
    commit_copies();
  }
  // The queries of a thread: of rows `quad` and `quad + 8` of each 16, columns `pair`, `pair + 1` of each 8.
  const int quad = lane >> 2, pair = (lane & 3) * 2, warp_row = first + warp * M * 16;
  const bool active = warp_row < end;
  const ItemPlace item(a, item_index);
  uint32_t q_part[M][D / 16][4];
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const RowOfItem place(a, min(warp_row + m * 16 + h * 8 + quad, a.all_rows - 1));
      const T* const row =
          static_cast<const T*>(a.q) + item.q + place.head * a.q_group + place.row * a.q_place.row + pair;
#pragma unroll
      for (int step = 0; step < D / 16; ++step) {
        q_part[m][step][h] = *reinterpret_cast<const uint32_t*>(row + step * 16);
        q_part[m][step][2 + h] = *reinterpret_cast<const uint32_t*>(row + step * 16 + 8);
      }
    }
  }
  float out[M][D / 8][4];
  float most[M][2], sum[M][2];
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int j = 0; j < D / 8; ++j) out[m][j][0] = out[m][j][1] = out[m][j][2] = out[m][j][3] = 0.0f;
    most[m][0] = most[m][1] = -INFINITY;
    sum[m][0] = sum[m][1] = 0.0f;
  }
  // What ldmatrix takes from this lane, in a block of 16 keys: the step of the depth or the width goes in by ^.
  const uint32_t k_lane = ((lane & 7) + (lane >> 4) * 8) * kLineBytes + ((((lane >> 3) & 1) ^ (lane & 7)) << 4);
  const uint32_t v_lane = (lane & 15) * kLineBytes + (((lane >> 4) ^ (lane & 7)) << 4) + kValues;

  // The keys from `at` on in shared memory, `left` of them or kStep. `is_whole`: all of them are there.
  const auto add_keys = [&](uint32_t at, int left, auto is_whole) {
    constexpr bool whole = decltype(is_whole)::value;
    float score[M][kStep / 8][4];
#pragma unroll
    for (int g = 0; g < kStep / 16; ++g) {
#pragma unroll
      for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int e = 0; e < 4; ++e) score[m][2 * g][e] = score[m][2 * g + 1][e] = 0.0f;
      }
      if (!whole && g * 16 >= left) continue;
#pragma unroll
      for (int step = 0; step < D / 16; ++step) {
        uint32_t b[4];
        load_matrices(b, (at + k_lane + g * 16 * kLineBytes) ^ (step << 5));
#pragma unroll
        for (int m = 0; m < M; ++m) {
          multiply(score[m][2 * g], q_part[m][step], b[0], b[1], T());
          multiply(score[m][2 * g + 1], q_part[m][step], b[2], b[3], T());
        }
      }
    }
    if (!whole) {
#pragma unroll
      for (int j = 0; j < kStep / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const bool beyond = j * 8 + pair + e >= left;
#pragma unroll
          for (int m = 0; m < M; ++m) {
            score[m][j][e] = beyond ? -INFINITY : score[m][j][e];
            score[m][j][2 + e] = beyond ? -INFINITY : score[m][j][2 + e];
          }
        }
      }
    }
    // What is taken away from the scores of a row need not be their maximum, only near to it.
    float now[M][2];
    bool grows = false;
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        now[m][h] = fmaxf(score[m][0][2 * h], score[m][0][2 * h + 1]);
#pragma unroll
        for (int j = 1; j < kStep / 8; ++j)
          now[m][h] = fmaxf(now[m][h], fmaxf(score[m][j][2 * h], score[m][j][2 * h + 1]));
        grows = grows || (now[m][h] - most[m][h]) * a.scale > kMostGrowth;
      }
    }
    if (__any_sync(0xffffffffu, grows)) {
#pragma unroll
      for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          now[m][h] = fmaxf(now[m][h], most[m][h]);
          now[m][h] = fmaxf(now[m][h], __shfl_xor_sync(0xffffffffu, now[m][h], 1));
          now[m][h] = fmaxf(now[m][h], __shfl_xor_sync(0xffffffffu, now[m][h], 2));
          const float shift = now[m][h] == -INFINITY ? 0.0f : now[m][h] * a.scale;
          const float factor = power_of_two(fmaf(most[m][h], a.scale, -shift));
          most[m][h] = now[m][h];
          sum[m][h] *= factor;
#pragma unroll
          for (int j = 0; j < D / 8; ++j) {
            out[m][j][2 * h] *= factor;
            out[m][j][2 * h + 1] *= factor;
          }
        }
      }
    }
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        // The scale, which is above 0, comes with the exponentials.
        const float shift = most[m][h] == -INFINITY ? 0.0f : most[m][h] * a.scale;
#pragma unroll
        for (int j = 0; j < kStep / 8; ++j) {
#pragma unroll
          for (int e = 2 * h; e < 2 * h + 2; ++e) {
            score[m][j][e] = power_of_two(fmaf(score[m][j][e], a.scale, -shift));
            sum[m][h] += score[m][j][e];
          }
        }
      }
    }
#pragma unroll
    for (int g = 0; g < kStep / 16; ++g) {
      if (!whole && g * 16 >= left) continue;
      uint32_t weights[M][4];
#pragma unroll
      for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          weights[m][e] =
              floats_to_pair(score[m][2 * g + e / 2][e % 2 * 2], score[m][2 * g + e / 2][e % 2 * 2 + 1], T());
      }
#pragma unroll
      for (int j = 0; j < D / 16; ++j) {
        uint32_t b[4];
        load_matrices_transposed(b, (at + v_lane + g * 16 * kLineBytes) ^ (j << 5));
#pragma unroll
        for (int m = 0; m < M; ++m) {
          multiply(out[m][2 * j], weights[m], b[0], b[1], T());
          multiply(out[m][2 * j + 1], weights[m], b[2], b[3], T());
        }
      }
    }
  };
#pragma unroll 1
  for (int key = 0; key < a.keys; key += kStep) {
    if (key % kTile == 0) {
      wait_copies<kStages - 2>();
      __syncthreads();
      const int next = key / kTile + kStages - 1;
      if (next * kTile < a.keys) read_tile(next);
      commit_copies();
    }
    if (!active) continue;
    const int left = a.keys - key;
    const uint32_t at = ring + key % kRing * kLineBytes;
    if (left >= kStep) {
      add_keys(at, kStep, std::true_type());
    } else {
      add_keys(at, left, std::false_type());
    }
  }
  if (!active) return;
  // Through shared memory, so that whole lines are written: where the tile before the last was, which all have read, or
  // where none has been.
  const int slot = ((a.keys + kTile - 1) / kTile + kStages - 2) % kStages, own = warp * M * 16;
  char* const lines = memory + own / kTile * kValues + (slot * kTile + own % kTile) * kLineBytes;
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float total = sum[m][h];
      total += __shfl_xor_sync(0xffffffffu, total, 1);
      total += __shfl_xor_sync(0xffffffffu, total, 2);
      const float factor = row_factor(a, total);
      const int row = m * 16 + h * 8 + quad;
#pragma unroll
      for (int j = 0; j < D / 8; ++j)
        *reinterpret_cast<uint32_t*>(lines + row * kLineBytes + ((j ^ (row & 7)) << 4) + pair * 2) =
            floats_to_pair(scaled(out[m][j][2 * h], factor), scaled(out[m][j][2 * h + 1], factor), T());
    }
  }
  __syncwarp();
  int block_again = block_index();
  auto* const y = static_cast<T*>(a.out) + ItemPlace(a, a.by_blocks.split(&block_again)).out;
  const int first_row = block_again * kRows + own;
#pragma unroll
  for (int i = lane; i < M * 16 * kChunks; i += 32) {
    const int row = i / kChunks, chunk = i % kChunks;
    if (first_row + row >= a.all_rows) continue;
    const RowOfItem place(a, first_row + row);
    *reinterpret_cast<uint4*>(y + place.head * a.out_group + place.row * a.out_place.row + chunk * 8) =
        *reinterpret_cast<const uint4*>(lines + row * kLineBytes + ((chunk ^ (row & 7)) << 4));
  }
#endif
}

template <typename T, int D, int warps, int M, int kStep, int blocks>
cudaError_t run(const AttentionPlan& plan, const AttentionArguments& a, const Target& target) {
  const auto kernel = attention_wide_kernel<T, D, warps, M, kStep, blocks>;
  constexpr int bytes = kRingBytes<D>;
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaSuccess) return error;
  return launch(target, kernel, dim3(static_cast<unsigned>(plan.items * plan.blocks)), warps * 32, bytes, 1, a);
}

template <typename T>
cudaError_t run(const AttentionPlan& plan, const AttentionArguments& a, const Target& target) {
  switch (plan.block_rows) {
    case 112:
      return run<T, 64, 7, 1, 16, 3>(plan, a, target);
    case 128:
      return run<T, 64, 4, 2, 32, 3>(plan, a, target);
    case 64:
      return run<T, 64, 4, 1, 64, 3>(plan, a, target);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace

cudaError_t launch_attention_wide(const AttentionPlan& plan, const AttentionArguments& a, DType dtype,
                                  const Target& target) {
  return dtype == DType::kF16 ? run<half>(plan, a, target) : run<bfloat16>(plan, a, target);
}

}  // namespace minnow::cuda
