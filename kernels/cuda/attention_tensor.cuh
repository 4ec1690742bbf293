// Attention on tensor cores, in f16 or bf16 with sums in f32. A block has 4 warps. Either each has 16 rows of its own,
// or all share 16 rows and each takes a quarter of the keys, for few rows. Scores stay in registers, tile after tile of
// keys; the maximum of a row so far is taken away, and what was summed before is scaled when it grows. The keys may be
// split among blocks, whose sums attention_combine.cu joins.
#pragma once

#include "kernels/cuda/attention_score.cuh"
#include "kernels/cuda/tensor_core.cuh"

namespace minnow::cuda {

template <int D, bool by_keys>
struct AttentionShape {
  static constexpr int kThreads = 128;
  static constexpr int kRows = by_keys ? 16 : 64;
  static constexpr int kTile =
      attention_tile_keys(by_keys ? AttentionScheme::kTensorKeys : AttentionScheme::kTensorRows, D);  // keys
  static constexpr int kWarpKeys = by_keys ? kTile / 4 : kTile;
  static constexpr int kStages = by_keys ? 3 : 2;
  static constexpr int kLine = D + 8;  // 16 bytes more: the rows of 8x8 matrices lie in different banks
  static constexpr int kQElements = kRows * kLine, kTileElements = kTile * kLine;
  static constexpr int kOutLine = D + 4;
  static constexpr int kPipeBytes = (kQElements + 2 * kStages * kTileElements) * 2;
  static constexpr int kJoinBytes = by_keys ? 4 * 16 * (kOutLine + 2) * 4 : 0;
  static constexpr int kBytes = kPipeBytes > kJoinBytes ? kPipeBytes : kJoinBytes;
};

template <typename T, int D, bool by_keys, bool masked>
__global__ void __launch_bounds__(128, D == 256 ? 1 : 2)
    attention_tensor_kernel(const __grid_constant__ AttentionArguments a) {
#if __CUDA_ARCH__ >= 800
  using Shape = AttentionShape<D, by_keys>;
  constexpr int kLine = Shape::kLine, kTile = Shape::kTile, kStages = Shape::kStages, kWarpKeys = Shape::kWarpKeys;
  constexpr int kParts = kWarpKeys / 8;
  constexpr bool held = D <= 128;  // the queries stay in registers
  extern __shared__ __align__(16) char memory[];
  T* const q_tile = reinterpret_cast<T*>(memory);
  const uint32_t q_at = shared_address(q_tile), k_at = q_at + Shape::kQElements * 2,
                 v_at = k_at + kStages * Shape::kTileElements * 2;
  allow_next();
  const int thread = static_cast<int>(threadIdx.x), lane = thread & 31, warp = thread >> 5;
  int block = static_cast<int>(blockIdx.x);
  const int item_index = a.by_blocks.split(&block);
  const ItemPlace item(a, item_index);
  const int first = block * Shape::kRows, end = min(first + Shape::kRows, a.all_rows);
  const int begin_key = static_cast<int>(blockIdx.y) * a.split_keys;
  const int end_key = min(keys_seen(a, first, end), begin_key + a.split_keys);
  const int tiles = end_key > begin_key ? (end_key - begin_key + kTile - 1) / kTile : 0;

  const auto* q = static_cast<const T*>(a.q) + item.q;
  const auto* k = static_cast<const T*>(a.k) + item.k;
  const auto* v = static_cast<const T*>(a.v) + item.v;
  // A thread reads the same column of every kStep-th row.
  constexpr int kStep = Shape::kThreads / (D / 8);
  const int read_row = thread / (D / 8), read_column = thread % (D / 8) * 8;
  const uint32_t read_at = (read_row * kLine + read_column) * 2;
  const T* const k_from = k + (begin_key + read_row) * a.k_place.row + read_column;
  const T* const v_from = v + (begin_key + read_row) * a.v_place.row + read_column;
  // Columns that the loops over steps read are there, or zeros.
  const bool k_reads = read_column < (a.depth + 15) / 16 * 16, v_reads = read_column < (a.width + 15) / 16 * 16;
  const bool k_there = read_column < a.depth, v_there = read_column < a.width;
  const auto read_tile = [&](int tile) {
    const uint32_t slot = (tile % kStages) * Shape::kTileElements * 2 + read_at;
    const int row = tile * kTile, left = end_key - begin_key - row - read_row;
    const T *k_row = k_from + row * a.k_place.row, *v_row = v_from + row * a.v_place.row;
#pragma unroll
    for (int i = 0; i < kTile; i += kStep) {
      const bool there = k_there && i < left;
      if (k_reads) copy_async(k_at + slot + i * kLine * 2, there ? k_row : k, there);
      k_row += kStep * a.k_place.row;
    }
#pragma unroll
    for (int i = 0; i < kTile; i += kStep) {
      const bool there = v_there && i < left;
      if (v_reads) copy_async(v_at + slot + i * kLine * 2, there ? v_row : v, there);
      v_row += kStep * a.v_place.row;
    }
  };

  wait_previous();
#pragma unroll
  for (int i = thread; i < Shape::kRows * (D / 8); i += Shape::kThreads) {
    const int row = i / (D / 8), column = i % (D / 8) * 8;
    const bool there = first + row < end && column < a.depth;
    const RowOfItem place(a, there ? first + row : 0);
    copy_async(q_at + (row * kLine + column) * 2,
               q + (there ? place.head * a.q_group + place.row * a.q_place.row + column : 0), there);
  }
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < tiles) read_tile(s);
    commit_copies();
  }

  const int warp_row = by_keys ? 0 : warp * 16, warp_key = by_keys ? warp * kWarpKeys : 0;
  const int quad = lane >> 2, pair = (lane & 3) * 2;  // where the numbers of a thread lie in a 16x8 matrix
  float out[D / 8][4];
