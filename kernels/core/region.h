// Strided copies, which all pure data movement comes down to.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/core/tensor.h"
#include "kernels/core/thread_pool.h"

namespace minnow {

// dst[dst_offset + sum(i[k] * dst_stride[k])] = src[src_offset + sum(i[k] * src_stride[k])] for all 0 <= i[k] <
// size[k]. All numbers count elements. A source stride may be 0 (repeats) or negative (reverses); no two indices may
// have the same destination. Nothing is copied when some size is 0.
struct Region {
  static constexpr int kMaxDims = 2 * kMaxRank + 2;  // tiling and space-to-depth split dims in two

  int64_t src_offset = 0;
  int64_t dst_offset = 0;
  int rank = 0;
  std::array<int64_t, kMaxDims> size;
  std::array<int64_t, kMaxDims> src_stride;
  std::array<int64_t, kMaxDims> dst_stride;

  void add(int64_t n, int64_t src, int64_t dst) {
    size[static_cast<size_t>(rank)] = n;
    src_stride[static_cast<size_t>(rank)] = src;
    dst_stride[static_cast<size_t>(rank++)] = dst;
  }
  // Drops dims of size 1, orders the others by descending destination stride, and joins neighbors where one stride
  // describes both. False when there is nothing to copy.
  bool simplify();
};

// `pool` may be null. Source and destination must not overlap.
void copy_region(const Region& region, const void* src, void* dst, size_t element_size, ThreadPool* pool);
void copy_bytes(const void* src, void* dst, int64_t bytes, ThreadPool* pool);

// Strides of a row-major tensor of this shape, in elements.
std::array<int64_t, kMaxRank> strides_of(const Shape& shape);

}  // namespace minnow
