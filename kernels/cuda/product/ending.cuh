// What becomes of sums: bias, residual, activation, and the way to memory.
#pragma once

#include "kernels/cuda/activation.h"
#include "kernels/cuda/product/arguments.h"
#include "kernels/cuda/product/ptx.cuh"

namespace minnow::cuda {

// The function of the layer, of all alike: one choice for all of them. `kExact`: to the precision of f32, else to that
// of what is written in 16 bits or multiplied in TF32.
template <bool kExact, int kCount>
__device__ __forceinline__ void activate(const Ending& end, float (&v)[kCount]) {
  if (end.curve == Ending::kNone) {
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      const float leaky = v[e] < 0.f ? v[e] * end.slope : v[e];
      v[e] = at_most(at_least(leaky, end.low), end.high);
    }
  } else if (end.curve == Ending::kGelu) {
#pragma unroll
    for (int e = 0; e < kCount; ++e) v[e] = gelu<kExact>(v[e]);
  } else {
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      float s = fmaf(v[e], end.scale, end.shift);
      if (end.curve == Ending::kSigmoid) {
        s = sigmoid<kExact>(s);
      } else {
        s = at_most(at_least(s, 0.f), 1.f);
      }
      v[e] = end.times ? v[e] * s : fmaf(end.gain, s, end.offset);
    }
  }
}

template <typename T>
__device__ __forceinline__ float2 widen(uint32_t two);
template <>
__device__ __forceinline__ float2 widen<__half>(uint32_t two) {
  return __half22float2(*reinterpret_cast<const __half2*>(&two));
}
template <>
__device__ __forceinline__ float2 widen<__nv_bfloat16>(uint32_t two) {
  return make_float2(__uint_as_float(two << 16), __uint_as_float(two & 0xffff0000u));
}

template <typename T>
__device__ __forceinline__ uint32_t narrow(float a, float b);
template <>
__device__ __forceinline__ uint32_t narrow<__half>(float a, float b) {
  const __half2 h = __floats2half2_rn(a, b);
  return *reinterpret_cast<const uint32_t*>(&h);
}
template <>
__device__ __forceinline__ uint32_t narrow<__nv_bfloat16>(float a, float b) {
  const __nv_bfloat162 h = __floats2bfloat162_rn(a, b);
  return *reinterpret_cast<const uint32_t*>(&h);
}

__device__ __forceinline__ float to_float(float v) { return v; }
__device__ __forceinline__ float to_float(__half v) { return __half2float(v); }
__device__ __forceinline__ float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }
__device__ __forceinline__ void set(float* to, float v) { *to = v; }
__device__ __forceinline__ void set(__half* to, float v) { *to = __float2half_rn(v); }
__device__ __forceinline__ void set(__nv_bfloat16* to, float v) { *to = __float2bfloat16_rn(v); }

__device__ __forceinline__ void add4(float* v, float4 b) {
  v[0] += b.x;
  v[1] += b.y;
  v[2] += b.z;
  v[3] += b.w;
}

// 8 elements of a residual.
template <typename T>
struct Eight {
  uint4 part[sizeof(T) / 2];
};

template <typename T>
__device__ __forceinline__ void add8(float* v, const Eight<T>& eight) {
  if constexpr (sizeof(T) == 2) {
    const uint32_t word[4] = {eight.part[0].x, eight.part[0].y, eight.part[0].z, eight.part[0].w};
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const float2 f = widen<T>(word[q]);
      v[2 * q] += f.x;
      v[2 * q + 1] += f.y;
    }
  } else {
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      const uint4 u = eight.part[q];
      add4(v + 4 * q,
           make_float4(__uint_as_float(u.x), __uint_as_float(u.y), __uint_as_float(u.z), __uint_as_float(u.w)));
    }
  }
}

template <typename T>
__device__ __forceinline__ Eight<T> load8(const void* from, int64_t at) {
  const uint4* p = reinterpret_cast<const uint4*>(static_cast<const T*>(from) + at);
  Eight<T> eight;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T) / 2); ++i) eight.part[i] = p[i];
  return eight;
}

