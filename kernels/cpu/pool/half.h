// Pooling of images of bf16 with channels last (Layout::kLast), for precision "low".
#pragma once

#include <cstdint>

#include "kernels/core/tensor.h"
#include "kernels/core/thread_pool.h"
#include "kernels/cpu/pool/bytes.h"
#include "kernels/cpu/pool/place.h"

namespace minnow {

constexpr int64_t kHalvesAtOnce = 32;  // channels

// The greatest number of each of the `n` channels, whole vectors of them, of all pixels of a window (distances in
// numbers). NaN wins.
void max_halves(const uint16_t* in, const ByteColumns& window, uint16_t* out);
// Their sums times `factor`, rounded.
void mean_halves(const uint16_t* in, const ByteColumns& window, float factor, uint16_t* out);

// The means of all windows of a row of results, of some rows of the image, whose columns are its planes. The sums of
// columns come first, which neighboring windows share.
struct HalfMeans {
  const PoolPlace* places = nullptr;     // of `n` results along the row
  int64_t n = 0, step = 0, counted = 0;  // pixels between taps; rows that a mean is over
};
constexpr int64_t kMostMeanColumns = 128;  // pixels of a row
void means_of_halves(const uint16_t* in, const ByteColumns& image, const HalfMeans& row, uint16_t* out, int64_t pixel);

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
