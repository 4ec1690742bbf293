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
        word[i] = __byte_perm(__byte_perm(v[4 * i], v[4 * i + 1], 0x0040),
                              __byte_perm(v[4 * i + 2], v[4 * i + 3], 0x0040), 0x5410);
      } else if constexpr (sizeof(T) == 2) {
        word[i] = __byte_perm(v[2 * i], v[2 * i + 1], 0x5410);
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

// What a thread needs of its 8 columns, for all of its rows.
struct EightColumns {
  EightIntegers bias, factor, shift;  // factor: the bits of `scale` where there is one

  // From memory: constants, which may be read before the kernel before this one has ended.
  __device__ __forceinline__ void load(const IntegerEnding& end, int column) {
    if (end.bias != nullptr) bias = load_eight(end.bias, column);
    if (end.kind == IntegerEnding::kFixedPoint) {
      factor = load_eight(end.factor, column);
      shift = load_eight(end.shift, column);
    } else if (end.kind == IntegerEnding::kFactor) {
#pragma unroll
      for (int i = 0; i < 8; ++i) factor.v[i] = __float_as_int(end.scale[column + i]);
    }
  }
};

// Where the tables of an ending are read.
struct EndingTables {
  const uint8_t *table, *last;
  const int32_t *own, *terms;
};
__device__ __forceinline__ EndingTables tables_in_memory(const IntegerEnding& end) {
  return {end.table, end.last, end.own, end.terms};
}

// 8 bytes of the other tensor.
__device__ __forceinline__ uint2 load_other(const IntegerEnding& end, int64_t at, int left) {
  if (end.wide) return *reinterpret_cast<const uint2*>(end.other + at);
  uint32_t word[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < 8; ++i)
    if (i < left) word[i / 4] |= static_cast<uint32_t>(end.other[at + i]) << (8 * (i % 4));
  return make_uint2(word[0], word[1]);
}

// The sum with another tensor of bytes, and what follows it.
__device__ __forceinline__ void add_other(const IntegerEnding& end, const EndingTables& tables, uint2 other,
                                          int (&v)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint32_t byte = (i < 4 ? other.x : other.y) >> (8 * (i % 4)) & 255u;
    v[i] = static_cast<int>(static_cast<uint32_t>(tables.own[v[i] & 255]) + static_cast<uint32_t>(tables.terms[byte]));
  }
  if (end.plain_sum) {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      v[i] = limited(plainly_scaled(v[i], end.sum_factor, end.sum_shift), end.sum_zero, end.sum_least, end.sum_most);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      v[i] = limited(scaled_by(v[i], end.sum_factor, end.sum_shift), end.sum_zero, end.sum_least, end.sum_most);
  }
  if (end.last != nullptr) {
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = tables.last[v[i] & 255];
  }
}

// v: sums, with the bias, to results in front of the tables.
__device__ __forceinline__ void scale_eight(const IntegerEnding& end, const EightColumns& columns, int (&v)[8]) {
  const auto number = [&](int i) { return __fmul_rn(static_cast<float>(v[i]), __int_as_float(columns.factor.v[i])); };
  if (end.kind == IntegerEnding::kFixedPoint) {
    if (end.plain) {
#pragma unroll
      for (int i = 0; i < 8; ++i)
        v[i] = limited(plainly_scaled(v[i], columns.factor.v[i], columns.shift.v[i]), end.zero, end.least, end.most);
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i)
        v[i] = limited(scaled_by(v[i], columns.factor.v[i], columns.shift.v[i]), end.zero, end.least, end.most);
    }
  } else if (end.kind == IntegerEnding::kFactor) {
    if (end.plain) {
#pragma unroll
      for (int i = 0; i < 8; ++i) v[i] = plainly_rounded(number(i), end.zero, end.least, end.most);
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) v[i] = rounded(number(i), end.zero, end.least, end.most);
    }
  }
}

// v: sums of row m and columns n to n + 7, of x less 128 where it is unsigned, and of the weights as they lie. `base`
// is where the product of the batch begins in y, `first` in the arrays. `x_zero`: its number, less 128 where x is
// unsigned. `other`: the bytes of the other tensor, where there is one.
__device__ __forceinline__ void finish_eight(const IntegerEnding& end, const EightColumns& columns,
                                             const EndingTables& tables, int64_t base, int first, int m, int n,
                                             int x_zero, int row_sum, uint2 other, int (&v)[8]) {
  if (n >= end.columns) return;
  const int64_t at = base + m * end.row + n;
  const int left = end.columns - n, column = first + n;
  if (end.bias != nullptr) {
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] += columns.bias.v[i];
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
  scale_eight(end, columns, v);
  if (end.table != nullptr) {
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = tables.table[v[i] & 255];
  }
  if (end.other != nullptr) add_other(end, tables, other, v);
  if (end.bytes == 1) {
    store_eight<uint8_t>(end, at, left, v);
  } else if (end.bytes == 2) {
    store_eight<uint16_t>(end, at, left, v);
  } else {
    store_eight<uint32_t>(end, at, left, v);
  }
}

// The same where all is read when it is needed.
__device__ __forceinline__ void finish_eight(const IntegerEnding& end, const EightColumns& columns, int m, int n,
                                             int x_zero, int (&v)[8]) {
  uint2 other = make_uint2(0, 0);
  if (end.other != nullptr && n < end.columns) other = load_other(end, m * end.row + n, end.columns - n);
  finish_eight(end, columns, tables_in_memory(end), 0, 0, m, n, x_zero, 0, other, v);
}

}  // namespace minnow::cuda