// Where columns n to n + 7 of row m lie in y; below 0: nowhere. `base` is where the product of the batch begins.
__device__ __forceinline__ int64_t place_of(const Ending& end, int64_t base, int m, int n) {
  const Spread& s = end.spread;
  if (s.rows == 0) return base + m * end.row + n;
  const int block = s.by_channels.split(&n);
  int column = block;
  int row = s.by_columns.split(&column);
  const int line = s.by_grid_columns.split(&m);
  int grid_row = line;
  const int image = s.by_grid_rows.split(&grid_row);
  row += grid_row * s.rows;
  column += m * s.columns;
  if (row >= s.height || column >= s.width) return -1;
  return ((int64_t{image} * s.height + row) * s.width + column) * s.by_channels.value + n;
}

// Whether a residual is loaded 8 elements at a time, of the type T.
template <typename T>
__device__ __forceinline__ bool loads_ahead(const Ending& end) {
  return end.residual != nullptr && end.wide && (sizeof(T) == 4 || !end.f32) && end.spread.rows == 0;
}

// Writes what is made of the sums at columns n to n + 7 of row m. `base` is where the product of the batch begins in y,
// `bias_base` in the bias. What has been added to the sums already: `biased` the bias, `added` the residual.
template <typename T, bool kExact = false>
__device__ __forceinline__ void finish8(const Ending& end, int64_t base, int bias_base, int m, int n, float (&v)[8],
                                        bool biased, bool added) {
  if (n >= end.columns) return;
  const int64_t at = place_of(end, base, m, n);
  if (at < 0) return;
  const bool add = end.residual != nullptr && !added;
  if (end.wide) {
    if (end.bias != nullptr && !biased) {
      const float4* bias = reinterpret_cast<const float4*>(end.bias + bias_base + n);
      add4(v, __ldg(bias));
      add4(v + 4, __ldg(bias + 1));
    }
    if (add) {
      if (sizeof(T) == 4 || end.f32) {
        add8<float>(v, load8<float>(end.residual, at));
      } else {
        add8<T>(v, load8<T>(end.residual, at));
      }
    }
  } else {  // rows that are not aligned: one by one
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      if (end.bias != nullptr && !biased && n + e < end.bias_count) v[e] += end.bias[bias_base + n + e];
      if (add && n + e < end.columns)
        v[e] += end.f32 ? static_cast<const float*>(end.residual)[at + e]
                        : to_float(static_cast<const T*>(end.residual)[at + e]);
    }
  }
  activate<kExact>(end, v);
  const bool f32 = sizeof(T) == 4 || end.f32;
  if (!end.wide) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      if (n + e >= end.columns) return;
      if (f32) {
        static_cast<float*>(end.y)[at + e] = v[e];
      } else {
        set(static_cast<T*>(end.y) + at + e, v[e]);
      }
    }
  } else if (f32) {
    float4* y = reinterpret_cast<float4*>(static_cast<float*>(end.y) + at);
    y[0] = make_float4(v[0], v[1], v[2], v[3]);
    y[1] = make_float4(v[4], v[5], v[6], v[7]);
  } else if constexpr (sizeof(T) == 2) {
    *reinterpret_cast<uint4*>(static_cast<T*>(end.y) + at) =
        make_uint4(narrow<T>(v[0], v[1]), narrow<T>(v[2], v[3]), narrow<T>(v[4], v[5]), narrow<T>(v[6], v[7]));
  }
}

// Loads of a few bytes, or 0 where `yes` is not: without a jump, since sums of wgmma must not be set behind one.
__device__ __forceinline__ float2 load_if(bool yes, const float* from) {
  float2 v;
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\nmov.f32 %0, 0f00000000;\nmov.f32 %1, 0f00000000;\n"
      "@p ld.global.v2.f32 {%0, %1}, [%3];\n}\n"
      : "=f"(v.x), "=f"(v.y)
      : "r"(static_cast<int>(yes)), "l"(from)
      : "memory");
  return v;
}
template <typename T>
__device__ __forceinline__ float2 load_if(bool yes, const T* from) {
  uint32_t v;
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %1, 0;\nmov.b32 %0, 0;\n@p ld.global.b32 %0, [%2];\n}\n"
               : "=r"(v)
               : "r"(static_cast<int>(yes)), "l"(from)
               : "memory");
  return widen<T>(v);
}

