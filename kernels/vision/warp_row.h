// The inner loops of warps of bytes.
#pragma once

#include "kernels/vision/picture.h"

namespace minnow::vision {

constexpr int kFractionBits = 5, kFractions = 1 << kFractionBits;

// Where pixels of a result are in the source: whole pixels and the index of the fraction, that of y being the higher
// part.
struct PlaceRow {
  const int32_t *x, *y;
  const uint16_t* fraction;
};

// Places x0 + dx[i], y0 + dy[i] of 10 fractional bits, none of which exceeds 31 bits.
void affine_places(const int32_t* dx, const int32_t* dy, int32_t x0, int32_t y0, int64_t n, int32_t* x, int32_t* y,
                   uint16_t* fraction);

// Interpolates pixels of 1, 3 or 4 bytes from i on. Returns where it stops: at n, or at a pixel that is not well inside
// of the picture, or that it has no code for.
int64_t linear_inside(const Picture& src, const PlaceRow& places, int64_t i, int64_t n, uint8_t* dst);

// The same with 4 x 4 or 8 x 8 weights of 15 bits for each fraction.
int64_t wide_inside(const Picture& src, const PlaceRow& places, int64_t taps, const int16_t* weights, int64_t i,
                    int64_t n, uint8_t* dst);

}  // namespace minnow::vision
