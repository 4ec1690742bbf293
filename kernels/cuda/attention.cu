// Attention: which kernel, for how many blocks, and what joins the sums of keys that were split.
#include "kernels/cuda/attention.h"

#include <algorithm>
#include <iterator>

#include "kernels/cuda/attention_score.cuh"

namespace minnow::cuda {
namespace {

int ceil_div(int v, int by) { return (v + by - 1) / by; }

constexpr int kJoinThreads = 256, kJoinWarps = kJoinThreads / 32;
constexpr int kMostSplits = 512;

// A block makes a row: the sums of its splits, each scaled to the largest maximum. A warp takes every 8th split.
template <typename T>
__global__ void __launch_bounds__(kJoinThreads) join_kernel(const __grid_constant__ AttentionArguments a) {
  __shared__ float factors[kMostSplits], sums[kJoinWarps], columns[kJoinWarps][256];
  allow_next();
  const int thread = static_cast<int>(threadIdx.x), lane = thread & 31, warp = thread >> 5;
  const int item_index = static_cast<int>(blockIdx.y), row = static_cast<int>(blockIdx.x);
  const size_t line = static_cast<size_t>(a.width) + 2, step = line * a.all_rows;
  const float* from = a.partial + static_cast<size_t>(item_index) * a.splits * step + row * line;
  const ItemPlace item(a, item_index);
  const RowOfItem place(a, row);
  wait_previous();
  float most = -INFINITY, sum = 0.0f;
  for (int s = lane; s < a.splits; s += 32) most = fmaxf(most, from[s * step + a.width]);
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, o));
  const float shift = most == -INFINITY ? 0.0f : most;
  for (int s = thread; s < a.splits; s += kJoinThreads) {
    factors[s] = exp2f(from[s * step + a.width] - shift);
    sum += factors[s] * from[s * step + a.width + 1];
  }
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (lane == 0) sums[warp] = sum;
  __syncthreads();
  float total[8] = {};
#pragma unroll 4
  for (int s = warp; s < a.splits; s += kJoinWarps) {
#pragma unroll
    for (int c = 0; c < 8; ++c)
      if (c * 32 + lane < a.width) total[c] = fmaf(factors[s], from[s * step + c * 32 + lane], total[c]);
  }
#pragma unroll
  for (int c = 0; c < 8; ++c) columns[warp][c * 32 + lane] = total[c];
  __syncthreads();
  float all = 0.0f, value = 0.0f;
#pragma unroll
  for (int w = 0; w < kJoinWarps; ++w) all += sums[w];
  if (thread >= a.width) return;
#pragma unroll
  for (int w = 0; w < kJoinWarps; ++w) value += columns[w][thread];
  T* const to = static_cast<T*>(a.out) + item.out + place.head * a.out_group + place.row * a.out_place.row;
  to[thread * a.out_place.column] = from_float<T>(scaled(value, row_factor(a, all)));
}

// The number of heads that share keys and values, in the last dimension of the batch.
int group_of(const Attention& p) {
  if (p.batch_rank == 0) return 1;
  const int last = p.batch_rank - 1;
  return p.k_place.batch[last] == 0 && p.v_place.batch[last] == 0 ? p.batch[last] : 1;
}

bool is_even(const void* data, const AttentionPlace& place, int rank) {
  bool even = reinterpret_cast<uintptr_t>(data) % 16 == 0 && place.column == 1 && place.row % 8 == 0;
  for (int d = 0; d < rank; ++d) even = even && place.batch[d] % 8 == 0;
  return even;
}

bool on_tensor_cores(const Attention& p, const Target& target) {
  return p.dtype != DType::kF32 && target.capability >= 80 && p.depth % 8 == 0 && p.width % 8 == 0 &&
         is_even(p.q, p.q_place, p.batch_rank) && is_even(p.k, p.k_place, p.batch_rank) &&
         is_even(p.v, p.v_place, p.batch_rank) && is_even(p.out, p.out_place, p.batch_rank);
}

