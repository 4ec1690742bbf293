// Sums of two products at once: the halves of `a`, 16 bits with a sign, by two bytes of `b` with a sign.
#pragma once

#include <cstdint>

namespace minnow::cuda {

// The lower two bytes of b.
__device__ __forceinline__ int dot_low(int a, uint32_t b, int c) {
  int r;
  asm("dp2a.lo.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}
// The upper two.
__device__ __forceinline__ int dot_high(int a, uint32_t b, int c) {
  int r;
  asm("dp2a.hi.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}

}  // namespace minnow::cuda
