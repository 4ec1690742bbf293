// Layout conversions and elementwise combinations of channels-last images.
#include "kernels/cuda/layout.h"

#include "kernels/cuda/divide.h"
#include "kernels/cuda/eight.cuh"

namespace minnow::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPixels = 64, kChannels = 32;  // of a tile

template <typename From, typename To>
struct Change {
  const From* x;
  To* y;
  int channels, padded, pixels;
};

// Few channels: a thread reads or writes all of one pixel.
template <typename From, typename To, bool to_last>
__global__ void __launch_bounds__(kThreads) narrow_kernel(const __grid_constant__ Change<From, To> a) {
  allow_next();
  wait_previous();
  const int pixel = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (pixel >= a.pixels) return;
  const size_t image = blockIdx.y;
  float v[8];
  if (to_last) {
    const From* x = a.x + image * a.channels * a.pixels + pixel;
#pragma unroll
    for (int c = 0; c < 8; ++c) v[c] = c < a.channels ? to_float(x[static_cast<size_t>(c) * a.pixels]) : 0.0f;
    store_eight(a.y + (image * a.pixels + pixel) * 8, v);
  } else {
    load_eight(a.x + (image * a.pixels + pixel) * 8, v);
    To* y = a.y + image * a.channels * a.pixels + pixel;
#pragma unroll
    for (int c = 0; c < 8; ++c)
      if (c < a.channels) y[static_cast<size_t>(c) * a.pixels] = from_float<To>(v[c]);
  }
}

// Tiles of 64 pixels and 32 channels, turned in shared memory.
template <typename From, typename To, bool to_last>
__global__ void __launch_bounds__(kThreads) tile_kernel(const __grid_constant__ Change<From, To> a) {
  __shared__ float tile[kChannels][kPixels + 1];
  allow_next();
  wait_previous();
  const int thread = static_cast<int>(threadIdx.x);
  const int pixel0 = static_cast<int>(blockIdx.x) * kPixels, channel0 = static_cast<int>(blockIdx.y) * kChannels;
  const size_t image = blockIdx.z;
  // As 8 channels of a pixel lie in memory.
  const int last_pixel = thread / (kChannels / 8), last_channel = thread % (kChannels / 8) * 8;
  const bool inside = pixel0 + last_pixel < a.pixels && channel0 + last_channel < a.padded;
  const size_t last_place = (image * a.pixels + pixel0 + last_pixel) * a.padded + channel0 + last_channel;
  const auto each_plain = [&](auto one) {
#pragma unroll
    for (int i = thread; i < kPixels * kChannels; i += kThreads) {
      const int p = i % kPixels, c = i / kPixels;
      const bool there = pixel0 + p < a.pixels && channel0 + c < a.channels;
      one(p, c, there, (image * a.channels + channel0 + c) * a.pixels + pixel0 + p);
    }
  };
  float v[8];
  if (to_last) {
    each_plain([&](int p, int c, bool there, size_t place) { tile[c][p] = there ? to_float(a.x[place]) : 0.0f; });
    __syncthreads();
    if (!inside) return;
#pragma unroll
    for (int e = 0; e < 8; ++e) v[e] = tile[last_channel + e][last_pixel];
    store_eight(a.y + last_place, v);
  } else {
    if (inside) {
      load_eight(a.x + last_place, v);
#pragma unroll
      for (int e = 0; e < 8; ++e) tile[last_channel + e][last_pixel] = v[e];
    }
    __syncthreads();
    each_plain([&](int p, int c, bool there, size_t place) {
      if (there) a.y[place] = from_float<To>(tile[c][p]);
    });
  }
}

