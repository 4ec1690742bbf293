// Floats as u8 by their own range, as the op DynamicQuantizeLinear makes them without `steps`.
#pragma once

#include <cstdint>

namespace minnow {

// Byte k of the 32-bit numbers of 16 bytes, for each k. Once for all instruction sets.
alignas(16) inline constexpr uint8_t kByteOrder[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};

// What the bytes mean: (byte - zero) * scale.
struct ByteRange {
  float scale = 1, zero = 0;
};
ByteRange byte_range(const float* x, int64_t n);
void quantize_bytes(const float* x, int64_t n, const ByteRange& range, uint8_t* y);

}  // namespace minnow
