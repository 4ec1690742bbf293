// GroupNorm of channels-last images, in two kernels: the moments of parts of each image, then all the rest. The moments
// are kept as a mean and the squared deviations from it, which no large mean drowns.
#include "kernels/cuda/group_norm.h"

#include <algorithm>

#include "kernels/cuda/eight.cuh"

namespace minnow::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMostChannels = 4096;
constexpr int kMostParts = 128;  // of an image

struct Moments {
  float count, mean, squares;

  __device__ __forceinline__ void join(const Moments& other) {
    const float total = count + other.count;
    if (total == 0.0f) return;
    const float delta = other.mean - mean, share = __fdividef(other.count, total);
    squares += other.squares + delta * delta * count * share;
    mean += delta * share;
    count = total;
  }
};

__device__ __forceinline__ void join_lanes(Moments* m) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) {
    const Moments other = {__shfl_xor_sync(0xffffffffu, m->count, o), __shfl_xor_sync(0xffffffffu, m->mean, o),
                           __shfl_xor_sync(0xffffffffu, m->squares, o)};
    m->join(other);
  }
}

template <typename T>
struct Arguments {
  const T* x;
  const void* scale;
  const void* bias;
  T* y;
  float2* moments;  // [images, parts, groups]: mean and squares
  int pixels, channels, padded, groups, part_pixels;
  float epsilon;
  bool wide_parameters;
  Activation activation;
};

template <typename T>
__device__ __forceinline__ float parameter(const Arguments<T>& a, const void* from, int channel) {
  return a.wide_parameters ? static_cast<const float*>(from)[channel] : to_float(static_cast<const T*>(from)[channel]);
}

__device__ __forceinline__ int part_begin(int part_pixels) { return static_cast<int>(blockIdx.x) * part_pixels; }

// Threads stand as [slices of the pixels][8 channels each]; `lanes` of the latter at a time.
struct Stand {
  int lanes, slices, lane, slice;
  __device__ __forceinline__ explicit Stand(int padded) {
    lanes = min(padded / 8, kThreads);
    slices = kThreads / lanes;
    lane = static_cast<int>(threadIdx.x) % lanes;
    slice = static_cast<int>(threadIdx.x) / lanes;  // may be `slices`: such a thread has nothing to do
  }
};

template <typename T>
__global__ void __launch_bounds__(kThreads) moments_kernel(const __grid_constant__ Arguments<T> a) {
  __shared__ float sums[kThreads * 8], squares[kThreads * 8];
  extern __shared__ float2 of_channels[];  // mean and squares of each
  allow_next();
  wait_previous();
  const Stand stand(a.padded);
  const int begin = part_begin(a.part_pixels), end = min(begin + a.part_pixels, a.pixels);
  const T* image = a.x + static_cast<size_t>(blockIdx.y) * a.pixels * a.padded;
  const float count = static_cast<float>(end - begin);
  for (int first = 0; first < a.padded / 8; first += stand.lanes) {
    const int channel = (first + stand.lane) * 8;
    const bool works = channel < a.padded && stand.slice < stand.slices;
    // Deviations from the first pixel.
    float origin[8] = {}, sum[8] = {}, square[8] = {};
    if (works) {
      load_eight(image + static_cast<size_t>(begin) * a.padded + channel, origin);
#pragma unroll 4
      for (int p = begin + stand.slice; p < end; p += stand.slices) {
        float v[8];
        load_eight(image + static_cast<size_t>(p) * a.padded + channel, v);
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          const float d = v[e] - origin[e];
          sum[e] += d;
          square[e] = fmaf(d, d, square[e]);
        }
      }
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        sums[(stand.slice * stand.lanes + stand.lane) * 8 + e] = sum[e];
        squares[(stand.slice * stand.lanes + stand.lane) * 8 + e] = square[e];
      }
    }
    __syncthreads();
    if (works && stand.slice == 0) {
      for (int s = 1; s < stand.slices; ++s) {
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          sum[e] += sums[(s * stand.lanes + stand.lane) * 8 + e];
          square[e] += squares[(s * stand.lanes + stand.lane) * 8 + e];
        }
      }
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float mean = sum[e] / count;
        of_channels[channel + e] = make_float2(origin[e] + mean, square[e] - sum[e] * mean);
      }
    }
    __syncthreads();
  }
  const int each = a.channels / a.groups, lane = static_cast<int>(threadIdx.x) & 31;
  float2* out = a.moments + (static_cast<size_t>(blockIdx.y) * gridDim.x + blockIdx.x) * a.groups;
  if (each == 1) {
    for (int g = static_cast<int>(threadIdx.x); g < a.groups; g += kThreads) out[g] = of_channels[g];
    return;
  }
  for (int g = static_cast<int>(threadIdx.x) >> 5; g < a.groups; g += kThreads / 32) {
    Moments m = {0.0f, 0.0f, 0.0f};
    for (int c = lane; c < each; c += 32) {
      const float2 one = of_channels[g * each + c];
      m.join({count, one.x, one.y});
    }
    join_lanes(&m);
    if (lane == 0) out[g] = make_float2(m.mean, m.squares);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) apply_kernel(const __grid_constant__ Arguments<T> a) {
  extern __shared__ float2 of_groups[];  // mean and factor of each
  allow_next();
  wait_previous();
  const int each = a.channels / a.groups, parts = static_cast<int>(gridDim.x);
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const float2* in = a.moments + static_cast<size_t>(blockIdx.y) * parts * a.groups;
  const auto moments_of = [&](int part, int g) {
    const int count = min(a.part_pixels, a.pixels - part * a.part_pixels);
    const float2 one = in[static_cast<size_t>(part) * a.groups + g];
    return Moments{static_cast<float>(count) * static_cast<float>(each), one.x, one.y};
  };
  const auto keep = [&](int g, const Moments& m) {
    of_groups[g] = make_float2(m.mean, rsqrtf(m.squares / m.count + a.epsilon));
  };
  if (a.groups >= kThreads) {
    for (int g = static_cast<int>(threadIdx.x); g < a.groups; g += kThreads) {
      Moments m = {0.0f, 0.0f, 0.0f};
      for (int part = 0; part < parts; ++part) m.join(moments_of(part, g));
      keep(g, m);
    }
  } else {
    for (int g = static_cast<int>(threadIdx.x) >> 5; g < a.groups; g += kThreads / 32) {
      Moments m = {0.0f, 0.0f, 0.0f};
      for (int part = lane; part < parts; part += 32) m.join(moments_of(part, g));
      join_lanes(&m);
      if (lane == 0) keep(g, m);
    }
  }
  __syncthreads();
  const Stand stand(a.padded);
  if (stand.slice >= stand.slices) return;
  const int begin = part_begin(a.part_pixels), end = min(begin + a.part_pixels, a.pixels);
  const size_t image = static_cast<size_t>(blockIdx.y) * a.pixels * a.padded;
  for (int channel = stand.lane * 8; channel < a.padded; channel += stand.lanes * 8) {
    float mean[8], factor[8], shift[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int c = min(channel + e, a.channels - 1);
      const float2 group = of_groups[c / each];
      mean[e] = group.x;
      factor[e] = a.scale == nullptr ? group.y : group.y * parameter(a, a.scale, c);
      shift[e] = a.bias == nullptr ? 0.0f : parameter(a, a.bias, c);
    }
#pragma unroll 4
    for (int p = begin + stand.slice; p < end; p += stand.slices) {
      const size_t place = image + static_cast<size_t>(p) * a.padded + channel;
      float v[8];
      load_eight(a.x + place, v);
#pragma unroll
      for (int e = 0; e < 8; ++e) v[e] = fmaf(v[e] - mean[e], factor[e], shift[e]);
      activate<kIsF32<T>>(v, a.activation);
      store_eight(a.y + place, v);
    }
  }
}

