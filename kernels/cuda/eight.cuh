// Eight neighbors in memory, as channels-last kernels read and write them, converted to float.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/core/dtype.h"

namespace minnow::cuda {

using half = __half;
using half2 = __half2;
using bfloat16 = __nv_bfloat16;

// What `run` gives for a number of the type, by whose type it is a template.
template <typename Run>
cudaError_t with_float_type(DType dtype, Run run) {
  switch (dtype) {
    case DType::kF16:
      return run(half());
    case DType::kBF16:
      return run(bfloat16());
    case DType::kF32:
      return run(float());
    default:
      return cudaErrorInvalidValue;
  }
}

template <typename T>
constexpr bool kIsF32 = sizeof(T) == 4;

__device__ __forceinline__ float2 pair_to_floats(uint32_t pair, half) {
  return __half22float2(*reinterpret_cast<const half2*>(&pair));
}
__device__ __forceinline__ float2 pair_to_floats(uint32_t pair, bfloat16) {
  return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}
__device__ __forceinline__ uint32_t floats_to_pair(float low, float high, half) {
  const half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
__device__ __forceinline__ uint32_t floats_to_pair(float low, float high, bfloat16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// As they lie in memory, which is aligned to 16 bytes.
template <typename T>
struct Eight {
  uint4 part[sizeof(T) / 2];

  __device__ __forceinline__ void zero() {
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(T) / 2); ++i) part[i] = make_uint4(0, 0, 0, 0);
  }
  __device__ __forceinline__ void load(const T* from) {
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(T) / 2); ++i) part[i] = reinterpret_cast<const uint4*>(from)[i];
  }
  // For what no kernel writes while this one runs or before it: constants.
  __device__ __forceinline__ void load_constant(const T* from) {
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(T) / 2); ++i) part[i] = __ldg(reinterpret_cast<const uint4*>(from) + i);
  }
  __device__ __forceinline__ void store(T* to) const {
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(T) / 2); ++i) reinterpret_cast<uint4*>(to)[i] = part[i];
  }
  // Numbers 2 i and 2 i + 1.
  __device__ __forceinline__ float2 floats(int i) const {
    const uint32_t* words = reinterpret_cast<const uint32_t*>(part);
    if constexpr (kIsF32<T>) {
      return make_float2(__uint_as_float(words[2 * i]), __uint_as_float(words[2 * i + 1]));
    } else {
      return pair_to_floats(words[i], T());
    }
  }
  __device__ __forceinline__ void floats(float (&v)[8]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 f = floats(i);
      v[2 * i] = f.x;
      v[2 * i + 1] = f.y;
    }
  }
  __device__ __forceinline__ void set(const float (&v)[8]) {
    uint32_t* words = reinterpret_cast<uint32_t*>(part);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kIsF32<T>) {
        words[2 * i] = __float_as_uint(v[2 * i]);
        words[2 * i + 1] = __float_as_uint(v[2 * i + 1]);
      } else {
        words[i] = floats_to_pair(v[2 * i], v[2 * i + 1], T());
      }
    }
  }
};

template <typename T>
__device__ __forceinline__ void load_eight(const T* from, float (&v)[8]) {
  Eight<T> raw;
  raw.load(from);
  raw.floats(v);
}
template <typename T>
__device__ __forceinline__ void store_eight(T* to, const float (&v)[8]) {
  Eight<T> raw;
  raw.set(v);
  raw.store(to);
}

template <typename T>
__device__ __forceinline__ float to_float(T v) {
  if constexpr (kIsF32<T>) {
    return v;
  } else {
    return static_cast<float>(v);
  }
}
template <typename T>
__device__ __forceinline__ T from_float(float v) {
  if constexpr (kIsF32<T>) {
    return v;
  } else {
    return static_cast<T>(v);
  }
}

}  // namespace minnow::cuda
