// Floats as u8 by their own range, as the op DynamicQuantizeLinear makes them without `steps`.
#pragma once

#include <cstdint>

namespace minnow {

// What the bytes mean: (byte - zero) * scale.
struct ByteRange {
  float scale = 1, zero = 0;
};
ByteRange byte_range(const float* x, int64_t n);
void quantize_bytes(const float* x, int64_t n, const ByteRange& range, uint8_t* y);

}  // namespace minnow
