// Rows of numbers: weighted sums of several, and other types of one.
#pragma once

#include <cstdint>

#include "kernels/core/dtype.h"

namespace minnow::vision {

// dst[i] = sum of weight[k] * rows[k][i]. Those of 16 bits are modulo 2^16: right wherever the sum fits.
void sum_rows(const int32_t* const* rows, const int32_t* weight, int64_t taps, int32_t* dst, int64_t n);
void sum_rows(const float* const* rows, const float* weight, int64_t taps, float* dst, int64_t n);
void sum_rows(const double* const* rows, const double* weight, int64_t taps, double* dst, int64_t n);
void sum_rows(const uint8_t* const* rows, const uint16_t* weight, int64_t taps, uint16_t* dst, int64_t n);
void sum_rows(const uint16_t* const* rows, const uint16_t* weight, int64_t taps, uint16_t* dst, int64_t n);
// The same, rounded and divided by 2^bits; the weights are not negative, and their sum is at most 2^15.
void mean_of_rows(const uint16_t* const* rows, const uint16_t* weight, int64_t taps, int bits, uint8_t* dst, int64_t n);

// dst[i] += added[i] - removed[i].
void slide_rows(const uint16_t* added, const uint16_t* removed, uint16_t* dst, int64_t n);
void slide_rows(const int32_t* added, const int32_t* removed, int32_t* dst, int64_t n);

// A quotient of x with a small number, rounded: (x + offset) * factor / 2^16.
struct Quotient {
  uint16_t offset, factor;
};
// The same with sums of 16 bits, and their quotients, which fit bytes.
void slide_means(const uint16_t* added, const uint16_t* removed, uint16_t* sums, Quotient quotient, uint8_t* dst,
                 int64_t n);

// Rounded and divided by 2^bits, to what fits bytes.
void narrow_row(const uint16_t* src, int bits, uint8_t* dst, int64_t n);
// Sums times a factor, as `saturated` does it.
void scale_row(const uint16_t* src, float factor, DType dtype, void* dst, int64_t n);
void scale_row(const int32_t* src, float factor, DType dtype, void* dst, int64_t n);
// i16 as u8 or f32.
void convert_row(const int16_t* src, DType dtype, void* dst, int64_t n);

void widen_row(const uint8_t* src, float* dst, int64_t n);
void widen_row(const uint16_t* src, float* dst, int64_t n);
void widen_row(const int16_t* src, float* dst, int64_t n);
void widen_row(const uint8_t* src, int32_t* dst, int64_t n);
// To the nearest, ties to even, and to the limits of the type; NaN is the least.
void round_row(const float* src, uint8_t* dst, int64_t n);
void round_row(const float* src, uint16_t* dst, int64_t n);
void round_row(const float* src, int16_t* dst, int64_t n);

}  // namespace minnow::vision
