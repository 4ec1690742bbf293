// Attention in f32 arithmetic, for operands of any type and place: what the tensor cores do not take. A block makes 32
// rows; its 128 threads stand as 16 times 8, and each has 2 rows and every 8th key or column.
#include <type_traits>

#include "kernels/cuda/attention_score.cuh"

namespace minnow::cuda {
namespace {

constexpr int kThreads = 128, kRows = 32, kTile = attention_tile_keys(AttentionScheme::kFma, 0);
static_assert(kTile == 32, "4 keys for each of 8 threads");

template <int D>
constexpr int kBytes = (3 * 32 * (D + 4) + 32 * 33) * 4;

template <typename T, int D>
__global__ void __launch_bounds__(kThreads) fma_kernel(const __grid_constant__ AttentionArguments a) {
  constexpr int kLine = D + 4, kColumns = D / 32;  // groups of 4 columns of a thread
  extern __shared__ __align__(16) float memory[];
  float *const q_tile = memory, *const k_tile = q_tile + 32 * kLine, *const v_tile = k_tile + 32 * kLine;
  float* const weights = v_tile + 32 * kLine;  // [32][33]
  allow_next();
  const int thread = static_cast<int>(threadIdx.x), across = thread & 7, down = thread >> 3;
  int block = static_cast<int>(blockIdx.x);
  const int item_index = a.by_blocks.split(&block);
  const ItemPlace item(a, item_index);
  const int first = block * kRows, end = min(first + kRows, a.all_rows);
  const int begin_key = static_cast<int>(blockIdx.y) * a.split_keys;
  const int end_key = min(keys_seen(a, first, end), begin_key + a.split_keys);
  const auto* q = static_cast<const T*>(a.q) + item.q;
  const auto* k = static_cast<const T*>(a.k) + item.k;
  const auto* v = static_cast<const T*>(a.v) + item.v;
  wait_previous();
  for (int i = thread; i < kRows * D; i += kThreads) {
    const int row = i / D, column = i % D;
    const bool there = first + row < end && column < a.depth;
    const RowOfItem place(a, there ? first + row : 0);
    q_tile[row * kLine + column] =
        there ? to_float(q[place.head * a.q_group + place.row * a.q_place.row + column * a.q_place.column]) : 0.0f;
  }
  const int rows[2] = {first + down * 2, first + down * 2 + 1};
  const RowOfItem places[2] = {RowOfItem(a, min(rows[0], a.all_rows - 1)), RowOfItem(a, min(rows[1], a.all_rows - 1))};
  float out[2][kColumns * 4] = {}, most[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f};
  for (int key0 = begin_key; key0 < end_key; key0 += kTile) {
    __syncthreads();
    for (int i = thread; i < kTile * D; i += kThreads) {
      const int row = i / D, column = i % D;
      const bool there = key0 + row < end_key;
      k_tile[row * kLine + column] =
          there && column < a.depth ? to_float(k[(key0 + row) * a.k_place.row + column * a.k_place.column]) : 0.0f;
      v_tile[row * kLine + column] =
          there && column < a.width ? to_float(v[(key0 + row) * a.v_place.row + column * a.v_place.column]) : 0.0f;
    }
    __syncthreads();
    float score[2][4] = {};
#pragma unroll 4
    for (int d = 0; d < D; d += 4) {
      if (d >= a.depth) break;
      float4 own[2], other[4];
#pragma unroll
      for (int r = 0; r < 2; ++r) own[r] = *reinterpret_cast<const float4*>(q_tile + (down * 2 + r) * kLine + d);
#pragma unroll
      for (int j = 0; j < 4; ++j) other[j] = *reinterpret_cast<const float4*>(k_tile + (across + 8 * j) * kLine + d);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          score[r][j] = fmaf(own[r].x, other[j].x, score[r][j]);
          score[r][j] = fmaf(own[r].y, other[j].y, score[r][j]);
          score[r][j] = fmaf(own[r].z, other[j].z, score[r][j]);
          score[r][j] = fmaf(own[r].w, other[j].w, score[r][j]);
        }
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float now = most[r];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int key = key0 + across + 8 * j;
        float s = score[r][j] * a.scale;
        if (key < end_key && a.masks > 0) s = masked_score<T>(a, item, places[r], key, s);
        if (key >= end_key || (a.causal >= 0 && key > places[r].row + a.causal)) s = -INFINITY;
        score[r][j] = s;
        now = fmaxf(now, s);
      }
#pragma unroll
      for (int o = 1; o < 8; o <<= 1) now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, o));
      const float shift = now == -INFINITY ? 0.0f : now, factor = exp2f(most[r] - shift);
      most[r] = now;
      sum[r] *= factor;
#pragma unroll
      for (int c = 0; c < kColumns * 4; ++c) out[r][c] *= factor;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float weight = exp2f(score[r][j] - shift);
        sum[r] += weight;
        weights[(down * 2 + r) * 33 + across + 8 * j] = weight;
      }
    }
    __syncwarp();  // the 8 threads of a row are in one warp
    const int there = min(kTile, end_key - key0);
    for (int key = 0; key < there; ++key) {
      const float weight[2] = {weights[down * 2 * 33 + key], weights[(down * 2 + 1) * 33 + key]};
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const float4 value = *reinterpret_cast<const float4*>(v_tile + key * kLine + (across + 8 * c) * 4);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          out[r][4 * c] = fmaf(weight[r], value.x, out[r][4 * c]);
          out[r][4 * c + 1] = fmaf(weight[r], value.y, out[r][4 * c + 1]);
          out[r][4 * c + 2] = fmaf(weight[r], value.z, out[r][4 * c + 2]);
          out[r][4 * c + 3] = fmaf(weight[r], value.w, out[r][4 * c + 3]);
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
#pragma unroll
    for (int o = 1; o < 8; o <<= 1) sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], o);
    if (rows[r] >= end) continue;
    const float factor = row_factor(a, sum[r]);
    T* const to = static_cast<T*>(a.out) + item.out + places[r].head * a.out_group + places[r].row * a.out_place.row;
    float* const split =
        a.partial + ((static_cast<size_t>(item_index) * a.splits + blockIdx.y) * a.all_rows + rows[r]) * (a.width + 2);