// What sums begin with, where rows are wide: the bias and, with kResidual, what loads_ahead() says; 0 otherwise, and
// without `any`. Their places are those of finish_rows().
template <typename T, int kPartRows, bool kResidual, int kParts, int kCount>
__device__ __forceinline__ void begin_sums(const Ending& end, int64_t base, int bias_base, int rows, int m, int n,
                                           int lane, bool any, float (&sum)[kParts][kCount]) {
  n += 2 * (lane & 3);
  m += lane >> 2;
  const float* bias = end.bias + bias_base + n;
  const bool biased = any && end.wide && end.bias != nullptr, residual = any && loads_ahead<T>(end);
  const T* from = static_cast<const T*>(end.residual) + base + m * end.row + n;
#pragma unroll
  for (int j = 0; j < kCount / 4; ++j) {
    const bool inside = n + 8 * j < end.columns;
    const float2 b = load_if(biased && inside, bias + 8 * j);
#pragma unroll
    for (int p = 0; p < kParts; ++p)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float2 v = b;
        if constexpr (kResidual) {
          const int row = p * kPartRows + 8 * half;
          const float2 r = load_if(residual && inside && m + row < rows, from + row * end.row + 8 * j);
          v.x += r.x;
          v.y += r.y;
        }
        sum[p][4 * j + 2 * half] = v.x;
        sum[p][4 * j + 2 * half + 1] = v.y;
      }
  }
}

// All sums to the function of the layer, where that is more than bounds. A loop that is not unrolled takes 32, and
// moves the others to their place: short code is there sooner.
template <int kParts, int kCount>
__device__ __forceinline__ void bend_sums(const Ending& end, float (&sum)[kParts][kCount]) {
  if (!end.bends) return;
  constexpr int kAll = kParts * kCount, kTake = kAll % 32 == 0 ? 32 : kAll % 16 == 0 ? 16 : 8;
#pragma unroll 1
  for (int i = 0; i < kAll / kTake; ++i) {
    float v[kTake];
#pragma unroll
    for (int k = 0; k < kTake; ++k) v[k] = sum[k / kCount][k % kCount];
    activate<false>(end, v);
#pragma unroll
    for (int k = 0; k < kAll - kTake; ++k)
      sum[k / kCount][k % kCount] = sum[(k + kTake) / kCount][(k + kTake) % kCount];
#pragma unroll
    for (int k = 0; k < kTake; ++k) sum[(kAll - kTake + k) / kCount][(kAll - kTake + k) % kCount] = v[k];
  }
}

// Two numbers between two bounds; rounding does not change the order, so it may come first.
template <typename T>
__device__ __forceinline__ uint32_t clamp_two(uint32_t v, uint32_t low, uint32_t high);
template <>
__device__ __forceinline__ uint32_t clamp_two<__half>(uint32_t v, uint32_t low, uint32_t high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("max.NaN.f16x2 %0, %0, %1;\nmin.NaN.f16x2 %0, %0, %2;" : "+r"(v) : "r"(low), "r"(high));
  return v;
#else
  const float2 f = widen<__half>(v), a = widen<__half>(low), b = widen<__half>(high);
  return narrow<__half>(at_most(at_least(f.x, a.x), b.x), at_most(at_least(f.y, a.y), b.y));
#endif
}
template <>
__device__ __forceinline__ uint32_t clamp_two<__nv_bfloat16>(uint32_t v, uint32_t low, uint32_t high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("max.NaN.bf16x2 %0, %0, %1;\nmin.NaN.bf16x2 %0, %0, %2;" : "+r"(v) : "r"(low), "r"(high));
#endif
  return v;
}