#pragma unroll
  for (int j = 0; j < D / 8; ++j) out[j][0] = out[j][1] = out[j][2] = out[j][3] = 0.0f;
  float most[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f};
  uint32_t q_part[held ? D / 16 : 1][4];
  // The two rows of this thread.
  const int rows[2] = {first + warp_row + quad, first + warp_row + quad + 8};
  const RowOfItem places[2] = {RowOfItem(a, min(rows[0], a.all_rows - 1)), RowOfItem(a, min(rows[1], a.all_rows - 1))};
  // Keys before this one are seen by all rows of the warp.
  const RowOfItem warp_first(a, min(first + warp_row, a.all_rows - 1)),
      warp_last(a, min(first + warp_row + 15, a.all_rows - 1));
  const int first_seen = (warp_first.head == warp_last.head ? warp_first.row : 0) + a.causal + 1;

  for (int tile = 0; tile < tiles; ++tile) {
    wait_copies<kStages - 2>();
    __syncthreads();
    if (tile + kStages - 1 < tiles) read_tile(tile + kStages - 1);
    commit_copies();
    const auto load_q = [&](uint32_t(&to)[4], int step) {
      load_matrices(to, q_at + ((warp_row + (lane & 15)) * kLine + step * 16 + (lane >> 4) * 8) * 2);
    };
    if (held && tile == 0) {
#pragma unroll
      for (int step = 0; step < D / 16; ++step) load_q(q_part[held ? step : 0], step);
    }
    float score[kParts][4];
#pragma unroll
    for (int j = 0; j < kParts; ++j) score[j][0] = score[j][1] = score[j][2] = score[j][3] = 0.0f;
    const uint32_t keys_at = k_at + ((tile % kStages) * Shape::kTileElements + warp_key * kLine) * 2;
#pragma unroll
    for (int step = 0; step < D / 16; ++step) {
      if (step * 16 >= a.depth) break;
      if (!held) load_q(q_part[0], step);
#pragma unroll
      for (int j = 0; j < kParts / 2; ++j) {
        uint32_t b[4];
        load_matrices(
            b, keys_at + ((j * 16 + (lane & 7) + (lane >> 4) * 8) * kLine + step * 16 + ((lane >> 3) & 1) * 8) * 2);
        multiply(score[2 * j], q_part[held ? step : 0], b[0], b[1], T());
        multiply(score[2 * j + 1], q_part[held ? step : 0], b[2], b[3], T());
      }
    }
    // Masks, and keys that are not there. Without masks the scale, which is above 0, comes with the exponentials.
    const int key0 = begin_key + tile * kTile + warp_key;
    float now[2] = {most[0], most[1]};
    if (masked) {
#pragma unroll
      for (int j = 0; j < kParts; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int key = key0 + j * 8 + pair + (e & 1);
          score[j][e] *= a.scale;
          if (key < end_key) score[j][e] = masked_score<T>(a, item, places[e >> 1], key, score[j][e]);
        }
      }
    }
    if (key0 + kWarpKeys > end_key || (a.causal >= 0 && key0 + kWarpKeys > first_seen)) {
      const int seen[2] = {a.causal < 0 ? end_key : min(end_key, places[0].row + a.causal + 1),
                           a.causal < 0 ? end_key : min(end_key, places[1].row + a.causal + 1)};
#pragma unroll
      for (int j = 0; j < kParts; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (key0 + j * 8 + pair + (e & 1) >= seen[e >> 1]) score[j][e] = -INFINITY;
      }
    }
