// Floats of 4, 6 and 8 bits, one per byte: from f32 and to it.
#pragma once

#include <cstdint>

#include "kernels/core/minifloat.h"

namespace minnow {

enum class RoundingMode : uint8_t { kUp, kDown, kNearest };

// How a number is stored that the type does not hold. The types of 4 and 6 bits have neither infinities nor NaN: they
// always saturate, and NaN becomes a zero. Only f8e8m0, which holds powers of two, looks at the rounding, where ties of
// kNearest go up; all others round to the nearest, ties to even.
struct Storing {
  bool saturate = true;
  RoundingMode rounding = RoundingMode::kUp;
};

void minifloat_to_f32(DType from, const uint8_t* in, float* out, int64_t n);
void f32_to_minifloat(const float* in, DType to, uint8_t* out, int64_t n, Storing how = {});

}  // namespace minnow
