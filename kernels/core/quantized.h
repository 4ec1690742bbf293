// Constant numbers of 2 to 8 bits as a file has them, with a scale for each block: what kernels pack them from.
#pragma once

#include <cstdint>

#include "kernels/core/float_buffer.h"

namespace minnow {

// A matrix in row-major order, w = code * scale + offset, with one scale and one offset for each block of `block`
// consecutive numbers of a row.
class QuantizedMatrix {
 public:
  virtual ~QuantizedMatrix() = default;

  int64_t rows = 0, columns = 0;
  int64_t block = 0;        // divides the columns
  int bits = 8;             // a code is from -2^(bits - 1) up to 2^(bits - 1) - 1
  bool has_offset = false;  // else all offsets are 0
  // What is stored of the scales and offsets: whether numbers of f16, and whether offsets are what the least code
  // stands for, not what 0 does.
  bool half_scales = false, offset_of_least = false;

  int64_t blocks() const { return columns / block; }  // of a row

  // The codes of `count` numbers from number `first` of the matrix on. Any thread may ask, for any of them.
  virtual void codes(int64_t first, int64_t count, int8_t* to) const = 0;
  // The scales and offsets of `count` blocks from block `first` of the matrix on.
  void scales(int64_t first, int64_t count, float* scale, float* offset) const;
  // As they are stored.
  virtual void stored_scales(int64_t first, int64_t count, float* scale, float* offset) const = 0;
  // A hint that the codes of so many numbers were read, and will not be read soon again.
  virtual void release(int64_t count) const { (void)count; }
  // The numbers themselves.
  void floats(int64_t first, int64_t count, float* to) const;
  // All of them. Throws where there is no room.
  FloatBuffer floats() const;
};

// Some of another matrix, from the number on with which its row `row` of so many columns begins.
class QuantizedRows final : public QuantizedMatrix {
 public:
  QuantizedRows(const QuantizedMatrix& whole, int64_t row, int64_t rows_here, int64_t columns_here)
      : whole_(whole), first_(row * columns_here) {
    rows = rows_here;
    columns = columns_here;
    block = whole.block;
    bits = whole.bits;
    has_offset = whole.has_offset;
    half_scales = whole.half_scales;
    offset_of_least = whole.offset_of_least;
  }
  void codes(int64_t first, int64_t count, int8_t* to) const override { whole_.codes(first_ + first, count, to); }
  void stored_scales(int64_t first, int64_t count, float* scale, float* offset) const override {
    whole_.stored_scales(first_ / block + first, count, scale, offset);
  }
  void release(int64_t count) const override { whole_.release(count); }

 private:
  const QuantizedMatrix& whole_;
  int64_t first_;
};

// Fewer weights than these are floats at once.
constexpr int64_t kLeastQuantized = 16384;

// Whether a convolution with images of so many numbers, input and output together, computes with weights as they are.
// Where images take the most memory, floats are as good.
inline bool keeps_quantized(const QuantizedMatrix& w, int64_t image_numbers) {
  const int64_t count = w.rows * w.columns;
  return count >= kLeastQuantized && count > image_numbers;
}

}  // namespace minnow
