// What the product kernels are told: one structure for all of them, passed by value.
#pragma once

#include <cstdint>

#include "kernels/cuda/divide.h"

namespace minnow::cuda {

// How results lie in an image that is larger than the grid of rows by whole factors, as those of transposed
// convolutions do: row m is a place of the grid [images, rows, columns], and column n is [row, column, channel] of its
// block of pixels. What is beyond the image is not written.
struct Spread {
  int rows = 0, columns = 0;        // of a block; 0: results are not spread
  int height = 0, width = 0;        // of the image
  Divisor by_channels, by_columns;  // channels: a multiple of 8; columns: of a block
  Divisor by_grid_rows, by_grid_columns;
};

// What is done with a sum, in the order of the fields.
struct Ending {
  const float* bias = nullptr;     // one per column, at least up to a multiple of 8 columns; or null
  const void* residual = nullptr;  // addressed as `y`; or null
  void* y = nullptr;
  int64_t row = 0;     // elements from one row of y to the next
  int columns = 0;     // that may be written
  int bias_count = 0;  // columns that have a bias
  bool wide = false;   // 8 columns at once: rows, pointers and `columns` are multiples of 8
  bool f32 = false;    // residual and y are f32, whatever the operands are
  Spread spread;       // takes the place of `row`
  // The activation: f = v < 0 ? v * slope : v, then between low and high; or, with `curve`, one of these:
  enum Curve : int32_t { kNone, kSigmoid, kHardSigmoid, kGelu };
  int32_t curve = kNone;
  bool times = false;  // s(v) * v instead of s(v), for the sigmoids
  float slope = 1, low = 0, high = 0;
  bool clamps = false, bends = false;  // whether low or high matter; whether there is more than that
  float scale = 1, shift = 0;          // of v, inside of the sigmoid
  float gain = 1, offset = 0;          // of the result
};

struct ProductArguments {
  const void* x = nullptr;     // [images, H, W, pixel]; a matrix is one row of M pixels
  const void* more = nullptr;  // [images, H, W, pixel]: the channels of a pixel from `split` on; see there
  const void* w = nullptr;     // [columns, taps, channels up to a multiple of 8], see pack_weights
  Ending end;
  int H = 1, W = 1, C = 0;  // C: channels that count
  int split = 0;            // channels of x, a multiple of 8, where `more` has the others; 0: x has all
  int pixel = 0;            // elements from one pixel to the next
  int pitch = 0;            // elements from one row of pixels to the next; 0: as many as the row has
  int R = 1, S = 1;         // taps in a column and in a row of a window
  int P = 1, Q = 1;         // size of the result
  int stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  int M = 0, N = 0;                               // rows (pixels of the result) and columns
  int depth = 0;                                  // elements of a row of w
  int64_t x_batch = 0, w_batch = 0, y_batch = 0;  // elements from one product of a batch to the next
  int bias_batch = 0;
  int steps = 0;       // of 128 bytes in depth, in all
  int steps_each = 0;  // for each block of a cluster that shares a tile; `steps`, where it does not
  int column_tiles = 1;
  bool constant_w = true;  // whether w can be read before the previous kernel has ended
};

}  // namespace minnow::cuda
