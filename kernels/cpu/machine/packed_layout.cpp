#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {

// Only types that check_type() has let through are packed, so that the padding of a block overflows nothing.
int64_t stored_bytes(const TensorType& type) {
  if (type.layout == Layout::kPlain || type.shape.rank() < 2) return type.bytes();
  TensorType padded = type;
  const int64_t block = pack_width();
  padded.shape[1] = (type.shape[1] + block - 1) / block * block;
  return padded.bytes();
}

}  // namespace minnow
