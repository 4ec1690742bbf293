// Pooling. Under a window a thread makes 8 channels of one pixel; under a large one a block makes the maxima of rows,
// and of these those of columns. Of whole images a block makes 64 channels; where these are too few blocks, a cluster
// of blocks shares the pixels.
#include "kernels/cuda/pool.h"

#include <cooperative_groups.h>

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/activation.h"
#include "kernels/cuda/divide.h"
#include "kernels/cuda/eight.cuh"

namespace minnow::cuda {
namespace {

constexpr int kThreads = 128;

__device__ __forceinline__ float greater_or_nan(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float most;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
  return most;
#else
  return a != a || a > b ? a : b;
#endif
}

// most = the greater ones.
template <typename T>
__device__ __forceinline__ void raise(Eight<T>* most, const Eight<T>& v) {
#if __CUDA_ARCH__ >= 800
  if constexpr (!kIsF32<T>) {
    using Pair = std::conditional_t<std::is_same_v<T, half>, half2, __nv_bfloat162>;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      Pair& to = reinterpret_cast<Pair*>(most->part)[e];
      to = __hmax2_nan(to, reinterpret_cast<const Pair*>(v.part)[e]);
    }
    return;
  }
#endif
  float a[8], b[8];
  most->floats(a);
  v.floats(b);
#pragma unroll
  for (int e = 0; e < 8; ++e) a[e] = greater_or_nan(a[e], b[e]);
  most->set(a);
}

template <typename T>
struct Window {
  const T* x;
  T* y;
  int height, width, channels, out_height, out_width;
  int kernel_height, kernel_width, stride_y, stride_x, dilation_y, dilation_x, pad_y, pad_x, pad_y_end, pad_x_end;
  int threads;
  bool count_padding;
  Divisor by_channels, by_columns, by_rows;
};

// `K`: the size of the window, 0 for any.
template <typename T, bool maximum, int K>
__global__ void __launch_bounds__(kThreads) window_kernel(const __grid_constant__ Window<T> a) {
  allow_next();
  wait_previous();
  int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= a.threads) return;
  int rest = a.by_channels.split(&i);
  const int channel = 8 * i;
  i = rest;
  rest = a.by_columns.split(&i);
  const int column = i;
  i = rest;
  const int image = a.by_rows.split(&i), row = i;
  const int top = row * a.stride_y - a.pad_y, left = column * a.stride_x - a.pad_x;
  const int kernel_height = K == 0 ? a.kernel_height : K, kernel_width = K == 0 ? a.kernel_width : K;
  float result[8];
#pragma unroll
  for (int e = 0; e < 8; ++e) result[e] = maximum ? -INFINITY : 0.0f;
  Eight<T> most;
  most.set(result);
  int count = 0;
#pragma unroll K == 0 ? 1 : K
  for (int r = 0; r < kernel_height; ++r) {
    const int y = top + r * a.dilation_y;
    const bool row_inside = static_cast<unsigned>(y) < static_cast<unsigned>(a.height);
    const bool row_counts = row_inside || (a.count_padding && y >= -a.pad_y && y < a.height + a.pad_y_end);
#pragma unroll K == 0 ? 2 : K
    for (int s = 0; s < kernel_width; ++s) {
      const int x = left + s * a.dilation_x;
      const bool inside = row_inside && static_cast<unsigned>(x) < static_cast<unsigned>(a.width);
      if (!maximum) {
        const bool counts = row_counts && (static_cast<unsigned>(x) < static_cast<unsigned>(a.width) ||
                                           (a.count_padding && x >= -a.pad_x && x < a.width + a.pad_x_end));
        count += counts ? 1 : 0;
      }
      if (!inside) continue;
      Eight<T> in;
      in.load(a.x + ((static_cast<size_t>(image) * a.height + y) * a.width + x) * a.channels + channel);
      if (maximum) {
        raise(&most, in);
      } else {
        float v[8];
        in.floats(v);
#pragma unroll
        for (int e = 0; e < 8; ++e) result[e] += v[e];
      }
    }
  }
  T* const to = a.y + ((static_cast<size_t>(image) * a.out_height + row) * a.out_width + column) * a.channels + channel;
  if constexpr (maximum) {
    most.store(to);
  } else {
#pragma unroll
    for (int e = 0; e < 8; ++e) result[e] /= static_cast<float>(count);
    store_eight(to, result);
  }
}

