// The micro-kernel (micro_kernel.h) in f16, for precision "low" on 64-bit Arm processors that have such vectors:
// twice the numbers in each. Numbers of the input are rounded where they are read, weights beforehand, a few blocks at
// a time.
//
// Sums in f16 are short: after kHalfSteps products they go into sums of f32. Weights are scaled by a power of two, so
// that the largest is below 1 / kHalfSteps: no sum is then larger than the largest number of the input, and none
// overflows that did not before.
#pragma once

#include "kernels/cpu/gemm/micro_kernel.h"
#include "kernels/core/kernel.h"

namespace minnow {

constexpr int64_t kHalfSteps = 64;

// Whether tiles of `pixels` pixels in all are to multiply in f16: fewer are not worth rounding the weights.
bool takes_half(Precision precision, int64_t pixels);

// Room for the weights of the most blocks.
inline int64_t half_panel_floats(int64_t steps) { return steps * 8; }
// Rounds what a tile of `blocks` blocks reads at t->w, and lets it read that.
void make_half_panel(Tile* t, int blocks, int64_t steps, void* panel);

// Tiles that make_half_panel has prepared; sizes as for tile_function().
TileFunction half_tile_function(int blocks, int pixels);

}  // namespace minnow
