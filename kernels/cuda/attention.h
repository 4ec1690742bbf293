// softmax(scale Q K^T + masks) V for many heads at once: FusedAttention (kernels/cpu/attention/fused.cpp says what its
// attributes mean), and what else attention needs.
#pragma once

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/cuda/launch.h"

namespace minnow::cuda {

constexpr int kMostAttentionBatch = 4;  // dimensions over which the product is repeated
constexpr int kMostMasks = 2;

// Where an operand lies: strides in elements.
struct AttentionPlace {
  int64_t row = 0, column = 0;
  int64_t batch[kMostAttentionBatch] = {};
};

struct AttentionMask {
  const void* data = nullptr;
  DType dtype = DType::kF32;  // kF32, the type of the operands, or kBool
  AttentionPlace place;       // its columns are keys
};

struct Attention {
  enum class ZeroRows : uint8_t { kNone, kEmpty, kNan };

  DType dtype = DType::kF16;  // of q, k, v and out: kF16, kBF16 or kF32
  int batch_rank = 0;
  int batch[kMostAttentionBatch] = {};
  int rows = 0, keys = 0;
  int depth = 0, width = 0;  // of q and k, of v; 256 at the most
  AttentionPlace q_place, k_place, v_place, out_place;
  int masks = 0;
  AttentionMask mask[kMostMasks];
  float scale = 1.0f, mask_scale = 1.0f;
  float fill = 0.0f;  // the score where a bool mask is not `keep`
  bool keep = true;
  int causal = -1;  // row i sees the first i + 1 + causal keys; -1: all
  ZeroRows zero_rows = ZeroRows::kNone;
  int scheme = 0;  // which of attention_schemes()

  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* out = nullptr;
  void* workspace = nullptr;  // of attention_workspace() bytes
};

// Whether there is a kernel for it; else `attention` gives cudaErrorInvalidValue.
bool attention_fits(const Attention& problem, const Target& target);
int64_t attention_workspace(const Attention& problem, const Target& target);
cudaError_t attention(const Attention& problem, const Target& target);
// How many ways there are; the first one is there for all sizes.
int attention_schemes(const Attention& problem, const Target& target);
// Which kernel it is: "tensor_rows", "tensor_keys", "tensor_split", "fma", "fma_split", "wide_" and the rows of a
// block.
const char* attention_scheme(const Attention& problem, const Target& target);

// Keys and values behind those of the past: out = [past, fresh] for each head.
struct CacheAppend {
  int element_size = 2;
  int images = 0, heads = 0, past = 0, fresh = 0, size = 0;
  int64_t fresh_row = 0, fresh_head = 0, fresh_image = 0;  // strides of the new ones, in elements
  const void* past_data = nullptr;                         // [images, heads, past, size]
  const void* fresh_data = nullptr;
  void* out = nullptr;  // [images, heads, past + fresh, size]
};

cudaError_t append_cache(const CacheAppend& problem, const Target& target);

// RotaryEmbedding: see schema/ops/rotary.py.
struct Rotary {
  static constexpr int kMostDims = 6;

  DType dtype = DType::kF16;  // of all: kF16, kBF16 or kF32
  bool interleaved = false;
  int length = 0, turned = 0;  // features of a row, and those that are turned
  int rank = 0;                // of the rows
  int dims[kMostDims] = {};
  bool full_cos = false, full_sin = false;  // a number for each feature, else for each pair
  int64_t cos_strides[kMostDims] = {}, sin_strides[kMostDims] = {};
  const void* x = nullptr;
  const void* cos = nullptr;
  const void* sin = nullptr;
  void* y = nullptr;  // may be x
};

cudaError_t rotary(const Rotary& problem, const Target& target);

}  // namespace minnow::cuda
