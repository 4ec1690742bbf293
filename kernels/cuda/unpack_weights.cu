#include "kernels/cuda/unpack_weights.h"

#include <algorithm>

#include "kernels/cuda/eight.cuh"

namespace minnow::cuda {
namespace {

constexpr int kThreads = 256;

// Eight neighbors of a row for each thread; `padded` is a multiple of 8.
template <typename T>
__global__ void __launch_bounds__(kThreads) unpack_kernel(const __grid_constant__ UnpackWeights u) {
  const int eights = u.padded / 8, groups = u.k / u.group;
  const int64_t total = int64_t{u.n} * eights, row_bytes = (int64_t{u.k} * u.bits + 7) / 8;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < total; i += int64_t{gridDim.x} * kThreads) {
    const int64_t row = i / eights;
    const int first = static_cast<int>(i % eights) * 8;
    const uint8_t* q = u.q + row * row_bytes;
    T* to = static_cast<T*>(u.to) + row * u.padded + first;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int c = first + e;
      float v = 0.0f;
      if (c < u.k) {
        const int64_t group = row * groups + c / u.group;
        const int code = u.bits == 4 ? (q[c / 2] >> (c % 2 * 4) & 15) - 8 : q[c] - 128;
        v = static_cast<float>(code) * __ldg(u.scale + group) + (u.offset == nullptr ? 0.0f : __ldg(u.offset + group));
      }
      to[e] = from_float<T>(v);
    }
  }
}

}  // namespace

cudaError_t unpack_weights(const UnpackWeights& u, cudaStream_t stream) {
  const int64_t total = int64_t{u.n} * (u.padded / 8);
  if (total < 1) return cudaSuccess;
  const auto grid = static_cast<unsigned>(std::min<int64_t>((total + kThreads - 1) / kThreads, 8192));
  return with_float_type(u.dtype, [&](auto one) {
    unpack_kernel<decltype(one)><<<grid, kThreads, 0, stream>>>(u);
    return cudaGetLastError();
  });
}

}  // namespace minnow::cuda
