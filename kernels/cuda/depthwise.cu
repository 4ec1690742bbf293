// Depthwise convolution. A thread makes 8 channels of some neighboring pixels. Three ways: for 3x3 and 5x5 with stride
// 1 or 2 a thread makes a few pixels of one row (`row`), or, for 3x3, walks down some rows and keeps what it has read
// (`strip`); all others go tap by tap (`general`).
//
// In f16 what limits this is the conversion to f32, not memory. So the products of up to 5 neighbors are summed in f16,
// and these sums in f32.
#include "kernels/cuda/depthwise.h"

#include <type_traits>

#include "kernels/cuda/divide.h"
#include "kernels/cuda/eight.cuh"

namespace minnow::cuda {
namespace {

constexpr int kThreads = 128;

// The problem, and how threads are numbered: channels first, then columns, rows and images.
template <typename T>
struct Arguments {
  const T* x;
  const T* w;
  const float* bias;
  const T* residual;
  const T* gate;
  T* y;
  int height, width, channels, out_height, out_width;
  int kernel_height, kernel_width, stride_y, stride_x, dilation_y, dilation_x, pad_y, pad_x;
  int gate_stride, threads;
  Activation activation;
  Divisor by_channels, by_columns, by_rows;
};

// Which part of the results a thread makes.
struct Part {
  int channel, column, row, image;
  bool live;
};

template <typename T>
__device__ __forceinline__ Part part_of_thread(const Arguments<T>& a) {
  Part part;
  int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  part.live = i < a.threads;
  if (!part.live) i = 0;
  int rest = a.by_channels.split(&i);
  part.channel = i * 8;
  i = rest;
  rest = a.by_columns.split(&i);
  part.column = i;
  i = rest;
  part.image = a.by_rows.split(&i);
  part.row = i;
  return part;
}

// sum += the products of 8 channels of `taps` pixels, which lie `step` apart in `in`, and their weights.
template <int taps, int step, typename T>
__device__ __forceinline__ void add_products(const Eight<T>* in, const Eight<T>* w, float (&sum)[8]) {
  if constexpr (std::is_same_v<T, half>) {
    constexpr int now = taps <= 5 ? taps : 4;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const auto pair = [e](const Eight<T>& v) { return reinterpret_cast<const half2*>(v.part)[e]; };
      half2 products = __hmul2(pair(in[0]), pair(w[0]));
#pragma unroll
      for (int t = 1; t < now; ++t) products = __hfma2(pair(in[t * step]), pair(w[t]), products);
      const float2 f = __half22float2(products);
      sum[2 * e] += f.x;
      sum[2 * e + 1] += f.y;
    }
    if constexpr (taps > now) add_products<taps - now, step>(in + now * step, w + now, sum);
  } else {
#pragma unroll
    for (int t = 0; t < taps; ++t) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float2 v = in[t * step].floats(e), f = w[t].floats(e);
        sum[2 * e] = fmaf(v.x, f.x, sum[2 * e]);
        sum[2 * e + 1] = fmaf(v.y, f.y, sum[2 * e + 1]);
      }
    }
  }
}

// What all pixels of a thread share.
template <typename T>
struct Ending {
  float bias[8];
  float gate[8];

  __device__ __forceinline__ void read_bias(const Arguments<T>& a, int channel) {
#pragma unroll
    for (int e = 0; e < 8; ++e) bias[e] = a.bias == nullptr ? 0.0f : __ldg(a.bias + channel + e);
  }
  __device__ __forceinline__ void read_gate(const Arguments<T>& a, const Part& part) {
    if (a.gate != nullptr) load_eight(a.gate + static_cast<size_t>(part.image) * a.gate_stride + part.channel, gate);
  }
  __device__ __forceinline__ void write(const Arguments<T>& a, size_t place, float (&v)[8]) const {
#pragma unroll
    for (int e = 0; e < 8; ++e) v[e] = a.gate == nullptr ? v[e] + bias[e] : fmaf(v[e], gate[e], bias[e]);
    if (a.residual != nullptr) {
      float r[8];
      load_eight(a.residual + place, r);
#pragma unroll
      for (int e = 0; e < 8; ++e) v[e] += r[e];
    }
    activate<kIsF32<T>>(v, a.activation);
    store_eight(a.y + place, v);
  }
};

template <typename T>
__device__ __forceinline__ size_t pixel(const Arguments<T>& a, int image, int rows, int row, int columns, int column) {
  return ((static_cast<size_t>(image) * rows + row) * columns + column) * a.channels;
}

