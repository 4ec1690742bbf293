// Convolutions of bytes without tensor cores: depthwise ones, and those in groups of any sizes.
#include "kernels/cuda/divide.h"
#include "kernels/cuda/integer/integer_dot.cuh"
#include "kernels/cuda/integer/integer_ending.cuh"
#include "kernels/cuda/integer/integer_product.h"

namespace minnow::cuda {
namespace {

constexpr int kThreads = 128;

// How the threads of a depthwise convolution are numbered: by 8 channels, then columns, rows and images.
struct Parts {
  int threads;
  Divisor by_channels, by_columns, by_rows;
};

// Sums of 8 channels. A multiplication of two 16-bit numbers by bytes takes a channel out of 4 bytes by itself, since
// its weight stands beside a zero.
__device__ __forceinline__ void add_tap(uint2 x, const int (&weight)[8], int (&sum)[8]) {
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    const uint32_t part = e < 4 ? x.x : x.y;
    sum[e] = e % 4 < 2 ? dot_low(weight[e], part, sum[e]) : dot_high(weight[e], part, sum[e]);
  }
}

__device__ __forceinline__ void load_weights(const int32_t* words, int (&weight)[8]) {
  const int4 low = reinterpret_cast<const int4*>(words)[0], high = reinterpret_cast<const int4*>(words)[1];
  weight[0] = low.x, weight[1] = low.y, weight[2] = low.z, weight[3] = low.w;
  weight[4] = high.x, weight[5] = high.y, weight[6] = high.z, weight[7] = high.w;
}

// A thread makes 8 channels of kOutputs neighbors in a row. The kernel is K x K and not dilated; 0: as `p` says.
// kThreadsEach: few threads in a block spread small images over more processors.
template <int K, int kStride, int kOutputs, int kThreadsEach>
__global__ void __launch_bounds__(kThreadsEach)
    depthwise_kernel(const __grid_constant__ IntegerDepthwise p, const __grid_constant__ Parts parts) {
  allow_next();
  const IntegerArguments& a = p.shape;
  int index = static_cast<int>(blockIdx.x) * kThreadsEach + static_cast<int>(threadIdx.x);
  const bool live = index < parts.threads;
  if (!live) index = 0;
  int rest = parts.by_channels.split(&index);
  const int c = index * 8;
  index = rest;
  rest = parts.by_columns.split(&index);
  const int q0 = index * kOutputs;
  index = rest;
  const int image = parts.by_rows.split(&index), row = index;
  EightColumns columns;
  columns.load(a.end, c);
  const int32_t* words = p.words + c;
  int weight[K == 0 ? 1 : K][8];
  if constexpr (K > 0) {
#pragma unroll
    for (int s = 0; s < K; ++s) load_weights(words + s * p.channels, weight[s]);
  }
  wait_previous();
  if (!live) return;
  const int h0 = row * a.stride_h - a.pad_h, w0 = q0 * (K > 0 ? kStride : a.stride_w) - a.pad_w;
  const int8_t* x = static_cast<const int8_t*>(a.x) + static_cast<int64_t>(image) * a.H * a.W * a.pixel + c;
  uint2 outside = make_uint2(0, 0);
  if (a.pad != nullptr) outside = *static_cast<const uint2*>(a.pad);
  const auto read = [&](const int8_t* line, bool is_row, int w) {
    uint2 v = outside;
    if (is_row && static_cast<unsigned>(w) < static_cast<unsigned>(a.W))
      v = *reinterpret_cast<const uint2*>(line + w * a.pixel);
    return make_uint2(v.x ^ a.flip, v.y ^ a.flip);
  };
  int sum[kOutputs][8] = {};
  if constexpr (K > 0) {
    constexpr int kReads = (kOutputs - 1) * kStride + K;
#pragma unroll
    for (int r = 0; r < K; ++r) {
      const int h = h0 + r;
      const bool is_row = static_cast<unsigned>(h) < static_cast<unsigned>(a.H);
      const int8_t* line = x + static_cast<int64_t>(is_row ? h : 0) * a.W * a.pixel;
      uint2 in[kReads];
#pragma unroll
      for (int t = 0; t < kReads; ++t) in[t] = read(line, is_row, w0 + t);
      if (r > 0) {
#pragma unroll
        for (int s = 0; s < K; ++s) load_weights(words + (r * K + s) * p.channels, weight[s]);
      }
#pragma unroll
      for (int s = 0; s < K; ++s)
#pragma unroll
        for (int o = 0; o < kOutputs; ++o) add_tap(in[o * kStride + s], weight[s], sum[o]);
    }
  } else {
    for (int r = 0; r < a.R; ++r) {
      const int h = h0 + r * a.dilation_h;
      const bool is_row = static_cast<unsigned>(h) < static_cast<unsigned>(a.H);
      const int8_t* line = x + static_cast<int64_t>(is_row ? h : 0) * a.W * a.pixel;
      for (int s = 0; s < a.S; ++s) {
        load_weights(words + static_cast<int64_t>(r * a.S + s) * p.channels, weight[0]);
#pragma unroll
        for (int o = 0; o < kOutputs; ++o)
          add_tap(read(line, is_row, w0 + o * a.stride_w + s * a.dilation_w), weight[0], sum[o]);
      }
    }
  }
  const int x_zero = a.end.x_zero != nullptr ? zero_of(a.end.x_zero, a.flip != 0) : 0;
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    if (q0 + o >= a.Q) break;
    finish_eight(a.end, columns, (image * a.P + row) * a.Q + q0 + o, c, x_zero, sum[o]);
  }
}

