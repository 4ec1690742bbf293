// The inner loop of depthwise convolution, where the channels of a block are the lanes of a vector, and of convolution
// in groups smaller than a block, where each step spreads one input channel of every group over the lanes of that
// group.
#pragma once

#include <cstdint>

namespace minnow {

// Some output pixels at even distances, whose windows all lie inside the input as far as `rows` and `columns` go.
struct DepthwiseTile {
  const float* in;
  int64_t in_pixel, in_row, in_column;  // distances between pixels, and between the taps of one
  const float* w;
  int64_t w_row;
  int64_t rows, columns;  // taps
  const float* bias;      // or null
  const float* start;     // a residual with the strides of `out`, or null
  float* out;
  int64_t out_pixel;
  float low, high;
  // For groups: `steps` times as many weights, [tap][step][lane], and for each step the lane of the input that each
  // lane of the output needs.
  int64_t steps = 1;
  const int32_t* lanes = nullptr;
};

// Neighboring output pixels of a row, for kernels and strides that the inner loop is written out for.
struct DepthwiseRow {
  const float* in;  // under the first tap of the first pixel
  int64_t in_row;
  int64_t first, last;  // columns of the input, from `in` on, that exist: all but some of those at the borders
  const float* w;
  int64_t rows;       // taps
  const float* bias;  // or null
  float* out;
  float low, high;
};
using DepthwiseRowFunction = void (*)(const DepthwiseRow&);

// An image whose rows are copied with zeros around: `span` pixels, of which `inside` from `before` on are the image's.
struct PaddedCopy {
  int64_t height, width, span, before, inside;
};

using DepthwiseFunction = void (*)(const DepthwiseTile&);

constexpr int kDepthwisePixels = 14;  // whole rows of the usual images
// The kernel for 1 <= pixels <= kDepthwisePixels.
DepthwiseFunction depthwise_function(int pixels);
// The same for groups.
constexpr int kGroupPixels = 8;
DepthwiseFunction group_function(int pixels);

}  // namespace minnow