#pragma unroll
    for (int j = 0; j < kParts; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) now[e >> 1] = fmaxf(now[e >> 1], score[j][e]);
    }
    const float scale = masked ? 1.0f : a.scale;
    float shift[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      now[h] = fmaxf(now[h], __shfl_xor_sync(0xffffffffu, now[h], 1));
      now[h] = fmaxf(now[h], __shfl_xor_sync(0xffffffffu, now[h], 2));
      shift[h] = now[h] == -INFINITY ? 0.0f : now[h] * scale;
      const float factor = power_of_two(fmaf(most[h], scale, -shift[h]));
      most[h] = now[h];
      sum[h] *= factor;
#pragma unroll
      for (int j = 0; j < D / 8; ++j) {
        out[j][2 * h] *= factor;
        out[j][2 * h + 1] *= factor;
      }
    }
#pragma unroll
    for (int j = 0; j < kParts; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        score[j][e] = power_of_two(fmaf(score[j][e], scale, -shift[e >> 1]));
        sum[e >> 1] += score[j][e];
      }
    }
    const uint32_t values_at = v_at + ((tile % kStages) * Shape::kTileElements + warp_key * kLine) * 2;
#pragma unroll
    for (int step = 0; step < kParts / 2; ++step) {
      const uint32_t weights[4] = {floats_to_pair(score[2 * step][0], score[2 * step][1], T()),
                                   floats_to_pair(score[2 * step][2], score[2 * step][3], T()),
                                   floats_to_pair(score[2 * step + 1][0], score[2 * step + 1][1], T()),
                                   floats_to_pair(score[2 * step + 1][2], score[2 * step + 1][3], T())};
#pragma unroll
      for (int j = 0; j < D / 16; ++j) {
        if (j * 16 >= a.width) break;
        uint32_t b[4];
        load_matrices_transposed(b, values_at + ((step * 16 + (lane & 15)) * kLine + j * 16 + (lane >> 4) * 8) * 2);
        multiply(out[2 * j], weights, b[0], b[1], T());
        multiply(out[2 * j + 1], weights, b[2], b[3], T());
      }
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 1);
    sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 2);
    if (!masked) most[h] *= a.scale;
  }
  wait_copies<0>();
  __syncthreads();

  // From here on the tiles are no longer needed. A row's sums, in f32, and their maximum and sum of weights.
  auto* const join = reinterpret_cast<float*>(memory);
  auto* y = static_cast<T*>(a.out) + item.out;
  float* const partial_out =
      a.partial + (static_cast<size_t>(item_index) * a.splits + blockIdx.y) * a.all_rows * (a.width + 2);
  const auto row_of_out = [&](int row) {
    const RowOfItem place(a, row);
    return y + place.head * a.out_group + place.row * a.out_place.row;
  };
  if constexpr (by_keys) {
    constexpr int kOutLine = Shape::kOutLine;
    float* const moments = join + 4 * 16 * kOutLine;  // [4 warps][16 rows][2]
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
#pragma unroll
      for (int h = 0; h < 2; ++h)
        *reinterpret_cast<float2*>(join + (warp * 16 + quad + 8 * h) * kOutLine + j * 8 + pair) =
            make_float2(out[j][2 * h], out[j][2 * h + 1]);
    }
    if (pair == 0) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        moments[(warp * 16 + quad + 8 * h) * 2] = most[h];
        moments[(warp * 16 + quad + 8 * h) * 2 + 1] = sum[h];
      }
    }
    __syncthreads();
    // 8 threads make a row.
    const int row = thread >> 3;
    if (first + row >= end) return;
    float all = -INFINITY, total = 0.0f, factors[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) all = fmaxf(all, moments[(w * 16 + row) * 2]);
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      factors[w] = power_of_two(moments[(w * 16 + row) * 2] - (all == -INFINITY ? 0.0f : all));
      total += factors[w] * moments[(w * 16 + row) * 2 + 1];
    }
    const float factor = row_factor(a, total);
    float* const split = partial_out + static_cast<size_t>(first + row) * (a.width + 2);
    if (a.splits > 1 && (thread & 7) == 0) {
      split[a.width] = all;
      split[a.width + 1] = total;
    }
    T* const to = row_of_out(first + row);
    for (int column = (thread & 7) * 8; column < a.width; column += 64) {
      float values[8] = {};
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const float* from = join + (w * 16 + row) * kOutLine + column;
#pragma unroll
        for (int e = 0; e < 8; ++e) values[e] = fmaf(factors[w], from[e], values[e]);
      }
      if (a.splits > 1) {
#pragma unroll
        for (int e = 0; e < 8; ++e) split[column + e] = values[e];
      } else {
#pragma unroll
        for (int e = 0; e < 8; ++e) values[e] = scaled(values[e], factor);
        store_eight(to + column, values);
      }
    }
  } else if (a.splits > 1) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (rows[h] >= end) continue;
      float* const split = partial_out + static_cast<size_t>(rows[h]) * (a.width + 2);