template <int K, int kStride, int kOutputs, int kThreadsEach>
cudaError_t start_depthwise(const IntegerDepthwise& p, const Target& target) {
  const int across = (p.shape.Q + kOutputs - 1) / kOutputs;
  const int64_t threads = static_cast<int64_t>(p.images) * p.shape.P * across * (p.channels / 8);
  if (threads >= int64_t{1} << 31) return cudaErrorInvalidValue;
  const Parts parts{static_cast<int>(threads), Divisor(p.channels / 8), Divisor(across), Divisor(p.shape.P)};
  const int64_t blocks = (threads + kThreadsEach - 1) / kThreadsEach;
  return launch(target, depthwise_kernel<K, kStride, kOutputs, kThreadsEach>, dim3(static_cast<unsigned>(blocks)),
                kThreadsEach, 0, 1, p, parts);
}

// One result by a thread where there are too few for all processors.
template <int K, int kStride, int kOutputs>
cudaError_t start_square(const IntegerDepthwise& p, const Target& target) {
  const int64_t results = static_cast<int64_t>(p.shape.M) * (p.channels / 8);
  if (results < int64_t{256} * kOutputs * target.multiprocessors) return start_depthwise<K, kStride, 1, 64>(p, target);
  return start_depthwise<K, kStride, kOutputs, kThreads>(p, target);
}

__global__ void __launch_bounds__(kThreads) groups_kernel(const __grid_constant__ IntegerGroups p, int64_t work) {
  allow_next();
  wait_previous();
  const IntegerArguments& a = p.shape;
  const int all = p.groups * p.outputs, eights = (all + 7) / 8;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  const int less = p.x_zero_at != nullptr ? zero_of(p.x_zero_at, a.flip != 0) : p.x_zero;
  for (int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; index < work; index += stride) {
    const int first = static_cast<int>(index % eights) * 8;
    const int m = static_cast<int>(index / eights);
    const int image = m / (a.P * a.Q), place = m - image * a.P * a.Q, row = place / a.Q, column = place - row * a.Q;
    const int8_t* x = static_cast<const int8_t*>(a.x) + static_cast<int64_t>(image) * a.H * a.W * a.pixel;
    int v[8] = {}, row_sum[8] = {};
    for (int e = 0; e < 8 && first + e < all; ++e) {
      const int channel = first + e, from = channel / p.outputs * p.inputs;
      const int8_t* w = p.w + static_cast<int64_t>(channel) * a.R * a.S * p.inputs;
      for (int r = 0; r < a.R; ++r) {
        const int h = row * a.stride_h - a.pad_h + r * a.dilation_h;
        if (static_cast<unsigned>(h) >= static_cast<unsigned>(a.H)) continue;
        for (int s = 0; s < a.S; ++s) {
          const int at = column * a.stride_w - a.pad_w + s * a.dilation_w;
          if (static_cast<unsigned>(at) >= static_cast<unsigned>(a.W)) continue;
          const int8_t* pixel = x + (static_cast<int64_t>(h) * a.W + at) * a.pixel + from;
          const int8_t* taps = w + (r * a.S + s) * p.inputs;
          for (int i = 0; i < p.inputs; ++i) {
            const int one = static_cast<int8_t>(pixel[i] ^ static_cast<int8_t>(a.flip)) - less;
            v[e] += one * taps[i];
            row_sum[e] += one;
          }
        }
      }
    }
    // What is multiplied is x less its zero point: the zero points of the weights times that is all that is left.
    IntegerEnding end = a.end;
    if (end.w_zero != nullptr)
      for (int e = 0; e < 8 && first + e < all; ++e) v[e] -= row_sum[e] * end.w_zero[first + e];
    end.w_zero = nullptr;
    EightColumns columns;
    columns.load(end, first);
    finish_eight(end, columns, m, first, 0, v);
  }
}

}  // namespace

cudaError_t integer_depthwise(const IntegerDepthwise& p, const Target& target) {
  const IntegerArguments& a = p.shape;
  const bool square = a.R == a.S && a.stride_h == a.stride_w && a.dilation_h == 1 && a.dilation_w == 1;
  if (square && a.R == 3 && a.stride_h == 1) return start_square<3, 1, 4>(p, target);
  if (square && a.R == 3 && a.stride_h == 2) return start_square<3, 2, 2>(p, target);
  if (square && a.R == 5 && a.stride_h == 1) return start_square<5, 1, 4>(p, target);
  if (square && a.R == 5 && a.stride_h == 2) return start_square<5, 2, 2>(p, target);
  return start_depthwise<0, 0, 4, kThreads>(p, target);
}

cudaError_t integer_groups(const IntegerGroups& p, const Target& target) {
  const int64_t work = static_cast<int64_t>(p.images) * p.shape.P * p.shape.Q * ((p.groups * p.outputs + 7) / 8);
  const int64_t blocks = (work + kThreads - 1) / kThreads;
  return launch(target, groups_kernel, dim3(static_cast<unsigned>(blocks < 65535 ? blocks : 65535)), kThreads, 0, 1, p,
                work);
}

}  // namespace minnow::cuda
