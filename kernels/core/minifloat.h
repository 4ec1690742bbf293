// The formats of floats of 4, 6 and 8 bits.
#pragma once

#include <cstdint>

#include "kernels/core/dtype.h"

namespace minnow {

// A storage type that holds floats.
constexpr bool is_minifloat(DType t) { return t >= DType::kF8E4M3FN && t <= DType::kF4E2M1; }

// A sign, an exponent and a mantissa, as one small integer that grows with the number. Codes are without the sign.
struct MinifloatFormat {
  int mantissa;          // bits
  int bias;              // of the exponent
  uint8_t sign;          // its bit
  uint8_t most;          // the greatest number
  uint8_t overflow;      // what is too great without saturation: infinity or NaN, or the greatest number
  uint8_t nan;           // 0: there is none
  bool signed_specials;  // there are a negative zero, infinity and NaN; else the code of the sign alone is the only NaN
};

// In the order of DType, from kF8E4M3FN on.
constexpr MinifloatFormat kMinifloatFormats[] = {
    {3, 7, 0x80, 0x7E, 0x7F, 0x7F, true},    // f8e4m3fn
    {3, 8, 0x80, 0x7F, 0x80, 0x80, false},   // f8e4m3fnuz
    {2, 15, 0x80, 0x7B, 0x7C, 0x7E, true},   // f8e5m2
    {2, 16, 0x80, 0x7F, 0x80, 0x80, false},  // f8e5m2fnuz
    {0, 127, 0, 0xFE, 0xFF, 0xFF, false},    // f8e8m0: an exponent alone
    {3, 1, 0x20, 0x1F, 0x1F, 0, true},       // f6e2m3
    {2, 3, 0x20, 0x1F, 0x1F, 0, true},       // f6e3m2
    {1, 1, 0x08, 0x07, 0x07, 0, true},       // f4e2m1
};

constexpr int minifloat_index(DType t) { return static_cast<int>(t) - static_cast<int>(DType::kF8E4M3FN); }
constexpr const MinifloatFormat& minifloat_format(DType t) { return kMinifloatFormats[minifloat_index(t)]; }

}  // namespace minnow