template <typename T, int K, int stride, int pixels>
__global__ void __launch_bounds__(kThreads) row_kernel(const __grid_constant__ Arguments<T> a) {
  allow_next();
  constexpr int reads = (pixels - 1) * stride + K;
  constexpr bool held = K == 3 && !kIsF32<T>;  // all weights in registers
  const Part part = part_of_thread(a);
  Eight<T> w[held ? K * K : K];
  const auto read_weights = [&](int first, int count) {
#pragma unroll
    for (int t = 0; t < count; ++t)
      w[t].load_constant(a.w + static_cast<size_t>(first + t) * a.channels + part.channel);
  };
  if (held) read_weights(0, K * K);
  Ending<T> ending;
  ending.read_bias(a, part.channel);
  wait_previous();
  if (!part.live) return;
  ending.read_gate(a, part);
  const int left = part.column * pixels * stride - a.pad_x, top = part.row * stride - a.pad_y;
  float sum[pixels][8] = {};
#pragma unroll
  for (int r = 0; r < K; ++r) {
    const int y = top + r;
    if (static_cast<unsigned>(y) >= static_cast<unsigned>(a.height)) continue;
    if (!held) read_weights(r * K, K);
    const T* row = a.x + pixel(a, part.image, a.height, y, a.width, 0) + part.channel;
    Eight<T> in[reads];
#pragma unroll
    for (int t = 0; t < reads; ++t) {
      const int x = left + t;
      if (static_cast<unsigned>(x) < static_cast<unsigned>(a.width)) {
        in[t].load(row + static_cast<size_t>(x) * a.channels);
      } else {
        in[t].zero();
      }
    }
#pragma unroll
    for (int p = 0; p < pixels; ++p) add_products<K, 1>(in + p * stride, w + (held ? r * K : 0), sum[p]);
  }
#pragma unroll
  for (int p = 0; p < pixels; ++p) {
    const int column = part.column * pixels + p;
    if (column < a.out_width)
      ending.write(a, pixel(a, part.image, a.out_height, part.row, a.out_width, column) + part.channel, sum[p]);
  }
}