#pragma unroll
      for (int j = 0; j < D / 8; ++j) {
        if (j * 8 >= a.width) break;
        *reinterpret_cast<float2*>(split + j * 8 + pair) = make_float2(out[j][2 * h], out[j][2 * h + 1]);
      }
      if (pair == 0) *reinterpret_cast<float2*>(split + a.width) = make_float2(most[h], sum[h]);
    }
  } else {
    // Through shared memory, where the queries of this warp were, so that whole lines are written.
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float factor = row_factor(a, sum[h]);
#pragma unroll
      for (int j = 0; j < D / 8; ++j)
        *reinterpret_cast<uint32_t*>(q_tile + (warp_row + quad + 8 * h) * kLine + j * 8 + pair) =
            floats_to_pair(scaled(out[j][2 * h], factor), scaled(out[j][2 * h + 1], factor), T());
    }
    __syncwarp();
    for (int i = lane; i < 16 * (D / 8); i += 32) {
      const int row = i / (D / 8), column = i % (D / 8) * 8;
      if (first + warp_row + row >= end || column >= a.width) continue;
      *reinterpret_cast<uint4*>(row_of_out(first + warp_row + row) + column) =
          *reinterpret_cast<const uint4*>(q_tile + (warp_row + row) * kLine + column);
    }
  }
#endif
}

template <typename T, int D, bool by_keys>
cudaError_t launch_attention_tensor(const AttentionPlan& plan, const AttentionArguments& a, const Target& target) {
  const auto kernel =
      a.masks > 0 ? attention_tensor_kernel<T, D, by_keys, true> : attention_tensor_kernel<T, D, by_keys, false>;
  constexpr int bytes = AttentionShape<D, by_keys>::kBytes;
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaSuccess) return error;
  const dim3 grid(static_cast<unsigned>(plan.items * plan.blocks), static_cast<unsigned>(plan.splits));
  return launch(target, kernel, grid, AttentionShape<D, by_keys>::kThreads, bytes, 1, a);
}

template <typename T>
cudaError_t launch_attention(const AttentionPlan& plan, const AttentionArguments& a, const Target& target) {
  const bool by_keys = plan.scheme == AttentionScheme::kTensorKeys;
  switch (plan.size) {
    case 64:
      return by_keys ? launch_attention_tensor<T, 64, true>(plan, a, target)
                     : launch_attention_tensor<T, 64, false>(plan, a, target);
    case 128:
      return by_keys ? launch_attention_tensor<T, 128, true>(plan, a, target)
                     : launch_attention_tensor<T, 128, false>(plan, a, target);
    case 256:
      return by_keys ? launch_attention_tensor<T, 256, true>(plan, a, target)
                     : launch_attention_tensor<T, 256, false>(plan, a, target);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace minnow::cuda