// The maximum under a large window: of 8 channels and some rows of results, first along the rows, then along the
// columns, with what is between in shared memory.
constexpr int kLargeThreads = 256, kLargeBytes = 48 << 10;
constexpr int kLargeWindow = 16;  // elements

template <typename T>
__global__ void __launch_bounds__(kLargeThreads) large_kernel(const __grid_constant__ Window<T> a, int rows) {
  extern __shared__ uint4 memory[];
  constexpr int kWords = sizeof(T) / 2;
  allow_next();
  wait_previous();
  const int thread = static_cast<int>(threadIdx.x), channel = static_cast<int>(blockIdx.x) * 8;
  const int first = static_cast<int>(blockIdx.y) * rows, count = min(rows, a.out_height - first);
  const int reach = (a.kernel_height - 1) * a.dilation_y + 1;
  const int top = max(first * a.stride_y - a.pad_y, 0);
  const int bottom = min((first + count - 1) * a.stride_y - a.pad_y + reach, a.height);
  Eight<T>* const in = reinterpret_cast<Eight<T>*>(memory);
  Eight<T>* const across = reinterpret_cast<Eight<T>*>(memory + kWords * ((rows - 1) * a.stride_y + reach) * a.width);
  const T* const x = a.x + (static_cast<size_t>(blockIdx.z) * a.height + top) * a.width * a.channels + channel;
  for (int i = thread; i < (bottom - top) * a.width; i += kLargeThreads)
    in[i].load(x + static_cast<size_t>(i) * a.channels);
  __syncthreads();
  float nothing[8];
#pragma unroll
  for (int e = 0; e < 8; ++e) nothing[e] = -INFINITY;
  for (int i = thread; i < (bottom - top) * a.out_width; i += kLargeThreads) {
    int column = i;
    const int row = a.by_columns.split(&column), left = column * a.stride_x - a.pad_x;
    Eight<T> most;
    most.set(nothing);
    for (int s = 0; s < a.kernel_width; ++s) {
      const int at = left + s * a.dilation_x;
      if (static_cast<unsigned>(at) < static_cast<unsigned>(a.width)) raise(&most, in[row * a.width + at]);
    }
    across[i] = most;
  }
  __syncthreads();
  T* const y = a.y + (static_cast<size_t>(blockIdx.z) * a.out_height + first) * a.out_width * a.channels + channel;
  for (int i = thread; i < count * a.out_width; i += kLargeThreads) {
    int column = i;
    const int row = a.by_columns.split(&column), begin = (first + row) * a.stride_y - a.pad_y;
    Eight<T> most;
    most.set(nothing);
    for (int r = 0; r < a.kernel_height; ++r) {
      const int at = begin + r * a.dilation_y;
      if (at >= top && at < bottom) raise(&most, across[(at - top) * a.out_width + column]);
    }
    most.store(y + static_cast<size_t>(i) * a.channels);
  }
}

// How many rows of results a block makes; 0: not even one fits.
template <typename T>
int large_rows(const Pool& p, const Target& target) {
  const auto bytes = [&](int rows) {
    const int64_t in = int64_t{rows - 1} * p.stride_y + int64_t{p.kernel_height - 1} * p.dilation_y + 1;
    return in * (int64_t{p.width} + p.out_width) * static_cast<int64_t>(8 * sizeof(T));
  };
  if (!p.maximum || int64_t{p.kernel_height} * p.kernel_width < kLargeWindow || p.images > 65535) return 0;
  int rows = p.out_height;
  while (rows > 1 && bytes(rows) > kLargeBytes) rows = (rows + 1) / 2;
  if (bytes(rows) > kLargeBytes || (p.out_height + rows - 1) / rows > 65535) return 0;
  const auto blocks = [&] { return int64_t{p.images} * (p.channels / 8) * ((p.out_height + rows - 1) / rows); };
  while (rows > 4 && blocks() < target.multiprocessors) rows = (rows + 1) / 2;
  return rows;
}

