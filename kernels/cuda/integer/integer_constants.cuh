// What becomes of sums is told by constants. A block brings them to shared memory while the kernel before it still
// runs: read when the sums are there, one after the other, they would take longer than most layers of a single image.
#pragma once

#include "kernels/cuda/integer/integer_ending.cuh"
#include "kernels/cuda/integer/integer_instructions.cuh"

namespace minnow::cuda {

// The tables in the order in which they lie there, after three numbers for each column.
constexpr int kOwnAt = 0, kTermsAt = 1024, kTableAt = 2048, kLastAt = 2304, kTableBytes = 2560;

__host__ __device__ inline bool has_tables(const IntegerEnding& end) {
  return end.table != nullptr || end.other != nullptr;
}
__host__ __device__ inline int constant_bytes(const IntegerEnding& end, int columns) {
  return 12 * columns + (has_tables(end) ? kTableBytes : 0);
}

// Belongs to the next group of copies. `to` is a multiple of 16.
template <int kN, int kThreads>
__device__ __forceinline__ void copy_constants(const IntegerArguments& a, uint32_t to, int arrays, int tile_n,
                                               int thread) {
  constexpr int kChunks = kN / 4;
  const int known = (a.N + 7) / 8 * 8 - tile_n;  // columns that the arrays have
  for (int i = thread; i < 3 * kChunks; i += kThreads) {
    const int which = i / kChunks, column = i % kChunks * 4;
    const void* from = which == 0                             ? static_cast<const void*>(a.end.bias)
                       : a.end.kind == IntegerEnding::kSum    ? nullptr
                       : which == 2                           ? static_cast<const void*>(a.end.shift)
                       : a.end.kind == IntegerEnding::kFactor ? static_cast<const void*>(a.end.scale)
                                                              : static_cast<const void*>(a.end.factor);
    const bool is_there = from != nullptr && column < known;
    const void* numbers = is_there ? static_cast<const int32_t*>(from) + arrays + tile_n + column : a.x;
    copy16(to + i * 16, numbers, is_there ? 16 : 0);
  }
  if (!has_tables(a.end)) return;
  for (int i = thread; i < kTableBytes / 16; i += kThreads) {
    const int at = i * 16;
    const char* from = at < kTermsAt   ? reinterpret_cast<const char*>(a.end.own)
                       : at < kTableAt ? reinterpret_cast<const char*>(a.end.terms) - kTermsAt
                       : at < kLastAt  ? reinterpret_cast<const char*>(a.end.table) - kTableAt
                                       : reinterpret_cast<const char*>(a.end.last) - kLastAt;
    const bool is_there = at < kTermsAt   ? a.end.own != nullptr
                          : at < kTableAt ? a.end.terms != nullptr
                          : at < kLastAt  ? a.end.table != nullptr
                                          : a.end.last != nullptr;
    if (is_there) copy16(to + 12 * kN + at, from + at, 16);
  }
}

__device__ __forceinline__ EightIntegers eight_shared(uint32_t from) {
  const uint4 a = load_words(from), b = load_words(from + 16);
  return {{static_cast<int>(a.x), static_cast<int>(a.y), static_cast<int>(a.z), static_cast<int>(a.w),
           static_cast<int>(b.x), static_cast<int>(b.y), static_cast<int>(b.z), static_cast<int>(b.w)}};
}

// Columns from n on of a tile of kN.
template <int kN>
__device__ __forceinline__ EightColumns columns_shared(uint32_t constants, int n) {
  EightColumns columns;
  columns.bias = eight_shared(constants + n * 4);
  columns.factor = eight_shared(constants + kN * 4 + n * 4);
  columns.shift = eight_shared(constants + kN * 8 + n * 4);
  return columns;
}

__device__ __forceinline__ EndingTables tables_shared(const char* tables) {
  return {reinterpret_cast<const uint8_t*>(tables + kTableAt), reinterpret_cast<const uint8_t*>(tables + kLastAt),
          reinterpret_cast<const int32_t*>(tables + kOwnAt), reinterpret_cast<const int32_t*>(tables + kTermsAt)};
}

}  // namespace minnow::cuda
