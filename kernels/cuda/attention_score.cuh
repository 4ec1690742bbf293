// What the kernels of attention share: places of operands, masks, and the ends of rows.
#pragma once

#include <cfloat>

#include "kernels/cuda/attention_plan.h"
#include "kernels/cuda/eight.cuh"

namespace minnow::cuda {

constexpr float kLog2E = 1.44269504f;

// To about 2^-22 of it; NaN stays NaN.
__device__ __forceinline__ float power_of_two(float v) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(v));
  return power;
}

// Offsets of an item, a batch without the group, in elements.
struct ItemPlace {
  int64_t q = 0, k = 0, v = 0, out = 0, mask[kMostMasks] = {};

  __device__ __forceinline__ ItemPlace(const AttentionArguments& a, int item) {
#pragma unroll
    for (int d = kMostAttentionBatch - 1; d >= 0; --d) {
      if (d >= a.batch_rank) continue;
      int index = item;
      item = a.batch[d].split(&index);
      q += index * a.q_place.batch[d];
      k += index * a.k_place.batch[d];
      v += index * a.v_place.batch[d];
      out += index * a.out_place.batch[d];
#pragma unroll
      for (int m = 0; m < kMostMasks; ++m) mask[m] += index * a.mask[m].place.batch[d];
    }
  }
};

// A row of an item: of which head of the group, and which query of it.
struct RowOfItem {
  int head, row;
  __device__ __forceinline__ RowOfItem(const AttentionArguments& a, int index) {
    head = a.by_rows.split(&index);
    row = index;
  }
};

// A number times log2 e, which must not become infinite.
__device__ __forceinline__ float to_log2(float v) {
  const float scaled = v * kLog2E;
  return scaled < -FLT_MAX && v > -INFINITY ? -FLT_MAX : scaled;
}

// The score, in the logarithm to the base 2, after the masks.
template <typename T>
__device__ __forceinline__ float masked_score(const AttentionArguments& a, const ItemPlace& item, const RowOfItem& row,
                                              int key, float score) {
#pragma unroll
  for (int m = 0; m < kMostMasks; ++m) {
    if (m >= a.masks) break;
    const AttentionMask& mask = a.mask[m];
    const int64_t at = item.mask[m] + row.head * a.mask_group[m] + row.row * mask.place.row + key * mask.place.column;
    if (mask.dtype == DType::kBool) {
      score = (static_cast<const uint8_t*>(mask.data)[at] != 0) == a.keep ? score : a.fill;
    } else {
      const float number = mask.dtype == DType::kF32 ? static_cast<const float*>(mask.data)[at]
                                                     : to_float(static_cast<const T*>(mask.data)[at]);
      score += to_log2(number * a.mask_scale);
    }
  }
  return score;
}

// What sums of a row are multiplied by at the end; below 0: they become 0, whatever they are.
__device__ __forceinline__ float row_factor(const AttentionArguments& a, float sum) {
  const bool empty = sum == 0.0f, is_nan = sum != sum;
  const bool zero = a.zero_rows == Attention::ZeroRows::kEmpty ? empty
                    : a.zero_rows == Attention::ZeroRows::kNan ? empty || is_nan
                                                               : false;
  return zero ? -1.0f : 1.0f / sum;  // 0 * infinity, a row of nothing but -inf, is NaN
}
__device__ __forceinline__ float scaled(float v, float factor) { return factor < 0.0f ? 0.0f : v * factor; }

// Keys that some row of [first, end) sees.
__device__ __forceinline__ int keys_seen(const AttentionArguments& a, int first, int end) {
  if (a.causal < 0) return a.keys;
  const RowOfItem one(a, first), other(a, end - 1);
  const int last = one.head == other.head ? other.row : a.rows - 1;
  return min(a.keys, last + 1 + a.causal);
}

}  // namespace minnow::cuda
