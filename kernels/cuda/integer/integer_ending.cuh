// From the exact sums of a row, 8 columns at a time, to memory.
#pragma once

#include "kernels/cuda/integer/fixed_point.cuh"

namespace minnow::cuda {

struct EightIntegers {
  int v[8];
};

__device__ __forceinline__ EightIntegers load_eight(const int32_t* from, int at) {
  const int4 a = *reinterpret_cast<const int4*>(from + at), b = *reinterpret_cast<const int4*>(from + at + 4);
  return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}
__device__ __forceinline__ int zero_of(const void* zero, bool is_unsigned) {
  return is_unsigned ? static_cast<int>(*static_cast<const uint8_t*>(zero)) - 128
                     : static_cast<int>(*static_cast<const int8_t*>(zero));
}

template <typename T>
__device__ __forceinline__ void store_eight(const IntegerEnding& end, int64_t at, int left, const int (&v)[8]) {
  T* to = static_cast<T*>(end.y) + at;
  if (end.wide) {
    constexpr int kWords = 2 * sizeof(T);
    uint32_t word[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if constexpr (sizeof(T) == 1) {
        word[i] = (v[4 * i] & 255) | (v[4 * i + 1] & 255) << 8 | (v[4 * i + 2] & 255) << 16 | v[4 * i + 3] << 24;
      } else if constexpr (sizeof(T) == 2) {
        word[i] = (v[2 * i] & 65535) | v[2 * i + 1] << 16;
      } else {
        word[i] = v[i];
      }
    }
    if constexpr (sizeof(T) == 1) {
      *reinterpret_cast<uint2*>(to) = make_uint2(word[0], word[1]);
    } else {
#pragma unroll
      for (int i = 0; i < kWords / 4; ++i)
        reinterpret_cast<uint4*>(to)[i] = make_uint4(word[4 * i], word[4 * i + 1], word[4 * i + 2], word[4 * i + 3]);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
    if (i < left) to[i] = static_cast<T>(v[i]);
}

// The sum with another tensor of bytes, and what follows it.
__device__ __forceinline__ void add_other(const IntegerEnding& end, int64_t at, int left, int (&v)[8]) {
  uint32_t other[8];
  if (end.wide) {
    const uint2 eight = *reinterpret_cast<const uint2*>(end.other + at);
#pragma unroll
    for (int i = 0; i < 8; ++i) other[i] = (i < 4 ? eight.x : eight.y) >> (8 * (i % 4)) & 255u;
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) other[i] = i < left ? end.other[at + i] : 0u;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint32_t sum = static_cast<uint32_t>(end.own[v[i] & 255]) + static_cast<uint32_t>(end.terms[other[i]]);
    v[i] = limited(scaled_by(static_cast<int>(sum), end.sum_factor, end.sum_shift), end.sum_zero, end.sum_least,
                   end.sum_most);
    if (end.last != nullptr) v[i] = end.last[v[i] & 255];
  }
}

// v: sums of row m and columns n to n + 7, of x less 128 where it is unsigned, and of the weights as they lie. `base`
// is where the product of the batch begins in y, `first` in the arrays. `x_zero`: its number, less 128 where x is
// unsigned.
__device__ __forceinline__ void finish_eight(const IntegerEnding& end, int64_t base, int first, int m, int n,
                                             int x_zero, int row_sum, int (&v)[8]) {
  if (n >= end.columns) return;
  const int64_t at = base + m * end.row + n;
  const int left = end.columns - n, column = first + n;
  if (end.bias != nullptr) {
    const EightIntegers b = load_eight(end.bias, column);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] += b.v[i];
  }
  if (end.correction != nullptr) {
    const EightIntegers b = load_eight(end.correction, column);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] -= x_zero * b.v[i];
  }
  if (end.w_zero != nullptr) {
    const EightIntegers b = load_eight(end.w_zero, column);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] -= (row_sum + end.row_sum_add) * b.v[i];
  }
  if (end.kind == IntegerEnding::kFixedPoint) {
    const EightIntegers factor = load_eight(end.factor, column), shift = load_eight(end.shift, column);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = limited(scaled_by(v[i], factor.v[i], shift.v[i]), end.zero, end.least, end.most);
  } else if (end.kind == IntegerEnding::kFactor) {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      v[i] = rounded(__fmul_rn(static_cast<float>(v[i]), end.scale[column + i]), end.zero, end.least, end.most);
  }
  if (end.table != nullptr) {
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = end.table[v[i] & 255];
  }
  if (end.other != nullptr) add_other(end, at, left, v);
  if (end.bytes == 1) {
    store_eight<uint8_t>(end, at, left, v);
  } else if (end.bytes == 2) {
    store_eight<uint16_t>(end, at, left, v);
  } else {
    store_eight<uint32_t>(end, at, left, v);
  }
}

}  // namespace minnow::cuda
