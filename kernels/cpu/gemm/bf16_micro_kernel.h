// Micro-kernels that multiply in bf16 and sum in f32: a tile of up to 32 pixels times 32 columns, by AMX or AVX-512.
//
// With precision "low" numbers are rounded. With "normal" each is split in two, what it is rounded to and what is left,
// together 16 bits, and all products but that of the leftovers are added up: three times the work, and 1/200 of the
// error. (What is left of an infinity is nothing, and infinity times nothing is NaN.)
#pragma once

#include "kernels/core/kernel.h"

namespace minnow {

constexpr int64_t kBf16Pixels = 32, kBf16Columns = 16, kBf16Blocks = 2;  // at the most; columns of a block
constexpr int64_t kBf16Depth = 32;                                       // of a step: numbers of a pixel
constexpr int64_t kBf16StepBytes = kBf16Depth * kBf16Columns * 2;        // of weights, per block and part

// sums[p][b * 16 + column] = the sum, over steps s, of in(s)[p][0..32) times w(s)[b][0..32)[column]. All distances in
// bytes. Tiles read 16 pixels at once: memory behind the last one must be there, whatever it holds.
struct Bf16Tile {
  const char* in = nullptr;
  int64_t in_pixel = 0;
  const char* w =
      nullptr;  // [block][step][16 pairs][16 columns][2], steps one after the other but where said otherwise
  int64_t w_block = 0;
  bool split = false;  // with each step of w the same of what was left follows; those of `in` lie in_left behind
  int64_t in_left = 0;
  int64_t outer = 1, in_outer = 0, w_outer = 0;
  int64_t middle = 1, in_middle = 0;
  int64_t inner = 1, in_inner = 0;
  const int64_t* offset = nullptr;  // of each inner step, in place of in_inner
  int64_t depth = kBf16Depth;       // numbers of a pixel that are read in a step, an even number
  float* sums = nullptr;            // [32][32], aligned to 64 bytes
  int pixels = 0, blocks = 0;
  // What will be read soon is brought closer meanwhile; may be nothing.
  const char* soon = nullptr;
  int64_t soon_bytes = 0;

  // Piece `i` of `n` of so many bytes.
  void bring(const char* from, int64_t bytes, int64_t i, int64_t n) {
    soon = from + bytes * i / n;
    soon_bytes = bytes * (i + 1) / n - bytes * i / n;
  }
};

struct Bf16Unit {
  const char* name;              // what schemes are called after
  double gain;                   // products per cycle, as a multiple of those of f32
  void (*begin)(int64_t depth);  // a thread calls these around its tiles
  void (*end)();
  void (*multiply)(const Bf16Tile&);
};

// What this processor has; null: nothing that is faster than f32. MINNOW_BF16 names another: "amx", "avx512",
// "emulated" (AMX in software, to test what is written for it), or "none". A unit must first multiply as the emulation
// does.
const Bf16Unit* bf16_unit();
// How many times faster than in f32 numbers of this precision are multiplied; 1 where f32 it is.
double bf16_gain(Precision precision);
// An error when MINNOW_BF16 names what this machine does not have.
Status bf16_status();

// The result of a tile, from its sums.
struct Bf16Result {
  const float* sums;
  int pixels, blocks, lanes;  // lanes of the last block to store
  const float *bias, *start;  // or null; bias of whole blocks, start with distances as `out`
  float* out;
  int64_t out_pixel, out_block;
  float low, high;
};
void bf16_finish(const Bf16Result& result);

// The same as rounded pixels, all channels of which follow each other: row p goes to `out` + place[p], and not at all
// where that is -1. Whole blocks.
struct Bf16Pixels {
  float* sums;
  int pixels, blocks;
  const int64_t* place;
  const float* bias;         // or null
  const uint16_t* residual;  // or null; with distances as `out`
  uint16_t* out;
  float low, high;
};
void bf16_store_pixels(const Bf16Pixels& result);
// Adds bias and residual to the sums.
void bf16_add_to_sums(const Bf16Pixels& result);

// Numbers of a row, rounded, with zeros up to `count`: a multiple of 32, each 32 of them `step` numbers after the last.
// Where `left` is not null, it takes what is left of them.
void bf16_round_row(const float* from, int64_t n, int64_t count, uint16_t* to, uint16_t* left, int64_t step);
// Pixels of 16 channels each from two blocks of a packed image (`second` may be null), as pixels of 32. Channels from
// `channels` on become 0, whatever the blocks hold there.
void bf16_round_blocks(const float* first, const float* second, int64_t channels, int64_t pixels, uint16_t* to,
                       uint16_t* left);

// Up to 16 columns of two rows (`second` may be null, for zeros), the two of a column side by side. False: not by an
// instruction of this processor, and nothing is done.
bool bf16_round_pair(const float* first, const float* second, int64_t columns, uint16_t* to);
void bf16_round_pair_avx512(const float* first, const float* second, int64_t columns, uint16_t* to);

// Pixels of a few planes of numbers, rounded, with the channels of a pixel side by side, and zeros beyond them.
constexpr int64_t kBf16PlanesAtOnce = 4;  // channels of a pixel, and planes at the most
void bf16_join_planes(const float* from, int64_t plane, int64_t channels, int64_t pixels, uint16_t* to);
void bf16_join_planes_avx512(const float* from, int64_t plane, int64_t channels, int64_t pixels, uint16_t* to);

// bf16_store_pixels() by an instruction of avx512_bf16, as bf16_round_avx512().
void bf16_store_avx512(const Bf16Pixels& result);

// The unit of avx512_bf16, or null where this build has none.
const Bf16Unit* bf16_avx512_unit();
// bf16_round_blocks() without `left` by an instruction of avx512_bf16. Denormal numbers become 0, as they are for the
// products that follow.
void bf16_round_avx512(const float* first, const float* second, int64_t channels, int64_t pixels, uint16_t* to);

}  // namespace minnow