// The bounds of the layer's function, as clamp_two() takes them.
template <typename T>
struct Bounds {
  bool any;
  uint32_t low, high;
  __device__ __forceinline__ explicit Bounds(const Ending& end)
      : any(end.clamps), low(narrow<T>(end.low, end.low)), high(narrow<T>(end.high, end.high)) {}
  __device__ __forceinline__ uint32_t operator()(float a, float b) const {
    const uint32_t v = narrow<T>(a, b);
    return any ? clamp_two<T>(v, low, high) : v;
  }
};

// Whether tile_to_memory() does it: rows of 16 bits that begin at multiples of 16 bytes.
template <typename T>
__device__ __forceinline__ bool is_packed(const Ending& end) {
  return sizeof(T) == 2 && end.wide && !end.f32 && (end.spread.rows == 0 || end.residual == nullptr);
}

// Sums with bias and residual, as fragments (see finish_rows), to a tile of 16 bits in shared memory, whose rows have
// `kStride` elements.
template <typename T, int kPartRows, int kStride, int kParts, int kCount>
__device__ __forceinline__ void sums_to_tile(const Ending& end, uint32_t tile, int row, int column, int lane,
                                             float (&sum)[kParts][kCount]) {
  bend_sums(end, sum);
  const Bounds<T> bounds(end);
  const uint32_t to = tile + ((row + (lane >> 2)) * kStride + column + 2 * (lane & 3)) * 2;
#pragma unroll
  for (int p = 0; p < kParts; ++p)
#pragma unroll
    for (int j = 0; j < kCount / 4; ++j) {
      store_word(to + (p * kPartRows * kStride + 8 * j) * 2, bounds(sum[p][4 * j], sum[p][4 * j + 1]));
      store_word(to + ((p * kPartRows + 8) * kStride + 8 * j) * 2, bounds(sum[p][4 * j + 2], sum[p][4 * j + 3]));
    }
}

template <typename T, int kRows, int kColumns, int kStride>
__device__ __forceinline__ void tile_to_memory(const Ending& end, int64_t base, int rows, int m, int n, uint32_t tile,
                                               int thread, int threads) {
  T* y = static_cast<T*>(end.y);
  const bool spreads = end.spread.rows != 0;
  const int64_t first = base + m * end.row + n;
#pragma unroll 2
  for (int i = thread; i < kRows * kColumns / 8; i += threads) {
    const int row = i / (kColumns / 8), column = i % (kColumns / 8) * 8;
    if (m + row >= rows || n + column >= end.columns) continue;
    const int64_t at = spreads ? place_of(end, base, m + row, n + column) : first + row * end.row + column;
    if (at >= 0) *reinterpret_cast<uint4*>(y + at) = load_words(tile + (row * kStride + column) * 2);
  }
}

__device__ __forceinline__ void exchange(bool yes, float& a, float& b) {
  const float t = yes ? b : a;
  b = yes ? a : b;
  a = t;
}

// Fragments of sums have two neighboring columns of each block of 8 in a thread: thread t of four has columns 2t and
// 2t + 1. Given those of four blocks, it gets all columns of block t.
__device__ __forceinline__ void gather_block(float (&v)[8], int lane) {
  const bool odd = (lane & 1) != 0, upper = (lane & 2) != 0;
  // v[2 * block + e]. First between neighbors: of blocks 0, 1 and of blocks 2, 3 the one with this thread's lowest bit.
#pragma unroll
  for (int p = 0; p < 8; p += 4)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      exchange(odd, v[p + e], v[p + 2 + e]);
      v[p + 2 + e] = __shfl_xor_sync(0xffffffffu, v[p + 2 + e], 1);
      exchange(odd, v[p + e], v[p + 2 + e]);
    }
    // Now v[0..3] are columns of block (0 or 1), v[4..7] of block (2 or 3), each from this pair of threads.
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    exchange(upper, v[e], v[4 + e]);
    v[4 + e] = __shfl_xor_sync(0xffffffffu, v[4 + e], 2);
    exchange(upper, v[e], v[4 + e]);
  }
}