template <typename T>
cudaError_t run_large(const Window<T>& a, const Pool& p, int rows, const Target& target) {
  const int in = (rows - 1) * p.stride_y + (p.kernel_height - 1) * p.dilation_y + 1;
  const int bytes = in * (p.width + p.out_width) * static_cast<int>(8 * sizeof(T));
  const dim3 grid(static_cast<unsigned>(p.channels / 8), static_cast<unsigned>((p.out_height + rows - 1) / rows),
                  static_cast<unsigned>(p.images));
  return launch(target, large_kernel<T>, grid, kLargeThreads, bytes, 1, a, rows);
}

template <typename T>
cudaError_t run_window(const Pool& p, const Target& target) {
  const int64_t threads = static_cast<int64_t>(p.images) * p.out_height * p.out_width * (p.channels / 8);
  if (threads >= int64_t{1} << 31) return cudaErrorInvalidValue;
  if (threads == 0) return cudaSuccess;
  const Window<T> a = {static_cast<const T*>(p.x),
                       static_cast<T*>(p.y),
                       p.height,
                       p.width,
                       p.channels,
                       p.out_height,
                       p.out_width,
                       p.kernel_height,
                       p.kernel_width,
                       p.stride_y,
                       p.stride_x,
                       p.dilation_y,
                       p.dilation_x,
                       p.pad_y,
                       p.pad_x,
                       p.pad_y_end,
                       p.pad_x_end,
                       static_cast<int>(threads),
                       p.count_padding,
                       Divisor(p.channels / 8),
                       Divisor(p.out_width),
                       Divisor(p.out_height)};
  if (const int rows = large_rows<T>(p, target); rows > 0) return run_large(a, p, rows, target);
  const int k = p.kernel_height == p.kernel_width ? p.kernel_height : 0;
  void (*kernel)(Window<T>) = nullptr;
  if (p.maximum) {
    kernel = k == 2 ? window_kernel<T, true, 2> : k == 3 ? window_kernel<T, true, 3> : window_kernel<T, true, 0>;
  } else {
    kernel = k == 2 ? window_kernel<T, false, 2> : k == 3 ? window_kernel<T, false, 3> : window_kernel<T, false, 0>;
  }
  return launch(target, kernel, dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads)), kThreads, 0, 1, a);
}

constexpr int kWholeThreads = 256;

template <typename T>
struct Whole {
  const T* x;
  T* y;
  int pixels, channels, kept, y_stride;
  int chunks;  // of 8 channels each, that a block makes: a power of two up to 8
};

template <bool maximum>
__device__ __forceinline__ float join(float a, float b) {
  return maximum ? greater_or_nan(a, b) : a + b;
}