// The rows of a block in the ways that attention_wide.cu computes, measured on Hopper only.
constexpr int kWideRows[] = {112, 128, 64};

bool fits_wide(const Attention& p, const Target& target) {
  return on_tensor_cores(p, target) && target.capability == 90 && p.depth == 64 && p.width == 64 && p.masks == 0 &&
         p.causal < 0 && p.rows >= 64 && p.scale > 0.0f;
}

int64_t items_of(const Attention& p) {
  int64_t items = 1;
  for (int d = 0; d < p.batch_rank; ++d) items *= p.batch[d];
  return items / group_of(p);
}

AttentionArguments arguments(const Attention& p, const AttentionPlan& plan) {
  AttentionArguments a{};
  a.q = p.q;
  a.k = p.k;
  a.v = p.v;
  a.out = p.out;
  a.partial = static_cast<float*>(p.workspace);
  a.batch_rank = p.batch_rank;
  a.q_place = p.q_place;
  a.k_place = p.k_place;
  a.v_place = p.v_place;
  a.out_place = p.out_place;
  a.masks = p.masks;
  for (int m = 0; m < p.masks; ++m) a.mask[m] = p.mask[m];
  if (plan.group > 1) {
    const int last = --a.batch_rank;
    a.q_group = p.q_place.batch[last];
    a.out_group = p.out_place.batch[last];
    for (int m = 0; m < p.masks; ++m) a.mask_group[m] = p.mask[m].place.batch[last];
  }
  for (int d = 0; d < a.batch_rank; ++d) a.batch[d] = Divisor(p.batch[d]);
  a.rows = p.rows;
  a.all_rows = p.rows * plan.group;
  a.keys = p.keys;
  a.depth = p.depth;
  a.width = p.width;
  a.by_rows = Divisor(p.rows);
  a.by_blocks = Divisor(plan.blocks);
  constexpr float kLargest = 3.402823466e38f;
  const auto to_log2 = [](float v) {
    const float scaled = v * kLog2E;
    return scaled < -kLargest && v >= -kLargest ? -kLargest : scaled;
  };
  a.scale = p.scale * kLog2E;
  a.mask_scale = p.mask_scale;
  a.fill = to_log2(p.fill);
  a.keep = p.keep;
  a.causal = p.causal;
  a.zero_rows = p.zero_rows;
  a.splits = plan.splits;
  a.split_keys = plan.split_keys;
  return a;
}

}  // namespace

AttentionPlan plan_attention(const Attention& p, const Target& target) {
  AttentionPlan plan{};
  const int size = std::max(p.depth, p.width);
  plan.size = size <= 64 ? 64 : size <= 128 ? 128 : 256;
  plan.group = group_of(p);
  plan.items = static_cast<int>(items_of(p));
  const int rows = p.rows * plan.group;
  if (p.scheme > 0 && p.scheme < attention_schemes(p, target)) {
    plan.scheme = AttentionScheme::kWide;
    plan.block_rows = kWideRows[p.scheme - 1];
    plan.blocks = ceil_div(rows, plan.block_rows);
    plan.splits = 1;
    plan.split_keys = p.keys;
    return plan;
  }
  // A multiprocessor holds two blocks or more.
  const int64_t full = target.multiprocessors;
  if (!on_tensor_cores(p, target)) {
    plan.scheme = AttentionScheme::kFma;
    plan.block_rows = 32;
  } else if (rows > 16 && plan.items * static_cast<int64_t>(ceil_div(rows, 64)) >= full) {
    plan.scheme = AttentionScheme::kTensorRows;
    plan.block_rows = 64;
  } else {
    plan.scheme = AttentionScheme::kTensorKeys;
    plan.block_rows = 16;
  }
  plan.blocks = ceil_div(rows, plan.block_rows);
  const int tile = attention_tile_keys(plan.scheme, plan.size), tiles = std::max(1, ceil_div(p.keys, tile));
  const int64_t blocks = static_cast<int64_t>(plan.items) * plan.blocks;
  // As many blocks as run at once, and two tiles for each at least: joining costs a kernel more.
  const int64_t resident = plan.size == 256 && plan.scheme != AttentionScheme::kFma ? full : 2 * full;
  int splits = blocks == 0 ? 1 : static_cast<int>(std::min<int64_t>({resident / blocks, tiles / 2, kMostSplits}));
  if (splits < 2 || tiles < (plan.scheme == AttentionScheme::kFma ? 4 : 8)) splits = 1;
  plan.split_keys = ceil_div(tiles, splits) * tile;
  plan.splits = std::max(1, ceil_div(p.keys, plan.split_keys));
  return plan;
}

