// Pooling of images of bf16 with channels last (Layout::kLast), for precision "low".
#pragma once

#include <cstdint>

#include "kernels/core/tensor.h"
#include "kernels/cpu/pool/bytes.h"

namespace minnow {

constexpr int64_t kHalvesAtOnce = 32;  // channels

// The greatest number of each of so many channels, of all pixels of a window (`n` is not looked at; distances in
// numbers). NaN wins.
void max_halves(const uint16_t* in, const ByteColumns& window, uint16_t* out);
// Their sums times `factor`, rounded.
void mean_halves(const uint16_t* in, const ByteColumns& window, float factor, uint16_t* out);

// The sum of some pixels times a weight each, `step` apart.
struct HalfTaps {
  const int32_t* at = nullptr;  // pixels
  const float* weight = nullptr;
  int64_t n = 0, step = 0;  // numbers from one tap to the next in the two arrays
};
// Of rows `y.at` and columns `x.at`, so many numbers apart; rounded.
void blend_halves(const uint16_t* in, const HalfTaps& y, int64_t row, const HalfTaps& x, int64_t column, uint16_t* out);

// The mean of each channel of an image, in the plain layout.
void mean_of_half_images(const Tensor& x, ThreadPool* pool, float* y);

}  // namespace minnow
