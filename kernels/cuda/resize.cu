// A thread makes 8 channels of a pixel.
#include "kernels/cuda/resize.h"

#include "kernels/cuda/divide.h"
#include "kernels/cuda/eight.cuh"

namespace minnow::cuda {
namespace {

constexpr int kThreads = 128;

template <typename T>
struct Images {
  const T* x;
  T* y;
  int channels, threads;
  Resize::Axis rows, columns;
  float outside;
  Divisor by_channels, by_columns, by_rows;
};

template <typename T, bool blends>
__global__ void __launch_bounds__(kThreads) resize_kernel(const __grid_constant__ Images<T> a) {
  allow_next();
  wait_previous();
  int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= a.threads) return;
  const size_t to = static_cast<size_t>(i) * 8;
  int column = a.by_channels.split(&i);
  const int channel = 8 * i;
  int row = a.by_columns.split(&column);
  const int image = a.by_rows.split(&row);
  const T* const x = a.x + static_cast<size_t>(image) * a.rows.in * a.columns.in * a.channels + channel;
  bool outside = false;
  Eight<T> one;
  float sum[8] = {};
  if constexpr (!blends) {
    const int r = __ldg(a.rows.index + row), c = __ldg(a.columns.index + column);
    outside = r < 0 || c < 0;
    if (!outside) one.load(x + (static_cast<size_t>(r) * a.columns.in + c) * a.channels);
  } else {
    for (int j = 0; j < a.rows.taps; ++j) {
      const int r = __ldg(a.rows.index + j * a.rows.out + row);
      outside = outside || r < 0;
      float line[8] = {};
      for (int k = 0; k < a.columns.taps; ++k) {
        const int c = __ldg(a.columns.index + k * a.columns.out + column);
        outside = outside || c < 0;
        const float weight = __ldg(a.columns.weight + k * a.columns.out + column);
        float v[8];
        load_eight(x + (static_cast<size_t>(max(r, 0)) * a.columns.in + max(c, 0)) * a.channels, v);
#pragma unroll
        for (int e = 0; e < 8; ++e) line[e] = fmaf(weight, v[e], line[e]);
      }
      const float weight = __ldg(a.rows.weight + j * a.rows.out + row);
#pragma unroll
      for (int e = 0; e < 8; ++e) sum[e] = fmaf(weight, line[e], sum[e]);
    }
  }
  if (outside) {
#pragma unroll
    for (int e = 0; e < 8; ++e) sum[e] = a.outside;
  }
  if (blends || outside) one.set(sum);
  one.store(a.y + to);
}

template <typename T>
cudaError_t run(const Resize& p, const Target& target) {
  const int64_t threads = static_cast<int64_t>(p.images) * p.rows.out * p.columns.out * (p.channels / 8);
  if (threads >= (int64_t{1} << 31) - kThreads || (p.rows.weight == nullptr) != (p.columns.weight == nullptr))
    return cudaErrorInvalidValue;
  if (threads == 0) return cudaSuccess;
  const Images<T> a = {static_cast<const T*>(p.x),
                       static_cast<T*>(p.y),
                       p.channels,
                       static_cast<int>(threads),
                       p.rows,
                       p.columns,
                       p.outside,
                       Divisor(p.channels / 8),
                       Divisor(p.columns.out),
                       Divisor(p.rows.out)};
  return launch(target, p.rows.weight == nullptr ? resize_kernel<T, false> : resize_kernel<T, true>,
                dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads)), kThreads, 0, 1, a);
}

}  // namespace

cudaError_t resize(const Resize& problem, const Target& target) {
  return with_float_type(problem.dtype, [&](auto number) { return run<decltype(number)>(problem, target); });
}

}  // namespace minnow::cuda