bool attention_fits(const Attention& p, const Target& target) {
  const AttentionPlan plan = plan_attention(p, target);
  const bool type = p.dtype == DType::kF16 || p.dtype == DType::kBF16 || p.dtype == DType::kF32;
  const int64_t group = group_of(p);
  return type && p.masks <= kMostMasks && p.depth > 0 && p.width > 0 && std::max(p.depth, p.width) <= 256 &&
         p.batch_rank <= kMostAttentionBatch && items_of(p) * plan.blocks < int64_t{1} << 31 &&
         p.rows * group < int64_t{1} << 30 && p.keys < 1 << 30 &&
         (target.capability >= 80 || plan.size <= 128);  // else there is not enough shared memory
}

int64_t attention_workspace(const Attention& p, const Target& target) {
  const AttentionPlan plan = plan_attention(p, target);
  if (plan.splits == 1) return 0;
  return static_cast<int64_t>(plan.items) * plan.splits * p.rows * plan.group * (p.width + 2) * 4;
}

int attention_schemes(const Attention& p, const Target& target) {
  return fits_wide(p, target) ? 1 + static_cast<int>(std::size(kWideRows)) : 1;
}

const char* attention_scheme(const Attention& p, const Target& target) {
  const AttentionPlan plan = plan_attention(p, target);
  if (plan.scheme == AttentionScheme::kWide)
    return plan.block_rows == 112 ? "wide_112" : plan.block_rows == 128 ? "wide_128" : "wide_64";
  if (plan.scheme == AttentionScheme::kFma) return plan.splits > 1 ? "fma_split" : "fma";
  if (plan.splits > 1) return "tensor_split";
  return plan.scheme == AttentionScheme::kTensorRows ? "tensor_rows" : "tensor_keys";
}

cudaError_t attention(const Attention& p, const Target& target) {
  if (!attention_fits(p, target)) return cudaErrorInvalidValue;
  const AttentionPlan plan = plan_attention(p, target);
  if (plan.items == 0 || p.rows == 0) return cudaSuccess;
  const AttentionArguments a = arguments(p, plan);
  cudaError_t error = cudaSuccess;
  if (plan.scheme == AttentionScheme::kFma) {
    error = launch_attention_fma(plan, a, p.dtype, target);
  } else if (plan.scheme == AttentionScheme::kWide) {
    error = launch_attention_wide(plan, a, p.dtype, target);
  } else {
    error = p.dtype == DType::kF16 ? launch_attention_f16(plan, a, target) : launch_attention_bf16(plan, a, target);
  }
  if (error != cudaSuccess || plan.splits == 1) return error;
  const dim3 grid(static_cast<unsigned>(a.all_rows), static_cast<unsigned>(plan.items));
  switch (p.dtype) {
    case DType::kF16:
      return launch(target, join_kernel<half>, grid, kJoinThreads, 0, 1, a);
    case DType::kBF16:
      return launch(target, join_kernel<bfloat16>, grid, kJoinThreads, 0, 1, a);
    default:
      return launch(target, join_kernel<float>, grid, kJoinThreads, 0, 1, a);
  }
}

}  // namespace minnow::cuda
