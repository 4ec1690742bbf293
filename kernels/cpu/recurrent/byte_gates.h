// Products of rows of floats with the weights of all gates of a recurrent layer, which have 8 bits: each row is
// quantized by its own range, and the sums of products of integers are exact.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/core/tensor.h"
#include "kernels/core/thread_pool.h"
#include "kernels/cpu/gemm/byte_product.h"
#include "kernels/cpu/quant/dynamic.h"

namespace minnow {

// The weights of a direction, [k][gates * units].
struct GateWeights {
  const uint8_t* bytes = nullptr;
  DType type = DType::kI8;
  const float* scale = nullptr;
  const uint8_t* zero = nullptr;  // of the same type; null: 0
  bool scale_of_column = false, zero_of_column = false;
};

class ByteGates {
 public:
  ByteGates() = default;
  ByteGates(int64_t k, int64_t units, int64_t gates);

  // From one gate to the next in packed weights; a gate is whole panels.
  int64_t stride() const { return panels_ * width_; }
  int64_t panels() const { return panels_; }
  int64_t width() const { return width_; }
  int64_t packed_words() const { return gates_ * panels_ * panel_words(); }
  int64_t table_bytes() const { return static_cast<int64_t>(offset_.size() * sizeof(int64_t)); }
  void pack(const GateWeights& w, uint32_t* to, ThreadPool* pool) const;

  // Rows as bytes, with their ranges.
  int64_t row_words(int64_t rows) const;
  // Makes those of the rows [begin, end) of `rows` rows. `shared`: the range of all rows; null: each has its own.
  void round(const float* x, int64_t rows, int64_t begin, int64_t end, const ByteRange* shared, uint32_t* to) const;

  struct Call {
    const uint32_t* rows = nullptr;  // of round()
    int64_t count = 0;
    const uint32_t* packed = nullptr;
    const float* bias = nullptr;  // [gates][units], or null
    float* out = nullptr;
    int64_t row_step = 0, gate_step = 0;  // of `out`
    bool backward = false;                // starts at the last gate
  };
  // The panels [begin, end) of each of the gates.
  void multiply(const Call& call, int64_t begin, int64_t end) const;

 private:
  // Lanes, then for each column its sum less K times its zero point, its zero point and its scale; room to read beyond.
  int64_t panel_words() const { return (steps_ + 3) * width_ + 64; }
  int64_t lanes(int64_t rows) const { return unit_ == nullptr ? rows * steps_ : byte_size(*unit_, rows, steps_); }
  void pack_panel(const GateWeights& w, int64_t gate, int64_t panel, uint32_t* to) const;
  void multiply_panel(const Call& call, int64_t gate, int64_t panel) const;

  const ByteUnit* unit_ = nullptr;
  int64_t k_ = 0, units_ = 0, gates_ = 0;
  int64_t steps_ = 0, width_ = 1, panels_ = 0;
  std::vector<int64_t> offset_;  // of steps, where no unit is
};

// Packs the weights of all directions of DynamicLSTM: for each those of the input, then the recurrent ones.
// `tensor_of` gives its operands.
void pack_gates(const ByteGates& input, const ByteGates& recurrent, FunctionRef<const Tensor*(int)> tensor_of,
                uint32_t* to, ThreadPool* pool);

// The sums of a row for some columns, and what they become.
struct GateSums {
  const uint32_t* sums;    // of products of the bytes, as they lie
  const uint32_t* column;  // sums of the columns less K times their zero points, [width]; then zero points, and scales
  int64_t width;
  uint32_t row, zero;  // the sum of the row, and its zero point
  float scale;         // of the row
  const float* bias;   // or null
  float* out;
  int64_t n;
};

}  // namespace minnow
