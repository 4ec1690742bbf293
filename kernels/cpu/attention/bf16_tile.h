// The products of attention with precision "low", by tiles of bf16: a block of rows of Q with K, and what the softmax
// makes of the scores with V. Scores stay in the form of tiles: of a row 32 keys follow each other, then come the other
// rows of the block.
#pragma once

#include "kernels/cpu/gemm/bf16_micro_kernel.h"

namespace minnow {

class Bf16Attention {
 public:
  static constexpr int64_t kRows = kBf16Pixels, kKeys = kBf16Blocks * kBf16Columns;  // of a tile
  static constexpr int64_t kTile = kRows * kKeys;

  static bool takes(Precision precision) { return precision == Precision::kLow && bf16_gain(precision) > 1; }

  Bf16Attention() = default;
  Bf16Attention(int64_t keys, int64_t depth, int64_t width) : keys_(keys), depth_(depth), width_(width) {}

  int64_t bytes() const;  // of the space that all functions below are given, aligned to 64
  // K and V, whose rows lie so far from each other.
  void pack(const float* k, int64_t k_row, const float* v, int64_t v_row, char* space) const;
  // The scores of up to kRows rows of Q, `depth` floats each, with the first `keys`.
  void multiply_keys(const float* q, int64_t rows, int64_t keys, char* space) const;
  float* scores(char* space) const { return reinterpret_cast<float*>(space); }
  // What takes their place, in the same form, with zeros up to a whole tile.
  uint16_t* weights(char* space) const { return reinterpret_cast<uint16_t*>(space + scores_bytes()); }
  // Columns from `column` on of the product with V, up to kKeys of them, in rows of as many.
  const float* multiply_values(int64_t column, int64_t rows, int64_t keys, char* space) const;

 private:
  int64_t tiles() const;  // of keys
  int64_t scores_bytes() const { return 4 * kTile * tiles(); }
  int64_t q_bytes() const;
  int64_t k_bytes() const;

  int64_t keys_ = 0, depth_ = 0, width_ = 0;
};

}  // namespace minnow
