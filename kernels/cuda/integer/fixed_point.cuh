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

// The same where factor and shift are plain, see is_plain.
__device__ __forceinline__ int plainly_scaled(int x, int factor, int shift) {
  const int v = static_cast<int>((static_cast<int64_t>(x) * factor + (int64_t{1} << 30)) >> 31);
  const int u = v + (v >> 31);  // so that halves below zero are rounded down
  // The last bit that is shifted out. There is none without a shift: the sign then takes back what was subtracted.
  return (u >> -shift) + static_cast<int>(static_cast<uint32_t>(u >> ((-shift - 1) & 31)) & 1u);
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

// The same of numbers that are not NaN, with limits of bytes. Where 1.5 * 2^23 is added, only the integer part is left.
__device__ __forceinline__ int plainly_rounded(float v, int zero, int least, int most) {
  v = fminf(fmaxf(v, -2097152.0f), 2097152.0f);
  const int y = __float_as_int(__fadd_rn(v, 12582912.0f)) - 0x4b400000 + zero;
  return min(max(y, least), most);
}

}  // namespace minnow::cuda
