// What the kernels for few rows of quantized weights share.
#pragma once

#include "kernels/cuda/divide.h"
#include "kernels/cuda/few_rows.cuh"
#include "kernels/cuda/product/ptx.cuh"
#include "kernels/cuda/quantized_tile.h"

namespace minnow::cuda {

struct QuantizedArguments {
  FewRowsArguments<half> product;
  const uint4* q;
  const float2* scale;
  const float2* offset;
  int units, groups;
  Divisor scales_of_group;  // how many of the scales that units read are of one group
};

template <int bits>
struct QuantizedUnit {
  static constexpr int kSize = 512 / bits;   // numbers along k, of which a thread has two times 16 bytes
  static constexpr int kParts = kSize / 32;  // products of 32 numbers
  static constexpr int kPartsOfStep = kParts / 2;
};

// The operand of a product of 16 numbers along k, as f16: 2^-24 times each of them, which is how f16 has its least
// numbers, so that it takes no conversion; of 4 bits 2^-20 times those of the upper rows.
__device__ __forceinline__ void widen(uint32_t word, uint32_t (&out)[4]) {
  const uint32_t high = word >> 8;
  out[0] = word & 0x000f000fu;
  out[1] = word & 0x00f000f0u;
  out[2] = high & 0x000f000fu;
  out[3] = high & 0x00f000f0u;
}
__device__ __forceinline__ void widen(uint32_t first, uint32_t second, uint32_t (&out)[4]) {
  out[0] = __byte_perm(first, 0, 0x4140);
  out[1] = __byte_perm(first, 0, 0x4342);
  out[2] = __byte_perm(second, 0, 0x4140);
  out[3] = __byte_perm(second, 0, 0x4342);
}

// x of a unit. What would be beyond k is 0 where there are offsets; elsewhere any number will do, since weights are 0.
template <int bits, bool offsets>
__device__ __forceinline__ void read_x(const half* x, int k, int unit, uint4 (&to)[QuantizedUnit<bits>::kParts]) {
#pragma unroll
  for (int i = 0; i < QuantizedUnit<bits>::kParts; ++i) {
    const int at = unit * QuantizedUnit<bits>::kSize + i * 32;
    if (offsets && at >= k) {
      to[i] = make_uint4(0, 0, 0, 0);
    } else {
      to[i] = *reinterpret_cast<const uint4*>(x + min(at, k - 32));
    }
  }
}

// sum += a unit of weights times x. Tensor cores add up the products of a group with the numbers, which are from 0 on,
// and with -2^(bits - 1). An infinite x makes NaN.
template <int bits, int kScales, bool offsets>
__device__ __forceinline__ void add_unit(const uint4 (&q)[2], const uint4 (&x)[QuantizedUnit<bits>::kParts],
                                         const float2 (&scale)[kScales], const float2 (&offset)[offsets ? kScales : 1],
                                         float (&sum)[4]) {
  constexpr int kParts = QuantizedUnit<bits>::kParts, kStep = QuantizedUnit<bits>::kPartsOfStep;
  constexpr int kEach = kParts / kScales;
  constexpr float kZero = bits == 4 ? 8.0f : 128.0f;
  constexpr float kLowerUnit = 16777216.0f, kUpperUnit = bits == 4 ? 1048576.0f : 16777216.0f;  // of the numbers
  // The other operand: the least number, or 1, to add up x alone.
  constexpr uint32_t kLower = offsets ? 0x3c003c00u : bits == 4 ? 0x80088008u : 0x80808080u;
  constexpr uint32_t kUpper = offsets ? 0x3c003c00u : 0x80808080u;
  const half* const type = nullptr;
#pragma unroll
  for (int s = 0; s < kScales; ++s) {
    float dots[4] = {}, ones[4] = {};
#pragma unroll
    for (int part = s * kEach; part < (s + 1) * kEach; ++part) {
      const uint4& w = q[part / kStep];
      const uint32_t words[4] = {w.x, w.y, w.z, w.w};
      const uint32_t xs[4] = {x[part].x, x[part].y, x[part].z, x[part].w};
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        uint32_t values[4];
        if constexpr (bits == 4) {
          widen(words[2 * (part % kStep) + j], values);
        } else {
          widen(words[2 * j], words[2 * j + 1], values);
        }
        multiply(dots, values, xs[2 * j], xs[2 * j + 1], type);
        multiply(offsets ? ones : dots, {kLower, kUpper, kLower, kUpper}, xs[2 * j], xs[2 * j + 1], type);
      }
    }
    const float scales[2] = {scale[s].x * kLowerUnit, scale[s].y * kUpperUnit};
#pragma unroll
    for (int e = 0; e < 4; ++e) sum[e] = fmaf(scales[e / 2], dots[e], sum[e]);
    if constexpr (offsets) {
      const float begin[2] = {fmaf(-kZero, scale[s].x, offset[s].x), fmaf(-kZero, scale[s].y, offset[s].y)};
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[e] = fmaf(begin[e / 2], ones[e], sum[e]);
    }
  }
}

}  // namespace minnow::cuda