#pragma unroll
    for (int c = 0; c < kColumns * 4; ++c) {
      const int column = (across + 8 * (c / 4)) * 4 + c % 4;
      if (column >= a.width) continue;
      if (a.splits > 1) {
        split[column] = out[r][c];
      } else {
        to[column * a.out_place.column] = from_float<T>(scaled(out[r][c], factor));
      }
    }
    if (a.splits > 1 && across == 0) {
      split[a.width] = most[r];
      split[a.width + 1] = sum[r];
    }
  }
}

template <typename T, int D>
cudaError_t run(const AttentionPlan& plan, const AttentionArguments& a, const Target& target) {
  const cudaError_t error =
      cudaFuncSetAttribute(fma_kernel<T, D>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes<D>);
  if (error != cudaSuccess) return error;
  const dim3 grid(static_cast<unsigned>(plan.items * plan.blocks), static_cast<unsigned>(plan.splits));
  return launch(target, fma_kernel<T, D>, grid, kThreads, kBytes<D>, 1, a);
}

template <typename T>
cudaError_t run(const AttentionPlan& plan, const AttentionArguments& a, const Target& target) {
  return plan.size == 64    ? run<T, 64>(plan, a, target)
         : plan.size == 128 ? run<T, 128>(plan, a, target)
                            : run<T, 256>(plan, a, target);
}

}  // namespace

cudaError_t launch_attention_fma(const AttentionPlan& plan, const AttentionArguments& a, DType dtype,
                                 const Target& target) {
  switch (dtype) {
    case DType::kF16:
      return run<half>(plan, a, target);
    case DType::kBF16:
      return run<bfloat16>(plan, a, target);
    default:
      return run<float>(plan, a, target);
  }
}

}  // namespace minnow::cuda
