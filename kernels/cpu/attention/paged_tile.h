// The innermost part of PagedAttention: some rows of queries that share their keys and values, which lie in blocks.
#pragma once

#include <cstdint>

#include "kernels/core/dtype.h"

namespace minnow {

// Tokens whose scores are computed at once. Sums begin anew with each so many tokens of a sequence, counted from its
// beginning, and are added up in order: so they do not depend on what else a batch holds, nor on the threads.
constexpr int64_t kPagedChunk = 256;

// Rows [tokens, group]: queries of consecutive tokens, with the heads that share one head of keys and values.
struct PagedTile {
  const float* q = nullptr;  // of the first row; the heads of a token lie side by side
  int64_t q_stride = 0;      // between tokens
  int64_t tokens = 0, group = 0;
  int64_t position = 0;                             // of the first token in its sequence
  const void *keys = nullptr, *values = nullptr;    // of this head in block 0
  int64_t key_stride = 0, value_stride = 0;         // between blocks, in elements
  const int32_t* table = nullptr;                   // the blocks of the sequence
  int64_t block = 0, size = 0, width = 0;           // tokens of a block, features of keys and values
  int64_t window = 0;                               // 0: none
  DType dtype = DType::kF32;                        // of the cache
  float scale = 1, soft_cap = 0;                    // 0: none
  const float *slopes = nullptr, *sinks = nullptr;  // of the heads of the group; null: none

  int64_t rows() const { return tokens * group; }
  int64_t end() const { return position + tokens; }  // of the tokens that are seen
  int64_t first() const { return window == 0 || window > position ? 0 : position - window + 1; }
};

// Of each row: its sums of values, up to whole vectors, and behind them the largest score and the sum of weights.
inline int64_t paged_state_floats(int64_t width) { return (width + 15) / 16 * 16 + 2; }
// What a tile of so many rows needs beside.
int64_t paged_space_floats(int64_t rows, int64_t block, int64_t size, int64_t width);

// The state of each row after the keys of `chunks` chunks, of which the tile sees some in each.
void attend(const PagedTile& tile, int64_t first_chunk, int64_t chunks, float* space, float* state);
// Adds to the states of rows those of later chunks.
void merge_paged_states(const float* from, int64_t rows, int64_t width, float* to);
// The results of the rows, `y_stride` between tokens.
void finish_paged_states(const PagedTile& tile, const float* state, float* y, int64_t y_stride);

}  // namespace minnow
