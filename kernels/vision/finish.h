// What follows for each row of a result: another order of colors, and numbers that a network takes.
#pragma once

#include <vector>

#include "kernels/vision/picture.h"

namespace minnow::vision {

// Reorders n pixels of bytes, or makes them gray.
using ColorRow = void (*)(const uint8_t* src, uint8_t* dst, int64_t n);

// One that every instruction set has; null where it would only copy. Of `from` channels to `to` channels: swap: red and
// blue change places. To 1 channel: gray, where the first channel is blue, or red with `swap`. Alpha is 255 where it is
// new.
ColorRow color_row(int from, int to, bool swap);

struct Finish {
  ColorRow color = nullptr;
  int64_t channels = 0;  // after it
  bool normalize = false;
  std::vector<float> mean, factor;  // of each element of a row: float = (byte - mean) * factor

  // A number for each channel becomes one for each element of a row.
  void spread(const float* means, const float* factors, int64_t width);
};

// Finishes a row of `width` pixels: bytes to `dst`, or floats with `normalize`. `scratch` has room for the bytes.
void finish_row(const Finish& finish, const uint8_t* row, int64_t width, uint8_t* scratch, void* dst);

}  // namespace minnow::vision
