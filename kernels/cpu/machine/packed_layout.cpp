#include "kernels/cpu/machine/packed_layout.h"

#include <limits>

namespace minnow {

// Only types that check_type() has let through are packed, so that the padding of a block overflows nothing.
int64_t stored_bytes(const TensorType& type) {
  if (type.layout == Layout::kPlain || type.shape.rank() < 2) return type.bytes();
  TensorType padded = type;
  if (type.layout == Layout::kLast) {
    const bool rounds = type.dtype == DType::kF32;
    const int64_t channels = rounds ? 2 * half_pixel(type) : last_channels(type.shape[1]);
    if (rounds) padded.dtype = DType::kU8;
    padded.shape = Shape{type.shape[0], type.shape.count(2, type.shape.rank()), channels};
    const int64_t bytes = padded.bytes(), behind = kReadPixels * channels + kReadBytes;
    return bytes > std::numeric_limits<int64_t>::max() - behind ? bytes : bytes + behind;
  }
  const int64_t block = pack_width();
  padded.shape[1] = (type.shape[1] + block - 1) / block * block;
  return padded.bytes();
}

}  // namespace minnow
