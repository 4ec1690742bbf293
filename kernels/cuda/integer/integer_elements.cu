#include "kernels/cuda/integer/integer_elements.h"

#include "kernels/cuda/eight.cuh"
#include "kernels/cuda/integer/fixed_point.cuh"

namespace minnow::cuda {
namespace {

constexpr int kThreads = 256, kTogether = 16;

__device__ __forceinline__ int byte_of(uint32_t word, int i, bool is_signed) {
  const uint32_t byte = word >> (8 * i) & 255u;
  return is_signed ? static_cast<int8_t>(byte) : static_cast<int>(byte);
}
__device__ __forceinline__ int byte_at(const void* from, int64_t i, bool is_signed) {
  return is_signed ? static_cast<const int8_t*>(from)[i] : static_cast<const uint8_t*>(from)[i];
}
__device__ __forceinline__ bool is_aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

// Of `count` elements those of this thread: 16 at once where they are all there, by `whole(first)`, else by `one(i)`.
template <typename Whole, typename One>
__device__ __forceinline__ void each_sixteen(int64_t count, bool aligned, Whole whole, One one) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads * kTogether;
  for (int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kTogether; i < count; i += stride) {
    if (aligned && i + kTogether <= count) {
      whole(i);
    } else {
      for (int64_t j = i; j < i + kTogether && j < count; ++j) one(j);
    }
  }
}

template <typename T>
__device__ __forceinline__ void load_sixteen(const T* from, float (&v)[16]) {
  constexpr int kEach = 16 / sizeof(T);
#pragma unroll
  for (int i = 0; i < 16 / kEach; ++i) {
    const uint4 part = reinterpret_cast<const uint4*>(from)[i];
    T element[kEach];
    *reinterpret_cast<uint4*>(element) = part;
#pragma unroll
    for (int e = 0; e < kEach; ++e) v[i * kEach + e] = to_float(element[e]);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) quantize_kernel(const __grid_constant__ QuantizeElements p) {
  allow_next();
  wait_previous();
  const float scale = *p.scale;
  const int zero = p.zero == nullptr ? 0 : byte_at(p.zero, 0, p.is_signed);
  const int least = p.is_signed ? -128 : 0, most = least + 255;
  const T* x = static_cast<const T*>(p.x);
  uint8_t* y = static_cast<uint8_t*>(p.y);
  const auto of = [&](float v) {
    return static_cast<uint32_t>(rounded(__fdiv_rn(v, scale), zero, least, most)) & 255u;
  };
  each_sixteen(
      p.count, is_aligned(x) && is_aligned(y),
      [&](int64_t i) {
        float v[16];
        load_sixteen(x + i, v);
        uint32_t word[4];
#pragma unroll
        for (int k = 0; k < 4; ++k)
          word[k] = of(v[4 * k]) | of(v[4 * k + 1]) << 8 | of(v[4 * k + 2]) << 16 | of(v[4 * k + 3]) << 24;
        *reinterpret_cast<uint4*>(y + i) = make_uint4(word[0], word[1], word[2], word[3]);
      },
      [&](int64_t i) { y[i] = static_cast<uint8_t>(of(to_float(x[i]))); });
}

template <typename T>
__global__ void __launch_bounds__(kThreads) dequantize_kernel(const __grid_constant__ DequantizeElements p) {
  allow_next();
  wait_previous();
  const float scale = p.scale_type == DType::kF32   ? *static_cast<const float*>(p.scale)
                      : p.scale_type == DType::kF16 ? to_float(*static_cast<const half*>(p.scale))
                                                    : to_float(*static_cast<const bfloat16*>(p.scale));
  const int zero = p.zero == nullptr ? 0 : byte_at(p.zero, 0, p.is_signed);
  const uint8_t* x = static_cast<const uint8_t*>(p.x);
  T* y = static_cast<T*>(p.y);
  const auto of = [&](int v) { return from_float<T>(__fmul_rn(static_cast<float>(v - zero), scale)); };
  each_sixteen(
      p.count, is_aligned(x) && is_aligned(y),
      [&](int64_t i) {
        const uint4 v = *reinterpret_cast<const uint4*>(x + i);
        const uint32_t word[4] = {v.x, v.y, v.z, v.w};
        constexpr int kEach = 16 / sizeof(T);
#pragma unroll
        for (int k = 0; k < 16 / kEach; ++k) {
          T element[kEach];
#pragma unroll
          for (int e = 0; e < kEach; ++e) {
            const int at = k * kEach + e;
            element[e] = of(byte_of(word[at / 4], at % 4, p.is_signed));
          }
          reinterpret_cast<uint4*>(y + i)[k] = *reinterpret_cast<const uint4*>(element);
        }
      },
      [&](int64_t i) { y[i] = of(byte_at(x, i, p.is_signed)); });
}

template <typename T>
__global__ void __launch_bounds__(kThreads) look_up_kernel(const __grid_constant__ LookUpElements p) {
  allow_next();
  __shared__ T table[256];
  wait_previous();
  for (int i = threadIdx.x; i < 256; i += kThreads)
    table[p.is_signed ? (i + 128) & 255 : i] = static_cast<const T*>(p.table)[i];
  __syncthreads();
  const uint8_t* x = static_cast<const uint8_t*>(p.x);
  T* y = static_cast<T*>(p.y);
  each_sixteen(
      p.count, is_aligned(x) && is_aligned(y),
      [&](int64_t i) {
        const uint4 v = *reinterpret_cast<const uint4*>(x + i);
        const uint32_t word[4] = {v.x, v.y, v.z, v.w};
        constexpr int kEach = 16 / sizeof(T);
#pragma unroll
        for (int k = 0; k < 16 / kEach; ++k) {
          alignas(16) T element[kEach];
#pragma unroll
          for (int e = 0; e < kEach; ++e) {
            const int at = k * kEach + e;
            element[e] = table[word[at / 4] >> (8 * (at % 4)) & 255u];
          }
          reinterpret_cast<uint4*>(y + i)[k] = *reinterpret_cast<const uint4*>(element);
        }
      },
      [&](int64_t i) { y[i] = table[x[i]]; });
}

template <typename T>
__global__ void __launch_bounds__(kThreads) sum_kernel(const __grid_constant__ SumElements p) {
  allow_next();
  __shared__ int a_table[256], b_table[256];
  wait_previous();
  for (int i = threadIdx.x; i < 256; i += kThreads) {
    a_table[p.a_signed ? (i + 128) & 255 : i] = p.a_table[i];
    b_table[p.b_signed ? (i + 128) & 255 : i] = p.b_table[i];
  }
  __syncthreads();
  const int factor = *p.factor, shift = *p.shift;
  const uint8_t *a = static_cast<const uint8_t*>(p.a), *b = static_cast<const uint8_t*>(p.b);
  T* y = static_cast<T*>(p.y);
  const auto of = [&](uint32_t one, uint32_t other) {
    const int sum = static_cast<int>(static_cast<uint32_t>(a_table[one]) + static_cast<uint32_t>(b_table[other]));
    return static_cast<T>(limited(scaled_by(sum, factor, shift), p.zero, p.least, p.most));
  };
  each_sixteen(
      p.count, is_aligned(a) && is_aligned(b) && is_aligned(y),
      [&](int64_t i) {
        const uint4 v = *reinterpret_cast<const uint4*>(a + i), u = *reinterpret_cast<const uint4*>(b + i);
        const uint32_t one[4] = {v.x, v.y, v.z, v.w}, other[4] = {u.x, u.y, u.z, u.w};
        constexpr int kEach = 16 / sizeof(T);
#pragma unroll
        for (int k = 0; k < 16 / kEach; ++k) {
          alignas(16) T element[kEach];
#pragma unroll
          for (int e = 0; e < kEach; ++e) {
            const int at = k * kEach + e;
            element[e] = of(one[at / 4] >> (8 * (at % 4)) & 255u, other[at / 4] >> (8 * (at % 4)) & 255u);
          }
          reinterpret_cast<uint4*>(y + i)[k] = *reinterpret_cast<const uint4*>(element);
        }
      },
      [&](int64_t i) { y[i] = of(a[i], b[i]); });
}

// NaN is taken for lower and for higher than all others.
__device__ __forceinline__ float lower(float v, float low) { return v < low || isnan(v) ? v : low; }
__device__ __forceinline__ float higher(float v, float high) { return v > high || isnan(v) ? v : high; }

// All threads of a block get the range of what they have.
__device__ __forceinline__ void range_of_block(float* low, float* high) {
  __shared__ float lows[kThreads / 32], highs[kThreads / 32];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    *low = lower(__shfl_xor_sync(0xffffffffu, *low, step), *low);
    *high = higher(__shfl_xor_sync(0xffffffffu, *high, step), *high);
  }
  if (threadIdx.x % 32 == 0) {
    lows[threadIdx.x / 32] = *low;
    highs[threadIdx.x / 32] = *high;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kThreads / 32; ++i) {
    *low = lower(lows[i], *low);
    *high = higher(highs[i], *high);
  }
}

__global__ void __launch_bounds__(kThreads) range_kernel(const float* __restrict__ x, int64_t n, float* parts) {
  allow_next();
  wait_previous();
  float low = 0, high = 0;
  const bool aligned = is_aligned(x);
  each_sixteen(
      n, aligned,
      [&](int64_t i) {
        float v[16];
        load_sixteen(x + i, v);
#pragma unroll
        for (int e = 0; e < 16; ++e) {
          low = lower(v[e], low);
          high = higher(v[e], high);
        }
      },
      [&](int64_t i) {
        low = lower(x[i], low);
        high = higher(x[i], high);
      });
  range_of_block(&low, &high);
  if (threadIdx.x == 0) {
    parts[2 * blockIdx.x] = low;
    parts[2 * blockIdx.x + 1] = high;
  }
}

// The step and the zero point, as the op says.
__device__ __forceinline__ void step_of(float low, float high, int steps, float* scale, int* zero) {
  const float by = steps == 0 ? 255.0f : static_cast<float>(steps);
  const float span = __fsub_rn(high, low);
  float s = __fdiv_rn(span, by);
  if (steps != 0) {
    // The difference is exact in two floats.
    const float b = __fsub_rn(span, high), a = __fsub_rn(span, b);
    const float first = __fsub_rn(high, a), second = __fsub_rn(-low, b);
    const float rest = __fadd_rn(__fmaf_rn(-s, by, span), __fadd_rn(first, second));
    const float better = __fadd_rn(s, __fdiv_rn(rest, by));
    if (fabsf(better) < INFINITY) s = better;
    if (s == 0.0f || isinf(__fdiv_rn(1.0f, s))) s = 0.1f;
  } else if (high == low) {
    s = 1.0f;
  }
  const float z = __fdiv_rn(-low, s);
  *scale = s;
  *zero = static_cast<int>(rintf(z < 0.0f ? 0.0f : z > by ? by : z));
}

__global__ void __launch_bounds__(kThreads) by_range_kernel(const __grid_constant__ QuantizeByRange p, int parts) {
  allow_next();
  wait_previous();
  float low = 0, high = 0;
  if (static_cast<int>(threadIdx.x) < parts) {
    low = p.parts[2 * threadIdx.x];
    high = p.parts[2 * threadIdx.x + 1];
  }
  range_of_block(&low, &high);
  float scale;
  int zero;
  step_of(low, high, p.steps, &scale, &zero);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *p.scale = scale;
    *p.zero = static_cast<uint8_t>(zero);
  }
  const auto of = [&](float v) { return static_cast<uint32_t>(rounded(__fdiv_rn(v, scale), zero, 0, 255)) & 255u; };
  if (p.columns == p.padded || p.rows == 1) {
    each_sixteen(
        p.rows * p.columns, is_aligned(p.x) && is_aligned(p.y),
        [&](int64_t i) {
          float v[16];
          load_sixteen(p.x + i, v);
          uint32_t word[4];
#pragma unroll
          for (int k = 0; k < 4; ++k)
            word[k] = of(v[4 * k]) | of(v[4 * k + 1]) << 8 | of(v[4 * k + 2]) << 16 | of(v[4 * k + 3]) << 24;
          *reinterpret_cast<uint4*>(p.y + i) = make_uint4(word[0], word[1], word[2], word[3]);
        },
        [&](int64_t i) { p.y[i] = static_cast<uint8_t>(of(p.x[i])); });
    return;
  }
  const int64_t all = p.rows * p.padded, stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < all; i += stride) {
    const int64_t row = i / p.padded, column = i - row * p.padded;
    p.y[i] = column < p.columns ? static_cast<uint8_t>(of(p.x[row * p.columns + column])) : uint8_t{0};
  }
}

