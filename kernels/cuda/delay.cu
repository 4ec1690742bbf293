#include "kernels/cuda/delay.h"

namespace minnow::cuda {
namespace {

__device__ __forceinline__ int64_t now() {
  int64_t nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
}

// It lets nothing begin before it ends.
__global__ void delay_kernel(int64_t nanoseconds) {
  wait_previous();
  const int64_t end = now() + nanoseconds;
  while (now() < end) {
  }
}

}  // namespace

cudaError_t delay(int64_t nanoseconds, const Target& target) {
  return launch(target, delay_kernel, dim3(1), 1, 0, 1, nanoseconds);
}

}  // namespace minnow::cuda
