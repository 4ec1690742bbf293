// Products with a constant matrix of which most numbers are 0, in f32: what is not 0 is multiplied, alone or with three
// neighbouring outputs for the same input. A linear layer is a convolution of one row here.
#pragma once

#include <memory>
#include <vector>

#include "kernels/core/thread_pool.h"
#include "kernels/cpu/gemm/activation.h"
#include "kernels/cpu/machine/cost.h"

namespace minnow {

// A constant matrix [outputs][inputs]; distances in floats.
struct SparseMatrix {
  const float* data = nullptr;
  int64_t outputs = 0, inputs = 0;
  int64_t output_stride = 0, input_stride = 1;

  const float* at(int64_t output, int64_t input) const { return data + output * output_stride + input * input_stride; }
};

// What the product is computed for. Channels lie in blocks of pack_width() side by side.
struct SparseShape {
  // Distances in floats between pixels, rows, blocks of channels and images. Rows that follow each other without a gap
  // may be one.
  struct Place {
    int64_t pixel, row, block, image;
  };

  int64_t n = 1, ic = 0, ih = 1, iw = 1, oc = 0, oh = 1, ow = 1, group = 1;
  int64_t kh = 1, kw = 1, sh = 1, sw = 1, dh = 1, dw = 1, top = 0, left = 0;
  Place in = {}, out = {};
  int64_t out_lanes = 0;  // of the last block of output channels: those that may be written
  Activation activation;
  int threads = 1;

  // Rows of so many inputs and outputs.
  static SparseShape of_rows(int64_t rows, int64_t inputs, int64_t outputs, const Activation& activation, int threads);
};

struct SparseCall {
  const float* x;
  const float* w;         // as pack() left it
  const float* bias;      // of all output channels, or null
  const float* residual;  // placed as y, or null
  float* y;
  void* workspace;  // aligned to 64 bytes
  ThreadPool* pool;
};

// A sum of `inputs` products has those with 0 left out only where all inputs are finite: 0 times infinity is NaN here
// as anywhere else.
class SparseProduct {
 public:
  // Null where it would take longer than `seconds` by the estimate, or where there is no such kernel.
  static std::unique_ptr<SparseProduct> faster_than(double seconds, const SparseShape& shape,
                                                    const SparseMatrix& matrix);

  const char* packing() const { return block_ == 1 ? "sparse" : "sparse4"; }
  int64_t packed_floats() const { return static_cast<int64_t>(offsets_.size()) * block_; }
  int64_t table_bytes() const {
    return 4 * static_cast<int64_t>(starts_.capacity() + offsets_.capacity() + columns_.capacity());
  }
  void pack(const SparseMatrix& matrix, float* packed) const;
  int64_t workspace_bytes() const { return shape_.threads * worker_floats() * 4; }
  void run(const SparseCall& call) const;
  Work work() const { return work_; }

 private:
  SparseProduct(const SparseShape& shape, int block, int64_t nonzero);
  bool is_small() const { return worker_floats() < kMostFloats; }
  int64_t row_phase(int64_t tap) const { return tap * shape_.dh % shape_.sh; }
  int64_t column_phase(int64_t tap) const { return tap * shape_.dw % shape_.sw; }
  void find(const SparseMatrix& matrix);
  void divide();

  static constexpr int64_t kMostFloats = 4 << 20;
  int64_t columns() const { return shape_.ic / shape_.group * shape_.kh * shape_.kw; }
  int64_t of_group(int64_t channels) const { return channels / shape_.group; }
  int64_t row_blocks() const;  // of a group
  int64_t out_blocks() const;  // of a group
  int64_t sums_stride() const;
  int64_t worker_floats() const;
  int64_t vectors_of(int64_t rows, int64_t width) const;
  struct Piece {
    int64_t image, group, row_begin, row_end, column_begin, column_end;  // of the output
  };
  Piece piece(int64_t i) const;
  bool gather(const SparseCall& call, const Piece& p, float* to) const;
  void multiply(const SparseCall& call, const Piece& p, int64_t block, const float* x, bool finite, float* sums,
                float* spare) const;
  void finish(const SparseCall& call, const Piece& p, int64_t block, const float* sums) const;

  SparseShape shape_;
  int block_;          // outputs that are 0 together
  bool flat_ = false;  // one row, cut into pieces anywhere
  Work work_;
  int64_t pack_, most_vectors_;
  // Of the taps, where strides are more than 1: the distinct distances from the places that the strides reach, which
  // are those of the first taps, and then come again.
  int64_t row_phases_ = 1, column_phases_ = 1;
  int64_t band_ = 1, width_ = 1;                      // rows, and columns, of the output of a piece
  int64_t bands_ = 1, parts_ = 1;                     // pieces of an image; parts of the output channels
  int64_t plane_rows_ = 1, row_ = 1, plane_ = 1;      // what a piece reads of a channel, by phases
  std::vector<uint32_t> starts_, offsets_, columns_;  // offsets: by blocks of outputs, where their inputs lie
};

}  // namespace minnow
