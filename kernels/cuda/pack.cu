// A tile of 32 channels and 32 pixels goes through shared memory, so that both sides are read and written in rows.
#include "kernels/cuda/pack.h"

namespace minnow::cuda {
namespace {

constexpr int kTile = 32, kRows = 8;

template <typename T, bool packs>
__global__ void __launch_bounds__(kTile* kRows)
    pack_kernel(const T* __restrict__ from, T* __restrict__ to, int channels, int lanes, int64_t pixels, int64_t tiles,
                int64_t images) {
  allow_next();
  __shared__ T tile[kTile][kTile + 1];
  const int x = static_cast<int>(threadIdx.x) % kTile, y = static_cast<int>(threadIdx.x) / kTile;
  const int channel = static_cast<int>(blockIdx.y) * kTile;
  wait_previous();
  for (int64_t image = blockIdx.z; image < images; image += gridDim.z) {
    for (int64_t at = blockIdx.x; at < tiles; at += gridDim.x) {
      const int64_t pixel = at * kTile;
      const T* plain = from + image * channels * pixels;
      T* plain_out = to + image * channels * pixels;
      for (int i = y; i < kTile; i += kRows) {
        if constexpr (packs) {
          const bool inside = channel + i < channels && pixel + x < pixels;
          tile[i][x] = inside ? plain[static_cast<int64_t>(channel + i) * pixels + pixel + x] : T(0);
        } else {
          const bool inside = pixel + i < pixels && channel + x < lanes;
          if (inside) tile[x][i] = from[(image * pixels + pixel + i) * lanes + channel + x];
        }
      }
      __syncthreads();
      for (int i = y; i < kTile; i += kRows) {
        if constexpr (packs) {
          if (pixel + i < pixels && channel + x < lanes)
            to[(image * pixels + pixel + i) * lanes + channel + x] = tile[x][i];
        } else {
          if (channel + i < channels && pixel + x < pixels)
            plain_out[static_cast<int64_t>(channel + i) * pixels + pixel + x] = tile[i][x];
        }
      }
      __syncthreads();
    }
  }
}

template <typename T>
cudaError_t run(const Pack& c, const Target& target) {
  const int64_t lanes = (c.channels + 7) / 8 * 8, tiles = (c.pixels + kTile - 1) / kTile;
  if (c.images == 0 || c.pixels == 0 || c.channels == 0) return cudaSuccess;
  const int64_t rows = (lanes + kTile - 1) / kTile;
  if (lanes >= int64_t{1} << 31 || rows > 65535) return cudaErrorInvalidValue;
  const dim3 grid(static_cast<unsigned>(tiles < (1 << 30) ? tiles : 1 << 30), static_cast<unsigned>(rows),
                  static_cast<unsigned>(c.images < 65535 ? c.images : 65535));
  const auto kernel = c.packs ? pack_kernel<T, true> : pack_kernel<T, false>;
  return launch(target, kernel, grid, kTile * kRows, 0, 1, static_cast<const T*>(c.from), static_cast<T*>(c.to),
                static_cast<int>(c.channels), static_cast<int>(lanes), c.pixels, tiles, c.images);
}

}  // namespace

cudaError_t pack(const Pack& problem, const Target& target) {
  switch (problem.element_bytes) {
    case 1:
      return run<uint8_t>(problem, target);
    case 2:
      return run<uint16_t>(problem, target);
    case 4:
      return run<uint32_t>(problem, target);
    case 8:
      return run<uint64_t>(problem, target);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace minnow::cuda
