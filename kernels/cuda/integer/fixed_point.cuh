// What becomes of exact sums: the arithmetic of the ops Requantize and QuantizeLinear, bit by bit.
#pragma once

#include "kernels/cuda/integer/arguments.h"

namespace minnow::cuda {

// x * factor * 2^(shift - 31): the upper half of the product is rounded, then what is shifted out, halves away from 0.
__device__ __forceinline__ int64_t scaled_by(int x, int factor, int shift) {
  const int left = shift > 0 ? shift : 0, right = shift < 0 ? -shift : 0;
  const int wrapped = left < 32 ? static_cast<int>(static_cast<uint32_t>(x) << left) : 0;
  int64_t v = (static_cast<int64_t>(wrapped) * factor + (int64_t{1} << 30)) >> 31;
  v = v > 2147483647 ? 2147483647 : v;
  // |v| is at most 2^31, so that 32 bits of it are enough for all but a shift of 31.
  const int64_t mask = (int64_t{1} << right) - 1;
  return (v >> right) + ((v & mask) > (mask >> 1) + (v < 0 ? 1 : 0) ? 1 : 0);
}

__device__ __forceinline__ int limited(int64_t v, int zero, int least, int most) {
  const int y = static_cast<int>(static_cast<uint32_t>(static_cast<uint64_t>(v)) + static_cast<uint32_t>(zero));
  return y < least ? least : y > most ? most : y;
}

// Rounded to the nearest, halves to even, plus `zero`, within the limits.
__device__ __forceinline__ int rounded(float v, int zero, int least, int most) {
  v = rintf(v) + static_cast<float>(zero);
  const float low = static_cast<float>(least), high = static_cast<float>(most);
  return static_cast<int>(v < low ? low : v > high ? high : v);
}

}  // namespace minnow::cuda