dim3 blocks_for(int64_t count, const Target& target) {
  const int64_t blocks = (count + kThreads * kTogether - 1) / (kThreads * kTogether);
  const int64_t most = int64_t{target.multiprocessors} * 16;
  return dim3(static_cast<unsigned>(blocks < most ? blocks : most));
}

}  // namespace

cudaError_t quantize_elements(const QuantizeElements& p, const Target& target) {
  return with_float_type(p.from, [&](auto type) {
    return launch(target, quantize_kernel<decltype(type)>, blocks_for(p.count, target), kThreads, 0, 1, p);
  });
}

cudaError_t dequantize_elements(const DequantizeElements& p, const Target& target) {
  return with_float_type(p.to, [&](auto type) {
    return launch(target, dequantize_kernel<decltype(type)>, blocks_for(p.count, target), kThreads, 0, 1, p);
  });
}

cudaError_t look_up_elements(const LookUpElements& p, const Target& target) {
  const auto kernel = p.bytes == 1   ? look_up_kernel<uint8_t>
                      : p.bytes == 2 ? look_up_kernel<uint16_t>
                      : p.bytes == 4 ? look_up_kernel<uint32_t>
                                     : look_up_kernel<uint64_t>;
  return launch(target, kernel, blocks_for(p.count, target), kThreads, 0, 1, p);
}

cudaError_t sum_elements(const SumElements& p, const Target& target) {
  const auto kernel = p.bytes == 1 ? sum_kernel<uint8_t> : p.bytes == 2 ? sum_kernel<uint16_t> : sum_kernel<uint32_t>;
  return launch(target, kernel, blocks_for(p.count, target), kThreads, 0, 1, p);
}

cudaError_t quantize_by_range(const QuantizeByRange& p, const Target& target) {
  const int64_t count = p.rows * p.columns;
  const int64_t wanted = (count + kThreads * kTogether - 1) / (kThreads * kTogether);
  const int parts = static_cast<int>(wanted < 1 ? 1 : wanted < kRangeParts ? wanted : kRangeParts);
  const cudaError_t error =
      launch(target, range_kernel, dim3(static_cast<unsigned>(parts)), kThreads, 0, 1, p.x, count, p.parts);
  if (error != cudaSuccess) return error;
  dim3 blocks = blocks_for(p.rows * (p.columns == p.padded ? p.columns : p.padded * kTogether), target);
  if (blocks.x == 0) blocks.x = 1;  // the step is asked for all the same
  return launch(target, by_range_kernel, blocks, kThreads, 0, 1, p, parts);
}

}  // namespace minnow::cuda
