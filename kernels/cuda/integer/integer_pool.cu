// The largest bytes under a sliding window, channels last.
#include "kernels/cuda/pool.h"

namespace minnow::cuda {
namespace {

constexpr int kThreads = 128;

template <bool is_signed>
__device__ __forceinline__ uint32_t larger(uint32_t a, uint32_t b) {
  return is_signed ? __vmaxs4(a, b) : __vmaxu4(a, b);
}

// A thread makes 8 channels of a pixel.
template <bool is_signed>
__global__ void __launch_bounds__(kThreads) max_kernel(const __grid_constant__ Pool p, int64_t work) {
  allow_next();
  wait_previous();
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= work) return;
  const int eights = p.channels / 8;
  const int c = static_cast<int>(index % eights) * 8;
  int64_t rest = index / eights;
  const int column = static_cast<int>(rest % p.out_width);
  rest /= p.out_width;
  const int row = static_cast<int>(rest % p.out_height);
  const int image = static_cast<int>(rest / p.out_height);
  const uint8_t* x =
      static_cast<const uint8_t*>(p.x) + static_cast<int64_t>(image) * p.height * p.width * p.channels + c;
  constexpr uint32_t kLeast = is_signed ? 0x80808080u : 0u;
  uint2 most = make_uint2(kLeast, kLeast);
  for (int r = 0; r < p.kernel_height; ++r) {
    const int h = row * p.stride_y - p.pad_y + r * p.dilation_y;
    if (static_cast<unsigned>(h) >= static_cast<unsigned>(p.height)) continue;
    for (int s = 0; s < p.kernel_width; ++s) {
      const int w = column * p.stride_x - p.pad_x + s * p.dilation_x;
      if (static_cast<unsigned>(w) >= static_cast<unsigned>(p.width)) continue;
      const uint2 v = *reinterpret_cast<const uint2*>(x + (static_cast<int64_t>(h) * p.width + w) * p.channels);
      most = make_uint2(larger<is_signed>(most.x, v.x), larger<is_signed>(most.y, v.y));
    }
  }
  *reinterpret_cast<uint2*>(static_cast<uint8_t*>(p.y) + index * 8) = most;
}

}  // namespace

cudaError_t max_pool_bytes(const Pool& p, const Target& target) {
  const int64_t work = static_cast<int64_t>(p.images) * p.out_height * p.out_width * (p.channels / 8);
  const int64_t blocks = (work + kThreads - 1) / kThreads;
  if (!p.maximum || blocks >= int64_t{1} << 31) return cudaErrorInvalidValue;
  const auto kernel = p.dtype == DType::kI8 ? max_kernel<true> : max_kernel<false>;
  return launch(target, kernel, dim3(static_cast<unsigned>(blocks)), kThreads, 0, 1, p, work);
}

}  // namespace minnow::cuda
