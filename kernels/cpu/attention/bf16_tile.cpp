#include "kernels/cpu/attention/bf16_tile.h"

#include <algorithm>

#include "kernels/core/rounding.h"
#include "kernels/cpu/gemm/bf16.h"

namespace minnow {
namespace {

constexpr int64_t kStepRowBytes = 2 * kBf16Depth;            // of a row, in a step
constexpr int64_t kStepBytes = kBf16Pixels * kStepRowBytes;  // of all rows

}  // namespace

int64_t Bf16Attention::tiles() const { return ceil_div(keys_, kKeys); }
int64_t Bf16Attention::q_bytes() const { return ceil_div(depth_, kBf16Depth) * kStepBytes; }
int64_t Bf16Attention::k_bytes() const { return round_up(4 * bf16_packed_floats(depth_, keys_, false), 64); }

// Scores, weights of values, Q, the sums of a tile, K and V.
int64_t Bf16Attention::bytes() const {
  return scores_bytes() + scores_bytes() / 2 + q_bytes() + 4 * kTile + k_bytes() +
         round_up(4 * bf16_packed_floats(keys_, width_, false), 64);
}

void Bf16Attention::pack(const float* k, int64_t k_row, const float* v, int64_t v_row, char* space) const {
  char* to = space + scores_bytes() / 2 * 3 + q_bytes() + 4 * kTile;
  bf16_pack_b(k, k_row, true, depth_, keys_, false, reinterpret_cast<float*>(to), nullptr, true);
  bf16_pack_b(v, v_row, false, keys_, width_, false, reinterpret_cast<float*>(to + k_bytes()), nullptr, true);
}

void Bf16Attention::multiply_keys(const float* q, int64_t rows, int64_t keys, char* space) const {
  char* rounded = space + scores_bytes() / 2 * 3;
  const int64_t steps = ceil_div(depth_, kBf16Depth);
  for (int64_t r = 0; r < rows; ++r)
    bf16_round_row(q + r * depth_, depth_, steps * kBf16Depth, reinterpret_cast<uint16_t*>(rounded) + r * kBf16Depth,
                   nullptr, kBf16Pixels * kBf16Depth);
  Bf16Tile t;
  t.in = rounded;
  t.in_pixel = kStepRowBytes;
  t.inner = steps;
  t.in_inner = kStepBytes;
  t.w_block = steps * kBf16StepBytes;
  t.pixels = static_cast<int>(rows);
  t.w = rounded + q_bytes() + 4 * kTile;
  t.sums = scores(space);
  for (int64_t key = 0; key < keys; key += kKeys, t.w += kBf16Blocks * t.w_block, t.sums += kTile) {
    t.blocks = keys_ - key > kBf16Columns ? 2 : 1;
    bf16_unit()->multiply(t);
  }
}

const float* Bf16Attention::multiply_values(int64_t column, int64_t rows, int64_t keys, char* space) const {
  char* sums = space + scores_bytes() / 2 * 3 + q_bytes();
  Bf16Tile t;
  t.in = reinterpret_cast<const char*>(weights(space));
  t.in_pixel = kStepRowBytes;
  t.inner = ceil_div(keys, kBf16Depth);
  t.in_inner = kStepBytes;
  t.w_block = tiles() * kBf16StepBytes;
  t.pixels = static_cast<int>(rows);
  t.w = sums + 4 * kTile + k_bytes() + column / kBf16Columns * t.w_block;
  t.blocks = width_ - column > kBf16Columns ? 2 : 1;
  t.sums = reinterpret_cast<float*>(sums);
  bf16_unit()->multiply(t);
  return t.sums;
}

}  // namespace minnow
