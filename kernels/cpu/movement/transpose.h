// Transposition of a matrix with SIMD: the inner part of region copies and of layout conversions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace minnow {

// dst[i * dst_stride + j] = src[j * src_stride + i] for i < rows and j < cols. Strides count elements of 1, 2, 4 or 8
// bytes. Only `src_rows` of the `cols` rows of src exist: what would come from beyond repeats its first row. At least
// `src_cols` >= `rows` elements of each row of src can be read.
struct Transposition {
  int64_t rows, cols;
  int64_t src_stride, dst_stride;
  int64_t src_rows, src_cols;
};
void transpose(const Transposition& t, const void* src, void* dst, size_t element_size);

// to[3 * i + c] = from[c * plane + i] for i < n: the pixels of three planes of floats.
void interleave3(const float* from, int64_t plane, int64_t n, float* to);
// The way back, of elements of 1 or 4 bytes: to[c * plane + i] = from[3 * i + c].
void separate3(const void* from, int64_t n, void* to, int64_t plane, size_t element_size);

}  // namespace minnow