template <typename From, typename To>
cudaError_t run(const LayoutChange& p, const Target& target) {
  const int padded = (p.channels + 7) / 8 * 8;
  if (p.channels == 0 || p.images == 0 || p.pixels == 0) return cudaSuccess;
  if (p.images > 65535 || padded > 65535 * kChannels) return cudaErrorInvalidValue;
  const Change<From, To> a = {static_cast<const From*>(p.x), static_cast<To*>(p.y), p.channels, padded, p.pixels};
  if (padded == 8) {
    const dim3 grid(static_cast<unsigned>((p.pixels + kThreads - 1) / kThreads), static_cast<unsigned>(p.images));
    return launch(target, p.to_channels_last ? narrow_kernel<From, To, true> : narrow_kernel<From, To, false>, grid,
                  kThreads, 0, 1, a);
  }
  const dim3 grid(static_cast<unsigned>((p.pixels + kPixels - 1) / kPixels),
                  static_cast<unsigned>((padded + kChannels - 1) / kChannels), static_cast<unsigned>(p.images));
  return launch(target, p.to_channels_last ? tile_kernel<From, To, true> : tile_kernel<From, To, false>, grid, kThreads,
                0, 1, a);
}

template <typename T>
struct Operands {
  const T* x;
  const T* gate;
  const T* residual;
  T* y;
  int channels, gate_stride, threads;
  Activation activation;
  Divisor by_channels, by_pixels;
};

template <typename T>
__global__ void __launch_bounds__(kThreads) combine_kernel(const __grid_constant__ Operands<T> a) {
  allow_next();
  wait_previous();
  int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= a.threads) return;
  const size_t place = static_cast<size_t>(i) * 8;
  float v[8], other[8];
  load_eight(a.x + place, v);
  if (a.residual != nullptr) {
    load_eight(a.residual + place, other);
  } else {
#pragma unroll
    for (int e = 0; e < 8; ++e) other[e] = 0.0f;
  }
  if (a.gate != nullptr) {
    int pixel = a.by_channels.split(&i);
    const int image = a.by_pixels.split(&pixel);
    float gate[8];
    load_eight(a.gate + static_cast<size_t>(image) * a.gate_stride + 8 * i, gate);
#pragma unroll
    for (int e = 0; e < 8; ++e) v[e] = fmaf(v[e], gate[e], other[e]);
  } else if (a.residual != nullptr) {
#pragma unroll
    for (int e = 0; e < 8; ++e) v[e] += other[e];
  }
  activate<kIsF32<T>>(v, a.activation);
  store_eight(a.y + place, v);
}

template <typename T>
cudaError_t run(const Combine& p, const Target& target) {
  const int64_t threads = static_cast<int64_t>(p.images) * p.pixels * (p.channels / 8);
  if (threads >= int64_t{1} << 31) return cudaErrorInvalidValue;
  if (threads == 0) return cudaSuccess;
  const Operands<T> a = {static_cast<const T*>(p.x),
                         static_cast<const T*>(p.gate),
                         static_cast<const T*>(p.residual),
                         static_cast<T*>(p.y),
                         p.channels,
                         p.gate_stride,
                         static_cast<int>(threads),
                         p.activation,
                         Divisor(p.channels / 8),
                         Divisor(p.pixels)};
  return launch(target, combine_kernel<T>, dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads)), kThreads,
                0, 1, a);
}

}  // namespace

cudaError_t change_layout(const LayoutChange& problem, const Target& target) {
  const auto is = [&](DType from, DType to) { return problem.from == from && problem.to == to; };
  if (is(DType::kF32, DType::kF16)) return run<float, half>(problem, target);
  if (is(DType::kF32, DType::kBF16)) return run<float, bfloat16>(problem, target);
  if (is(DType::kF32, DType::kF32)) return run<float, float>(problem, target);
  if (is(DType::kF16, DType::kF32)) return run<half, float>(problem, target);
  if (is(DType::kF16, DType::kF16)) return run<half, half>(problem, target);
  if (is(DType::kBF16, DType::kF32)) return run<bfloat16, float>(problem, target);
  if (is(DType::kBF16, DType::kBF16)) return run<bfloat16, bfloat16>(problem, target);
  return cudaErrorInvalidValue;
}

cudaError_t combine(const Combine& problem, const Target& target) {
  return with_float_type(problem.dtype, [&](auto number) { return run<decltype(number)>(problem, target); });
}

}  // namespace minnow::cuda
