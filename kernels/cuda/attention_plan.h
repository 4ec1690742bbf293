// How an attention is computed: what its kernels are given, and how many blocks of them there are.
#pragma once

#include "kernels/cuda/attention.h"
#include "kernels/cuda/divide.h"

namespace minnow::cuda {

// The last dimension of the batch over which keys and values are repeated becomes part of the rows: queries of `group`
// heads, the first ones all of the first head.
struct AttentionArguments {
  const void* q;
  const void* k;
  const void* v;
  void* out;
  float* partial;  // of splits: [items, splits, all_rows, width + 2]: sums, then the maximum and the sum of the weights
  int batch_rank;
  Divisor batch[kMostAttentionBatch];  // of an item; without the group
  AttentionPlace q_place, k_place, v_place, out_place;
  int64_t q_group, out_group;
  int rows, all_rows, keys, depth, width;  // all_rows: of all heads of a group
  Divisor by_rows, by_blocks;              // rows of a head, and blocks of rows
  int masks;
  AttentionMask mask[kMostMasks];
  int64_t mask_group[kMostMasks];
  float scale, mask_scale, fill;  // times log2 e
  bool keep;
  int causal;
  Attention::ZeroRows zero_rows;
  int splits, split_keys;  // keys of each split, a multiple of a tile's
};

enum class AttentionScheme : uint8_t { kTensorRows, kTensorKeys, kWide, kFma };

struct AttentionPlan {
  AttentionScheme scheme;
  int size;  // depth and width rounded up to 64, 128 or 256
  int items, group;
  int block_rows, blocks;  // rows of a block, and blocks of an item
  int splits, split_keys;
};

AttentionPlan plan_attention(const Attention& problem, const Target& target);

cudaError_t launch_attention_f16(const AttentionPlan& plan, const AttentionArguments& a, const Target& target);
cudaError_t launch_attention_bf16(const AttentionPlan& plan, const AttentionArguments& a, const Target& target);
// `dtype`: of the operands.
cudaError_t launch_attention_wide(const AttentionPlan& plan, const AttentionArguments& a, DType dtype,
                                  const Target& target);
cudaError_t launch_attention_fma(const AttentionPlan& plan, const AttentionArguments& a, DType dtype,
                                 const Target& target);

// Keys of a tile. With `kTensorKeys` each of 4 warps takes a quarter of it.
constexpr int attention_tile_keys(AttentionScheme scheme, int size) {
  if (scheme == AttentionScheme::kFma) return 32;
  if (scheme == AttentionScheme::kTensorKeys) return size == 64 ? 128 : 64;
  return size == 256 ? 32 : 64;
}

}  // namespace minnow::cuda
