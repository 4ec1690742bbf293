// Maximum pooling of bytes in two steps: the maxima of columns, which neighboring windows share, then of windows.
#pragma once

#include <cstdint>

namespace minnow {

// Which bytes of an image are compared: `n` columns of some rows of some planes.
struct ByteColumns {
  int64_t n = 0, rows = 0, row = 0, planes = 0, plane = 0;
};

// The greatest of each column.
void max_columns(const uint8_t* in, const ByteColumns& c, bool is_signed, uint8_t* out);

constexpr int64_t kReadBehind = 128;  // bytes that max_windows() may read behind its last window

// `n` windows of so many taps, `step` apart, along a row with its padding; their begins are `stride` apart.
void max_windows(const uint8_t* in, int64_t taps, int64_t step, int64_t stride, int64_t n, bool is_signed,
                 uint8_t* out);

}  // namespace minnow