template <typename T, bool maximum, bool clustered>
__global__ void __launch_bounds__(kWholeThreads) whole_kernel(const __grid_constant__ Whole<T> a) {
  __shared__ float part[kWholeThreads / 32 * 64], results[64];
  allow_next();
  wait_previous();
  const int thread = static_cast<int>(threadIdx.x), image = static_cast<int>(blockIdx.y);
  const int width = a.chunks * 8, slices = kWholeThreads / a.chunks;
  const int chunk = thread % a.chunks, slice = thread / a.chunks;
  const int channel = static_cast<int>(blockIdx.x) * width + chunk * 8;
  const float nothing = maximum ? -INFINITY : 0.0f;
  float sum[8];
#pragma unroll
  for (int e = 0; e < 8; ++e) sum[e] = nothing;
  if (channel < a.channels) {
    const T* from = a.x + static_cast<size_t>(image) * a.pixels * a.channels + channel;
    const int step = slices * static_cast<int>(gridDim.z);
#pragma unroll 8
    for (int p = static_cast<int>(blockIdx.z) * slices + slice; p < a.pixels; p += step) {
      float v[8];
      load_eight(from + static_cast<size_t>(p) * a.channels, v);
#pragma unroll
      for (int e = 0; e < 8; ++e) sum[e] = join<maximum>(sum[e], v[e]);
    }
  }
  // Of the slices of a warp, then of all.
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) {
    if (o < a.chunks) break;
#pragma unroll
    for (int e = 0; e < 8; ++e) sum[e] = join<maximum>(sum[e], __shfl_xor_sync(0xffffffffu, sum[e], o));
  }
  const int lane = thread & 31, warp = thread >> 5;
  if (lane < a.chunks) {
#pragma unroll
    for (int e = 0; e < 8; ++e) part[warp * 64 + lane * 8 + e] = sum[e];
  }
  __syncthreads();
  float total = nothing;
  if (thread < width) {
#pragma unroll
    for (int w = 0; w < kWholeThreads / 32; ++w) total = join<maximum>(total, part[w * 64 + thread]);
    results[thread] = total;
  }
#if __CUDA_ARCH__ >= 900
  if constexpr (clustered) {
    auto cluster = cooperative_groups::this_cluster();
    cluster.sync();
    if (cluster.block_rank() == 0 && thread < width) {
      for (unsigned b = 1; b < cluster.num_blocks(); ++b)
        total = join<maximum>(total, *cluster.map_shared_rank(&results[thread], b));
    }
    cluster.sync();  // the memory of a block that has ended is gone
    if (cluster.block_rank() != 0) return;
  }
#endif
  const int kept = static_cast<int>(blockIdx.x) * width + thread;
  if (thread < width && kept < a.kept)
    a.y[static_cast<size_t>(image) * a.y_stride + kept] =
        from_float<T>(maximum ? total : total / static_cast<float>(a.pixels));
}

template <typename T>
cudaError_t run_whole(const GlobalPool& p, const Target& target) {
  Whole<T> a = {static_cast<const T*>(p.x), static_cast<T*>(p.y), p.pixels, p.channels, p.kept_channels, p.y_stride, 8};
  while (a.chunks > 1 && a.chunks * 4 >= p.channels) a.chunks /= 2;
  const int across = (p.channels + a.chunks * 8 - 1) / (a.chunks * 8), slices = kWholeThreads / a.chunks;
  // Blocks that share an image's pixels, until the device is full or a thread has little left.
  int shared = 1;
  while (target.overlap && shared < 8 && static_cast<int64_t>(across) * p.images * shared < 132 &&
         p.pixels > slices * shared * 4)
    shared *= 2;
  void (*kernel)(Whole<T>) = nullptr;
  if (shared > 1) {
    kernel = p.maximum ? whole_kernel<T, true, true> : whole_kernel<T, false, true>;
  } else {
    kernel = p.maximum ? whole_kernel<T, true, false> : whole_kernel<T, false, false>;
  }
  if (p.images > 65535) return cudaErrorInvalidValue;
  return launch(target, kernel,
                dim3(static_cast<unsigned>(across), static_cast<unsigned>(p.images), static_cast<unsigned>(shared)),
                kWholeThreads, 0, shared, a);
}

}  // namespace

cudaError_t pool(const Pool& problem, const Target& target) {
  return with_float_type(problem.dtype, [&](auto number) { return run_window<decltype(number)>(problem, target); });
}

cudaError_t global_pool(const GlobalPool& problem, const Target& target) {
  return with_float_type(problem.dtype, [&](auto number) { return run_whole<decltype(number)>(problem, target); });
}

}  // namespace minnow::cuda