int part_pixels(const GroupNorm& n) {
  // About two blocks for each multiprocessor, and at least 16 pixels for each.
  const int parts = std::clamp(264 / std::max(1, n.images), 1, std::min(kMostParts, std::max(1, n.pixels / 16)));
  return (n.pixels + parts - 1) / parts;
}

int parts(const GroupNorm& n) { return (n.pixels + part_pixels(n) - 1) / part_pixels(n); }

template <typename T>
cudaError_t run(const GroupNorm& n, const Target& target) {
  const int padded = (n.channels + 7) / 8 * 8;
  if (n.images == 0 || n.pixels == 0 || n.channels == 0) return cudaSuccess;
  if (padded > kMostChannels || n.images > 65535 || n.channels % n.groups != 0) return cudaErrorInvalidValue;
  if (n.parameter_dtype != DType::kF32 && n.parameter_dtype != n.dtype) return cudaErrorInvalidValue;
  const Arguments<T> a = {static_cast<const T*>(n.x),
                          n.scale,
                          n.bias,
                          static_cast<T*>(n.y),
                          reinterpret_cast<float2*>(n.workspace),
                          n.pixels,
                          n.channels,
                          padded,
                          n.groups,
                          part_pixels(n),
                          n.epsilon,
                          n.parameter_dtype == DType::kF32,
                          n.activation};
  const dim3 grid(static_cast<unsigned>(parts(n)), static_cast<unsigned>(n.images));
  const int first_bytes = padded * static_cast<int>(sizeof(float2));
  const int second_bytes = n.groups * static_cast<int>(sizeof(float2));
  const cudaError_t error = launch(target, moments_kernel<T>, grid, kThreads, first_bytes, 1, a);
  if (error != cudaSuccess) return error;
  return launch(target, apply_kernel<T>, grid, kThreads, second_bytes, 1, a);
}

}  // namespace

int64_t group_norm_workspace(const GroupNorm& n) {
  if (n.images == 0 || n.pixels == 0) return 0;
  return static_cast<int64_t>(n.images) * parts(n) * n.groups * static_cast<int64_t>(sizeof(float2));
}

cudaError_t group_norm(const GroupNorm& problem, const Target& target) {
  return with_float_type(problem.dtype, [&](auto number) { return run<decltype(number)>(problem, target); });
}

}  // namespace minnow::cuda
