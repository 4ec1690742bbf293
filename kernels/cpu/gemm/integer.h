// Products of matrices of bytes, with sums in i32 that wrap: what convolutions and matrix products of 8-bit integers
// have in common. The left matrix is signed and the right one unsigned, as instructions for it want them; a matrix that
// is not so has its top bits flipped, and its zero point moved by 128. Zero points are accounted for afterwards, by
//   sum (a - za)(b - zb) = sum a b - zb sum a - za (sum b - K zb).
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/core/tensor.h"

namespace minnow {

// Numbers along K that lie together in a lane of 32 bits: 4 bytes, or 2 in 16 bits each.
int64_t integer_group();
// Columns that a product is computed in.
int64_t integer_panel();

inline int64_t integer_steps(int64_t k) { return (k + integer_group() - 1) / integer_group(); }

// c[r, j] = sum over s of left[r * steps + s] . right[offset[s] + j], plus start[r], less factor[r] * column[j].
struct IntegerProduct {
  const uint32_t* left = nullptr;
  const uint32_t* right = nullptr;  // 64 lanes from each place that counts are read, whatever `columns` is
  const int64_t* offset = nullptr;
  int64_t steps = 0, rows = 0, columns = 0;
  const uint32_t* start = nullptr;
  const uint32_t* factor = nullptr;  // may be null, with `column`
  const uint32_t* column = nullptr;
  uint32_t* c = nullptr;
  int64_t ldc = 0;
  const uint32_t* soon = nullptr;  // as in ByteProduct; for a byte_unit() only
  int64_t soon_lanes = 0;
};
// Not where there is a byte_unit() (byte_product.h), whose packed form is another.
void gemm_integer(const IntegerProduct& p);
// The same on 64-bit Arm where has_dot(), for groups of 4 and panels of kDotPanel columns.
void gemm_integer_dot(const IntegerProduct& p);
constexpr int64_t kDotPanel = 16;

inline bool is_byte(DType t) { return t == DType::kU8 || t == DType::kI8; }

inline int32_t byte_at(const Tensor& t, int64_t i) {
  return t.type.dtype == DType::kU8 ? static_cast<int32_t>(t.as<uint8_t>()[i])
                                    : static_cast<int32_t>(t.as<int8_t>()[i]);
}

// What is to be flipped in a byte of this type to see it as a signed or unsigned one, and added to its zero point.
inline uint8_t flip_for(DType t, bool to_signed) { return (t == DType::kU8) == to_signed ? 0x80 : 0; }
inline int32_t shift_for(DType t, bool to_signed) { return flip_for(t, to_signed) == 0 ? 0 : to_signed ? -128 : 128; }

// A row of the left matrix: k bytes, `stride` apart, into integer_steps(k) lanes. Returns their sum.
uint32_t pack_left(const uint8_t* from, int64_t k, int64_t stride, uint8_t flip, uint32_t* lanes);
// Lanes of the right matrix: integer_group() rows of n bytes, those that are missing being null.
void pack_right(const uint8_t* const* rows, int64_t n, uint8_t flip, uint32_t* lanes);
// Adds the bytes of each lane to a sum.
void sum_lanes(const uint32_t* lanes, int64_t n, uint32_t* sums);
// The sum of n bytes that are unsigned ones when these bits are flipped.
uint32_t sum_unsigned(const uint8_t* from, int64_t n, uint8_t flip);
// Bytes less their zero point, one in a lane.
void widen_lanes(const uint8_t* from, int64_t n, uint8_t flip, int32_t zero, int32_t* lanes);

// Every other lane of n to each of two places, the first one to `even`.
void split_lanes(const uint32_t* from, int64_t n, uint32_t* even, uint32_t* odd);

// out[i] = sum over the taps t of lanes[offset[t] + i] * weight[t], both of 16 bits.
void convolve_lanes(const int32_t* lanes, const int64_t* offset, const int32_t* weight, int64_t taps, int64_t n,
                    int32_t* out);

}  // namespace minnow