// 3x3; `rows` rows of `pixels` pixels each.
template <typename T, int stride, int pixels, int rows>
__global__ void __launch_bounds__(kThreads) strip_kernel(const __grid_constant__ Arguments<T> a) {
  allow_next();
  constexpr int reads = (pixels - 1) * stride + 3;
  const Part part = part_of_thread(a);
  Eight<T> w[9];
#pragma unroll
  for (int t = 0; t < 9; ++t) w[t].load_constant(a.w + static_cast<size_t>(t) * a.channels + part.channel);
  Ending<T> ending;
  ending.read_bias(a, part.channel);
  wait_previous();
  if (!part.live) return;
  ending.read_gate(a, part);
  const int left = part.column * pixels * stride - a.pad_x, first = part.row * rows;
  Eight<T> in[3][reads];  // input row y is in[(y - top) % 3]
  const int top = first * stride - a.pad_y;
  const auto read = [&](int r) {
    const int y = top + r;
    const bool inside = static_cast<unsigned>(y) < static_cast<unsigned>(a.height);
    const T* row = a.x + (inside ? pixel(a, part.image, a.height, y, a.width, 0) : 0) + part.channel;
#pragma unroll
    for (int t = 0; t < reads; ++t) {
      const int x = left + t;
      if (inside && static_cast<unsigned>(x) < static_cast<unsigned>(a.width)) {
        in[r % 3][t].load(row + static_cast<size_t>(x) * a.channels);
      } else {
        in[r % 3][t].zero();
      }
    }
  };
#pragma unroll
  for (int r = 0; r < 3 - stride; ++r) read(r);
#pragma unroll
  for (int r = 0; r < rows; ++r) {
#pragma unroll
    for (int next = 0; next < stride; ++next) read(r * stride + 3 - stride + next);
    if (first + r >= a.out_height) return;
#pragma unroll
    for (int p = 0; p < pixels; ++p) {
      float sum[8] = {};
#pragma unroll
      for (int y = 0; y < 3; ++y) add_products<3, 1>(in[(r * stride + y) % 3] + p * stride, w + 3 * y, sum);
      const int column = part.column * pixels + p;
      if (column < a.out_width)
        ending.write(a, pixel(a, part.image, a.out_height, first + r, a.out_width, column) + part.channel, sum);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) general_kernel(const __grid_constant__ Arguments<T> a) {
  allow_next();
  const Part part = part_of_thread(a);
  Ending<T> ending;
  ending.read_bias(a, part.channel);
  wait_previous();
  if (!part.live) return;
  ending.read_gate(a, part);
  float sum[8] = {};
  for (int r = 0; r < a.kernel_height; ++r) {
    const int y = part.row * a.stride_y - a.pad_y + r * a.dilation_y;
    if (static_cast<unsigned>(y) >= static_cast<unsigned>(a.height)) continue;
    for (int s = 0; s < a.kernel_width; ++s) {
      const int x = part.column * a.stride_x - a.pad_x + s * a.dilation_x;
      if (static_cast<unsigned>(x) >= static_cast<unsigned>(a.width)) continue;
      Eight<T> in, w;
      in.load(a.x + pixel(a, part.image, a.height, y, a.width, x) + part.channel);
      w.load_constant(a.w + static_cast<size_t>(r * a.kernel_width + s) * a.channels + part.channel);
      add_products<1, 1>(&in, &w, sum);
    }
  }
  ending.write(a, pixel(a, part.image, a.out_height, part.row, a.out_width, part.column) + part.channel, sum);
}

template <typename T>
struct Choice {
  void (*kernel)(Arguments<T>);
  int pixels, rows;  // of a thread
  int least;         // threads from which on it is worth it: fewer do not fill the device
};

// The ways to compute it, the plainest last. More pixels of a thread read less.
template <typename T, int stride>
int choices(int kernel, Choice<T>* out) {
  constexpr bool halves = std::is_same_v<T, half>;
  int count = 0;
  if (kernel == 3) {
    if constexpr (halves) {
      out[count++] = {strip_kernel<T, stride, 2, 4>, 2, 4, stride == 1 ? 40000 : 140000};
      out[count++] = {row_kernel<T, 3, stride, 4>, 4, 1, 50000};
    }
    out[count++] = {row_kernel<T, 3, stride, 2>, 2, 1, 24000};
    out[count++] = {row_kernel<T, 3, stride, 1>, 1, 1, 0};
  } else if (kernel == 5) {
    if constexpr (halves) out[count++] = {row_kernel<T, 5, stride, 4>, 4, 1, 50000};
    out[count++] = {row_kernel<T, 5, stride, 2>, 2, 1, 24000};
    out[count++] = {row_kernel<T, 5, stride, 1>, 1, 1, 0};
  } else if constexpr (stride == 1) {
    if constexpr (halves) out[count++] = {row_kernel<T, 7, 1, 4>, 4, 1, 50000};
    out[count++] = {row_kernel<T, 7, 1, 2>, 2, 1, 24000};
    out[count++] = {row_kernel<T, 7, 1, 1>, 1, 1, 0};
  }
  return count;
}

template <typename T>
int choices(const Depthwise& d, Choice<T>* out) {
  const int kernel = d.kernel_height;
  const bool plain = d.dilation_y == 1 && d.dilation_x == 1 && d.stride_y == d.stride_x && kernel == d.kernel_width;
  int count = 0;
  if (plain && d.stride_y == 1 && (kernel == 3 || kernel == 5 || kernel == 7)) count = choices<T, 1>(kernel, out);
  if (plain && d.stride_y == 2 && (kernel == 3 || kernel == 5)) count = choices<T, 2>(kernel, out);
  if (count == 0) out[count++] = {general_kernel<T>, 1, 1, 0};
  return count;
}

constexpr int kMostChoices = 4;

template <typename T>
int64_t threads_of(const Depthwise& d, const Choice<T>& choice) {
  const int64_t columns = (d.out_width + choice.pixels - 1) / choice.pixels;
  const int64_t rows = (d.out_height + choice.rows - 1) / choice.rows;
  return d.images * rows * columns * (d.channels / 8);
}

template <typename T>
cudaError_t run(const Depthwise& d, const Target& target) {
  Choice<T> all[kMostChoices];
  const int count = choices<T>(d, all);
  int scheme = d.scheme;
  if (scheme < 0)
    for (scheme = 0; scheme + 1 < count && threads_of(d, all[scheme]) < all[scheme].least;) ++scheme;
  if (scheme >= count) return cudaErrorInvalidValue;
  const Choice<T>& choice = all[scheme];
  const int64_t threads = threads_of(d, choice);
  if (threads >= int64_t{1} << 31) return cudaErrorInvalidValue;
  if (threads == 0) return cudaSuccess;
  const int columns = (d.out_width + choice.pixels - 1) / choice.pixels;
  const int rows = (d.out_height + choice.rows - 1) / choice.rows;
  const Arguments<T> a = {static_cast<const T*>(d.x),
                          static_cast<const T*>(d.weights),
                          d.bias,
                          static_cast<const T*>(d.residual),
                          static_cast<const T*>(d.gate),
                          static_cast<T*>(d.y),
                          d.height,
                          d.width,
                          d.channels,
                          d.out_height,
                          d.out_width,
                          d.kernel_height,
                          d.kernel_width,
                          d.stride_y,
                          d.stride_x,
                          d.dilation_y,
                          d.dilation_x,
                          d.pad_y,
                          d.pad_x,
                          d.gate_stride,
                          static_cast<int>(threads),
                          d.activation,
                          Divisor(d.channels / 8),
                          Divisor(columns),
                          Divisor(rows)};
  return launch(target, choice.kernel, dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads)), kThreads, 0, 1,
                a);
}

}  // namespace

int depthwise_schemes(const Depthwise& problem) {
  Choice<half> halves[kMostChoices];
  Choice<bfloat16> bfloats[kMostChoices];
  Choice<float> floats[kMostChoices];
  return problem.dtype == DType::kF16    ? choices<half>(problem, halves)
         : problem.dtype == DType::kBF16 ? choices<bfloat16>(problem, bfloats)
                                         : choices<float>(problem, floats);
}

cudaError_t depthwise(const Depthwise& problem, const Target& target) {
  return with_float_type(problem.dtype, [&](auto number) { return run<decltype(number)>(problem, target); });
}

}  // namespace minnow::cuda