// The end of a tile without a partner. The sums are fragments: of kParts parts, kPartRows rows apart, 16 rows each
// (this thread's are r and r + 8), and of each block of 8 columns in turn (r, 2t), (r, 2t + 1), (r + 8, 2t), (r + 8, 2t
// + 1).
//
// A loop that is not unrolled takes 4 blocks of columns, and moves all others to their place: that is little against
// what follows, and short code is there sooner.
template <typename T, int kPartRows, int kParts, int kCount>
__device__ __forceinline__ void finish_rows(const Ending& end, int64_t base, int bias_base, int rows, int m, int n,
                                            int lane, float (&sum)[kParts][kCount]) {
  constexpr int kGroups = kCount / 16;
  static_assert(kCount % 16 == 0, "blocks are gathered by fours");
  // Residuals are loaded ahead: the compiler cannot know that no store before changes them.
  const bool ahead = loads_ahead<T>(end);
  Eight<T> now[2] = {}, next[2] = {};
  m += lane >> 2;
  n += (lane & 3) * 8;
  const auto load = [&](int group) {
    if (!ahead) return;
    const int row = m + group / kGroups * kPartRows, column = n + group % kGroups * 32;
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (row + 8 * half < rows && column < end.columns)
        next[half] = load8<T>(end.residual, base + (row + 8 * half) * end.row + column);
  };
  load(0);
#pragma unroll 1
  for (int group = 0; group < kParts * kGroups; ++group) {
    now[0] = next[0];
    now[1] = next[1];
    if (group + 1 < kParts * kGroups) load(group + 1);
    const int row = m + group / kGroups * kPartRows, column = n + group % kGroups * 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float v[8];
#pragma unroll
      for (int k = 0; k < 8; ++k) v[k] = sum[0][k / 2 * 4 + 2 * half + k % 2];
      gather_block(v, lane);
      if (ahead) add8<T>(v, now[half]);
      if (row + 8 * half < rows) finish8<T>(end, base, bias_base, row + 8 * half, column, v, end.wide, ahead);
    }
#pragma unroll
    for (int i = 0; i < kParts * kCount - 16; ++i)
      sum[i / kCount][i % kCount] = sum[(i + 16) / kCount][(i + 16) % kCount];
  }
}

// Adds 8 sums of each of these blocks of the cluster; all loads are on their way before the first is waited for.
template <int kBlocks>
__device__ __forceinline__ void add_blocks(float (&v)[8], uint32_t address, int first) {
  float4 part[kBlocks][2];
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    const uint32_t there = of_block(address, first + b);
    part[b][0] = load_from_cluster(there);
    part[b][1] = load_from_cluster(there + 16);
  }
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    add4(v, part[b][0]);
    add4(v + 4, part[b][1]);
  }
}

// The end of a tile whose depth is shared by the blocks of a cluster: each has left its sums in shared memory at `tile`
// (rows of `kStride` floats, a multiple of 4), adds up those of all for a part of the tile, and finishes that. `added`:
// whether the residual is in them; the bias is, where rows are wide.
template <typename T, int kRows, int kColumns, int kStride, bool kExact = false, bool kBegun = !kExact>
__device__ __forceinline__ void finish_shared(const Ending& end, int64_t base, int bias_base, int rows, int m, int n,
                                              uint32_t tile, int blocks, int rank, int thread, int threads,
                                              bool added) {
  constexpr int kPieces = kRows * kColumns / 8;
  const int each = (kPieces + blocks - 1) / blocks;
  const int stop = min(kPieces, (rank + 1) * each);
  for (int i = rank * each + thread; i < stop; i += threads) {
    const int row = i / (kColumns / 8), column = i % (kColumns / 8) * 8;
    if (m + row >= rows || n + column >= end.columns) continue;
    float v[8] = {};
    const uint32_t address = tile + (row * kStride + column) * 4;
    if (blocks == 1) {
      add4(v, load_shared(address));
      add4(v + 4, load_shared(address + 16));
    }
    if (blocks == 2) add_blocks<2>(v, address, 0);
    for (int b = 0; b < blocks && blocks > 2; b += 4) add_blocks<4>(v, address, b);
    finish8<T, kExact>(end, base, bias_base, m + row, n + column, v, kBegun && end.wide, added);
  }
}

}  // namespace minnow::cuda
