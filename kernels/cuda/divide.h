// Division of numbers below 2^31 by one that is known when a kernel is launched: a multiplication.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif

namespace minnow::cuda {

struct Divisor {
  uint32_t value = 1, factor = 1, shift = 0;

  Divisor() = default;
  // What is below 1 becomes 1: there is nothing to divide then.
  explicit Divisor(int divisor) : value(divisor < 1 ? 1 : static_cast<uint32_t>(divisor)) {
    while ((uint64_t{1} << shift) < value) ++shift;
    factor = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - value)) / value + 1);
  }
#ifdef __CUDACC__
  // The quotient; `number` becomes the remainder.
  __device__ __forceinline__ int split(int* number) const {
    const uint32_t n = static_cast<uint32_t>(*number);
    const uint32_t quotient = (__umulhi(n, factor) + n) >> shift;
    *number = static_cast<int>(n - quotient * value);
    return static_cast<int>(quotient);
  }
#endif
};

}  // namespace minnow::cuda
