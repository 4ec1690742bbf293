// Factors for rows of numbers.
#pragma once

#include <cstdint>

namespace minnow {

// to[row * pack_width() + lane] = from[row * pack_width() + lane] * factor[row]
void scale_vectors(const float* from, const float* factor, int64_t rows, float* to);

}  // namespace minnow
