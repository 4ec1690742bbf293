// Convolutions of bytes without tensor cores: depthwise ones, and those in groups of any sizes.
#include "kernels/cuda/integer/integer_dot.cuh"
#include "kernels/cuda/integer/integer_ending.cuh"
#include "kernels/cuda/integer/integer_product.h"

namespace minnow::cuda {
namespace {

constexpr int kThreads = 128, kOutputs = 4;

// A thread makes 8 channels of kOutputs neighbors in a row. A multiplication of two 16-bit numbers by bytes takes a
// channel out of 4 bytes by itself, since its weight stands beside a zero.
__global__ void __launch_bounds__(kThreads)
    depthwise_kernel(const __grid_constant__ IntegerDepthwise p, int across, int64_t work) {
  allow_next();
  wait_previous();
  const IntegerArguments& a = p.shape;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= work) return;
  const int eights = p.channels / 8;
  const int c = static_cast<int>(index % eights) * 8;
  int64_t rest = index / eights;
  const int q0 = static_cast<int>(rest % across) * kOutputs;
  rest /= across;
  const int row = static_cast<int>(rest % a.P);
  const int image = static_cast<int>(rest / a.P);
  const int h0 = row * a.stride_h - a.pad_h, w0 = q0 * a.stride_w - a.pad_w;
  const int8_t* x = static_cast<const int8_t*>(a.x) + static_cast<int64_t>(image) * a.H * a.W * a.pixel + c;
  uint2 outside = make_uint2(0, 0);
  if (a.pad != nullptr) outside = *static_cast<const uint2*>(a.pad);
  int sum[kOutputs][8] = {};
  for (int r = 0; r < a.R; ++r) {
    const int h = h0 + r * a.dilation_h;
    const bool is_row = static_cast<unsigned>(h) < static_cast<unsigned>(a.H);
    const int8_t* line = x + static_cast<int64_t>(is_row ? h : 0) * a.W * a.pixel;
    for (int s = 0; s < a.S; ++s) {
      const int4* words = reinterpret_cast<const int4*>(p.words + static_cast<int64_t>(r * a.S + s) * p.channels + c);
      const int4 low = words[0], high = words[1];
      const int weight[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
      for (int o = 0; o < kOutputs; ++o) {
        const int w = w0 + o * a.stride_w + s * a.dilation_w;
        uint2 v = outside;
        if (is_row && static_cast<unsigned>(w) < static_cast<unsigned>(a.W))
          v = *reinterpret_cast<const uint2*>(line + static_cast<int64_t>(w) * a.pixel);
        const uint32_t part[2] = {v.x ^ a.flip, v.y ^ a.flip};
#pragma unroll
        for (int e = 0; e < 8; ++e)
          sum[o][e] =
              e % 4 < 2 ? dot_low(weight[e], part[e / 4], sum[o][e]) : dot_high(weight[e], part[e / 4], sum[o][e]);
      }
    }
  }
  const int x_zero = a.end.x_zero != nullptr ? zero_of(a.end.x_zero, a.flip != 0) : 0;
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    if (q0 + o >= a.Q) break;
    finish_eight(a.end, 0, 0, (image * a.P + row) * a.Q + q0 + o, c, x_zero, 0, sum[o]);
  }
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
    finish_eight(end, 0, 0, m, first, 0, 0, v);
  }
}

}  // namespace

cudaError_t integer_depthwise(const IntegerDepthwise& p, const Target& target) {
  const int across = (p.shape.Q + kOutputs - 1) / kOutputs;
  const int64_t work = static_cast<int64_t>(p.images) * p.shape.P * across * (p.channels / 8);
  const int64_t blocks = (work + kThreads - 1) / kThreads;
  if (blocks >= int64_t{1} << 31) return cudaErrorInvalidValue;
  return launch(target, depthwise_kernel, dim3(static_cast<unsigned>(blocks)), kThreads, 0, 1, p, across, work);
}

cudaError_t integer_groups(const IntegerGroups& p, const Target& target) {
  const int64_t work = static_cast<int64_t>(p.images) * p.shape.P * p.shape.Q * ((p.groups * p.outputs + 7) / 8);
  const int64_t blocks = (work + kThreads - 1) / kThreads;
  return launch(target, groups_kernel, dim3(static_cast<unsigned>(blocks < 65535 ? blocks : 65535)), kThreads, 0, 1, p,
                work);
}

}  // namespace minnow::cuda
