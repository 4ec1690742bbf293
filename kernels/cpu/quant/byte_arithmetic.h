// The numbers that ByteArithmetic computes with.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/quant/requantize.h"

namespace minnow {

// The attribute "numbers": zero and scale of both tensors, then shift, factor, more, step and zero of the result.
//   first = (a - zero) * scale    second = (b - zero) * scale + shift
//   result = saturate(round((first + second, or their product, * factor + more) / step) + zero)
// Of the operations with 0 and 1, which change nothing, those of factor and more are left out.
// With the attributes "multiplier", "shift", "zero", "min" and "max", which are those of the op Requantize, this ends a
// product of (a - zero) and (b - zero) instead.
constexpr size_t kByteNumbers = 9;

// For byte k of each 32 bits: what finds it in 16 bytes, with zeros behind it. Once for all instruction sets.
alignas(16) inline constexpr uint8_t kBytePlaces[4][16] = {
    {0, 128, 128, 128, 4, 128, 128, 128, 8, 128, 128, 128, 12, 128, 128, 128},
    {1, 128, 128, 128, 5, 128, 128, 128, 9, 128, 128, 128, 13, 128, 128, 128},
    {2, 128, 128, 128, 6, 128, 128, 128, 10, 128, 128, 128, 14, 128, 128, 128},
    {3, 128, 128, 128, 7, 128, 128, 128, 11, 128, 128, 128, 15, 128, 128, 128}};

// A product of (a ^ flip) - middle and the same of b that is requantized to bytes. prepare() sets the
// last of its numbers.
struct NarrowProduct {
  uint8_t flip[2] = {0, 0}, flip_out = 0;
  int32_t middle[2] = {0, 0};
  int32_t zero = 0, least = 0, most = 255;  // of results before `flip_out`
  bool one = false;                         // one byte of b for all

  int32_t high = 0, low = 0, half = 0;
  int right = 0;
  // False for a multiplier, a shift or zero points with which some step would need more than 32 bits.
  bool prepare(int32_t multiplier, int32_t shift);
};
void multiply_narrow(const NarrowProduct& p, const uint8_t* a, const uint8_t* b, int64_t n, uint8_t* y);

struct ByteNumbers {
  float zero[2], scale[2], shift, factor, more, step;
  bool product, scaled;
  bool simple;  // sums of unsigned bytes whose zero points are 0, with a step of 1, that do not go beyond 16 bits
  bool exact;   // no quotient is in doubt: the step is a power of two
  float sure;   // how far from an integer a quotient is not in doubt
  float least;  // of the numbers before the zero point is added
  int32_t bits[2];
  uint8_t flip_out;

  bool is_fixed;  // the rest is for this
  int32_t multiplier, shift_of_product, middle[2];
  uint8_t flip[2];
  Requantization end;
  NarrowProduct narrow;  // the same, where it `fits`
  bool fits;
};

}  // namespace minnow
