// The micro-kernel of convolution, matrix product and Winograd, their one innermost loop: a register tile of R "pixels"
// (rows of the output) times NB blocks of output channels is summed over the input channels and kernel taps. Inputs are
// broadcast from where they are in memory, weights are loaded as vectors; the micro-kernel itself copies nothing.
//
//   out[r * out_pixel + b * out_block + lane] =
//       clamp(start + sum over the steps s of in[r * in_pixel + in_offset(s)] * w[b * w_block + w_offset(s) + lane])
#pragma once

#include <algorithm>
#include <cstdint>

namespace minnow {

// Steps that four nested loops make. The innermost walks `length` consecutive numbers of the input; consecutive steps
// read consecutive vectors of weights but where `w_outer` and `w_middle` say otherwise.
struct TileSteps {
  int64_t in = 0, w = 0;  // where the first step reads, in floats from the tile's own pointers
  int64_t outer = 1, in_outer = 0, w_outer = 0;
  int64_t middle = 1, in_middle = 0, w_middle = 0;
  int64_t inner = 1, in_inner = 0;
  int64_t length = 0;
};

// Weights of a tile that are rounded for products in f16: see micro_kernel_f16.h.
struct HalfWeights {
  const void* w = nullptr;
  float scale = 1;  // of the sums
  int blocks = 0;
};

struct Tile {
  const float* in = nullptr;
  int64_t in_pixel = 0;
  const float* w = nullptr;  // aligned to a vector, as all of w_block, w_outer and w_middle keep it
  int64_t w_block = 0;
  const float* bias = nullptr;   // [blocks][lanes], or null for 0
  const float* start = nullptr;  // added at the beginning; strides as `out`: a residual, or `out` itself to accumulate
  float* out = nullptr;
  int64_t out_pixel = 0, out_block = 0;
  int lanes = 0;  // lanes of the last block to load from `start` and to store
  float low = 0, high = 0;
  TileSteps steps[2];  // summed one after the other; the second one may be empty
  // Memory to bring into the second-level cache meanwhile, so many bytes each step: weights that later tiles need.
  const char* prefetch = nullptr;
  int64_t prefetch_step = 0;
  HalfWeights half = {};

  // Spreads fetching the `blocks` blocks of weights from `w` on over `tiles` tiles, of which this one is number `i`.
  // Evenly, because more requests than memory can serve would hold up the loads of the tile itself.
  void fetch(const float* weights, int64_t blocks, int64_t i, int64_t tiles) {
    prefetch_step = (64 * blocks + tiles - 1) / tiles;
    prefetch = reinterpret_cast<const char*>(weights) + i * 4 * w_block * blocks / tiles;
  }
  // What to add to `prefetch` from each of the tiles to the next.
  int64_t fetch_tile(int64_t blocks, int64_t tiles) const { return 4 * w_block * blocks / tiles; }
};

// Whether threads should divide the rows of an input of this size, rather than the weights and with them the channels
// of the output. Then each reads all weights, but of the input only what it has itself written in the layer before:
// what another core has written comes several times slower than weights, which are asked for ahead.
inline bool split_by_rows(int64_t weights, int64_t input) { return weights < 8 * input; }

using TileFunction = void (*)(const Tile&);

// The most pixels of a tile with 1, 2 or 4 blocks on this instruction set.
int tile_pixels(int blocks);
// The kernel for 1 <= pixels <= tile_pixels(blocks).
TileFunction tile_function(int blocks, int pixels);

// How a row of pixels and a number of output blocks are cut into tiles of nearly equal size, so that a step costs the
// least by an estimate of what multiplications, loads and latencies need.
class TilePlan {
 public:
  struct Blocks {
    int64_t first;
    int count;
  };

  TilePlan() = default;
  // The number of tiles is a multiple of `parts`, where there are enough pixels.
  TilePlan(int64_t pixels, int64_t blocks, int64_t steps, int64_t parts = 1);

  int64_t tiles() const { return tiles_; }  // along the row
  int64_t tile_begin(int64_t tile) const { return tile * narrow_ + std::min(tile, wide_); }
  int64_t narrow() const { return narrow_; }  // pixels of a tile; the first tiles have one more
  int most_blocks() const { return most_blocks_; }
  int groups() const { return groups_; }  // of output blocks: most_blocks() in each, the rest in smaller ones
  Blocks group(int i) const;

 private:
  int64_t pixels_ = 0, blocks_ = 0, tiles_ = 1;
  int64_t narrow_ = 0, wide_ = 0;
  int most_blocks_ = 1, groups_ = 0;
};

}  // namespace minnow
