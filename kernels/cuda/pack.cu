// A tile of 32 channels and 32 pixels goes through shared memory, so that both sides are read and written in rows.
#include "kernels/cuda/pack.h"

namespace minnow::cuda {
namespace {

constexpr int kTile = 32, kRows = 8, kThreads = 256;

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

// Up to 8 channels of bytes: a thread has all of a pixel, which are 8 bytes in one of the layouts.
template <bool packs>
__global__ void __launch_bounds__(kThreads) pack_few_kernel(const uint8_t* __restrict__ from, uint8_t* __restrict__ to,
                                                            int channels, int64_t pixels, int64_t images) {
  allow_next();
  wait_previous();
  const int64_t pixel = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (pixel >= pixels) return;
  for (int64_t image = blockIdx.y; image < images; image += gridDim.y) {
    const int64_t plain = image * channels * pixels + pixel, packed = (image * pixels + pixel) * 8;
    uint32_t word[2] = {0, 0};
    if constexpr (packs) {
#pragma unroll
      for (int c = 0; c < 8; ++c)
        if (c < channels) word[c / 4] |= static_cast<uint32_t>(from[plain + c * pixels]) << (8 * (c % 4));
      *reinterpret_cast<uint2*>(to + packed) = make_uint2(word[0], word[1]);
    } else {
      const uint2 v = *reinterpret_cast<const uint2*>(from + packed);
      word[0] = v.x, word[1] = v.y;
#pragma unroll
      for (int c = 0; c < 8; ++c)
        if (c < channels) to[plain + c * pixels] = static_cast<uint8_t>(word[c / 4] >> (8 * (c % 4)));
    }
  }
}

bool is_aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 8 == 0; }

template <typename T>
cudaError_t run(const Pack& c, const Target& target) {
  const int64_t lanes = (c.channels + 7) / 8 * 8, tiles = (c.pixels + kTile - 1) / kTile;
  if (c.images == 0 || c.pixels == 0 || c.channels == 0) return cudaSuccess;
  if constexpr (sizeof(T) == 1) {
    const int64_t blocks = (c.pixels + kThreads - 1) / kThreads;
    if (lanes == 8 && blocks < int64_t{1} << 30 && is_aligned(c.packs ? c.to : c.from)) {
      const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(c.images < 65535 ? c.images : 65535));
      return launch(target, c.packs ? pack_few_kernel<true> : pack_few_kernel<false>, grid, kThreads, 0, 1,
                    static_cast<const uint8_t*>(c.from), static_cast<uint8_t*>(c.to), static_cast<int>(c.channels),
                    c.pixels, c.images);
    }
  }
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
