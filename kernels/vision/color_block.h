// Conversions of colors for blocks of pixels whose channels stand apart, so that the compiler vectorizes them.
#pragma once

#include <cstdint>

#include "kernels/vision/color.h"

namespace minnow::vision {

constexpr int kColorBlock = 64;

// The channels of a block, first those of the source, then those of the result.
struct ColorPlanes {
  uint8_t a[kColorBlock], b[kColorBlock], c[kColorBlock];
};

// Constants of a conversion; which are used depends on it.
struct BlockConstants {
  int32_t whole[9] = {};            // weights
  float hue = 0;                    // steps of the circle per degree, or sixths of the circle per step
  int32_t circle = 0;               // steps
  bool is_reversed = false;         // it is of red, green and blue, else of blue, green and red
  const float* linear = nullptr;    // of each byte
  const uint8_t* gamma = nullptr;   // of each of 4096 linear values
  const int32_t* light = nullptr;   // of each lightness: Y and its root
  const int32_t* chroma = nullptr;  // of each lightness and u, then of each lightness and v
};

using ColorBlockFunction = void (*)(const BlockConstants&, ColorPlanes*);

// The function for a conversion of bytes; null: there is none.
ColorBlockFunction color_block(const ColorChange& change, BlockConstants* constants);

// A row of n pixels of 3 or 4 channels to one of 3 or 4. `swap_in`, `swap_out`: the first and the third change places
// before and after.
void color_blocks(ColorBlockFunction function, const BlockConstants& constants, const uint8_t* src, int64_t from,
                  bool swap_in, uint8_t* dst, int64_t to, bool swap_out, int64_t n);

// Rows of n floats of 3 or 4 channels to gray, and of 3 channels with the first and the third exchanged. They return
// how many pixels are done.
int64_t gray_floats(const float* src, int64_t from, bool swap, float* dst, int64_t n);
int64_t swap_floats(const float* src, float* dst, int64_t n);

// A row of n pixels to 16 bits each: 5 of the first channel, 6 or 5 of the second, 5 of the third.
void pack_colors(const uint8_t* src, int64_t from, bool swap, bool six, uint8_t* dst, int64_t n);
// Luma of up to a block of pixels, and, where u is not null, chroma of each second one; y has room for a block, u and v
// for half of it.
void video_block(const uint8_t* src, int64_t from, bool swap, int64_t n, uint8_t* y, uint8_t* u, uint8_t* v);

// Pixels of 3 or 4 channels of three planes; the fourth is 255. A block of them, or less.
void join_planes(const uint8_t* a, const uint8_t* b, const uint8_t* c, uint8_t* dst, int64_t channels, int64_t n);

}  // namespace minnow::vision
