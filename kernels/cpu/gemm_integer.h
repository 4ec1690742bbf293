// Products of matrices of small integers, with sums in i32 that wrap: what convolutions and matrix products of bytes
// have in common. Bytes less their zero point take 9 bits, so they are kept in 16, two of them along K in one lane.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/tensor.h"

namespace minnow {

// Columns of the right matrix that are packed together.
inline int64_t integer_panel() { return 2 * pack_width(); }

// Both matrices hold K in pairs; an odd K ends with a zero.
inline int64_t integer_pairs(int64_t k) { return (k + 1) / 2; }

// Elements of a panel of the right matrix: [pairs][integer_panel()][2].
inline int64_t integer_panel_size(int64_t k) { return integer_pairs(k) * integer_panel() * 2; }

// c[m, columns] = a[m, 2 * pairs] times a panel, of which the first `columns` columns count.
void gemm_integer(const int16_t* a, int64_t m, int64_t pairs, const int16_t* panel, int32_t* c, int64_t ldc,
                  int64_t columns);

inline bool is_byte(DType t) { return t == DType::kU8 || t == DType::kI8; }

inline int32_t byte_at(const Tensor& t, int64_t i) {
  return t.type.dtype == DType::kU8 ? static_cast<int32_t>(t.as<uint8_t>()[i])
                                    : static_cast<int32_t>(t.as<int8_t>()[i]);
}

// `n` bytes less a number, in 16 bits, zeros after them up to `room`.
template <typename B>
void widen_bytes(const B* from, int64_t n, int32_t zero, int16_t* to, int64_t room) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<int16_t>(static_cast<int32_t>(from[i]) - zero);
  std::fill(to + n, to + room, int16_t{0});
}

}  // namespace minnow
