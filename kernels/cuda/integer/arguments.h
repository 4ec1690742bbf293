// What the kernels of quantized layers are told. Sums of 8-bit integers are exact: every way to compute them gives the
// same bits.
#pragma once

#include <cstdint>

namespace minnow::cuda {

// What becomes of a sum. Arrays have a number for each column, up to a multiple of 8, or are null.
struct IntegerEnding {
  enum Kind : int32_t {
    kSum,         // as it is
    kFixedPoint,  // Requantize by `factor` and `shift`
    kFactor,      // times `scale`, rounded, plus `zero`
  };
  int32_t kind = kSum;
  int32_t bytes = 4;                // of an element of y
  const int32_t* bias = nullptr;    // is added
  const int32_t* w_zero = nullptr;  // zero points of the weights as they are multiplied; times the sum of the row of x
  const int32_t* correction = nullptr;  // times the zero point of x; with x_zero
  const void* x_zero = nullptr;         // one number of the type of x, in the memory of the device
  int32_t row_sum_add = 0;              // to the sums of rows: for the lanes beyond the depth
  const int32_t* factor = nullptr;
  const int32_t* shift = nullptr;
  const float* scale = nullptr;
  int32_t zero = 0, least = 0, most = 0;
  bool plain = false;  // see is_plain, of `factor` and `shift`, or all of `scale` are finite
  // Then, of results that are bytes, `table`; then `own` of it plus `terms` of `other`, by sum_factor and sum_shift;
  // then `last`. Tables have 256 numbers, in the order of bytes without a sign.
  const uint8_t* table = nullptr;
  const uint8_t* other = nullptr;  // addressed as y
  const int32_t *own = nullptr, *terms = nullptr;
  int32_t sum_factor = 0, sum_shift = 0, sum_zero = 0, sum_least = 0, sum_most = 0;
  bool plain_sum = false;  // see is_plain
  const uint8_t* last = nullptr;
  void* y = nullptr;
  int64_t row = 0;    // elements from one row of y to the next
  int columns = 0;    // that may be written
  bool wide = false;  // 8 columns at once: rows, `columns` and the address are multiples of 8
};

// Numbers are only made smaller, and the product of none with the factor is beyond 62 bits: this takes a third of the
// instructions.
constexpr bool is_plain(int32_t factor, int32_t shift) { return factor != INT32_MIN && shift <= 0 && shift >= -31; }

struct IntegerArguments {
  const void* x = nullptr;    // [images, H, W, pixel], 8 bits; a matrix is one row of M pixels
  const int8_t* w = nullptr;  // [columns, depth]: rows [taps, channels up to a multiple of the chunk], then zeros
  const void* pad = nullptr;  // 16 zero points of x, for what lies outside of the image; null: zeros
  uint32_t flip = 0;          // 0x80808080: x is unsigned, 128 is subtracted
  IntegerEnding end;
  int H = 1, W = 1, C = 0;  // C: channels that count
  int pixel = 0;            // bytes from one pixel to the next
  int R = 1, S = 1, P = 1, Q = 1;
  int stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  int M = 0, N = 0;
  int depth = 0;  // bytes of a row of w, a multiple of 16
  bool row_sums = false;
  int64_t x_batch = 0, w_batch = 0, y_batch = 0;
  int column_batch = 0;           // numbers from one product of a batch to the next, in the arrays of the ending
  int steps = 0, steps_each = 0;  // of 128 bytes in depth: in all, and for each block of a cluster that shares a tile
  int column_tiles = 1;
  bool constant_w = true;
};

// A product of 8-bit integers as it is to be computed. Sizes, strides and addresses are those of `a`.
struct IntegerProduct {
  int batch = 1;
  int chunk = 16;  // bytes that are copied at once: 16, or 8 where pixels begin at multiples of 8 only
  IntegerArguments a;
  bool is_matrix() const {
    return a.R * a.S == 1 && a.stride_h == 1 && a.stride_w == 1 && a.pad_h == 0 && a.pad_w == 0 && a.P == a.H &&
           a.Q == a.W;
  }
};

}  // namespace minnow::cuda
