// The innermost loop of products with sparse matrices: vectors run along the pixels.
#pragma once

#include <cstdint>

namespace minnow {

struct SparseTile {
  const uint32_t* offsets;  // where the input of each block of weights lies behind `x`
  int64_t count;
  const float* w;     // [count][block]
  const float* x;     // the first pixel
  const float* bias;  // [block]
  float* out;         // [block], vectors of pixels each
  int64_t out_stride;
  float low, high;
};

using SparseTileFunction = void (*)(const SparseTile&);

// The most vectors of pixels for blocks of 1 or 4 weights.
int sparse_vectors(int block);
SparseTileFunction sparse_tile_function(int block, int vectors);

// Whether there is neither an infinity nor NaN.
bool all_finite(const float* x, int64_t n);
// y = clamp(y + x) of n numbers.
void add_clamped(const float* x, int64_t n, float low, float high, float* y);

}  // namespace minnow
