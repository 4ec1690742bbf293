#include "kernels/cuda/unpack_weights.h"

#include <algorithm>

#include "kernels/cuda/eight.cuh"
#include "kernels/cuda/quantized_tile.h"

namespace minnow::cuda {
namespace {

constexpr int kThreads = 256;

// Eight neighbors of a row for each thread; `padded` is a multiple of 8.
template <typename T>
__global__ void __launch_bounds__(kThreads) unpack_kernel(const __grid_constant__ UnpackWeights u) {
  const QuantizedTiles tiles{u.n, u.k, u.bits, u.group};
  const int eights = u.padded / 8, groups = tiles.groups(), units = tiles.units();
  const int64_t total = int64_t{u.n} * eights;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < total; i += int64_t{gridDim.x} * kThreads) {
    const int row = static_cast<int>(i / eights), first = static_cast<int>(i % eights) * 8;
    const PlaceOfEight place(row, first, u.bits, units);
    const uint32_t* q = reinterpret_cast<const uint32_t*>(u.q) + place.word;
    T* to = static_cast<T*>(u.to) + int64_t{row} * u.padded + first;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int c = first + e;
      float v = 0.0f;
      if (c < u.k) {
        const int64_t at = place_of_scale(row, c / u.group, groups);
        const uint32_t number = q[PlaceOfEight::word_of(e, u.bits)] >> place.shift(e, u.bits);
        const int code = u.bits == 4 ? static_cast<int>(number & 15) - 8 : static_cast<int>(number & 255) - 128;
        v = static_cast<float>(code) * __ldg(u.scale + at) + (u.offset == nullptr ? 0.0f : __ldg(u.offset + at));
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
