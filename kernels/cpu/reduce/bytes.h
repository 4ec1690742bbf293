// Maxima and minima of bytes, which stay bytes.
#pragma once

#include <cstdint>

namespace minnow {

// Takes bytes into those at `most`, which are the greatest so far, all as unsigned ones after an exclusive or with
// `flip`: 0x80 compares signed bytes, and the other bits finds the least ones.

// `n` columns of some rows, `stride` apart.
void greatest_of_columns(const uint8_t* x, int64_t rows, int64_t stride, int64_t n, uint8_t flip, uint8_t* most);
// Each of some rows of `n` bytes, `stride` apart, into one byte.
void greatest_of_rows(const uint8_t* x, int64_t rows, int64_t stride, int64_t n, uint8_t flip, uint8_t* most);

}  // namespace minnow
