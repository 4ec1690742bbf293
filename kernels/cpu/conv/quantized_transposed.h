// A transposed convolution by weights that stay quantized: some pixels at a time are rows of a matrix, and what their
// products are for each place of the window is added to the output there.
#pragma once

#include <array>

#include "kernels/core/window.h"
#include "kernels/cpu/gemm/quantized_columns.h"

namespace minnow {

class QuantizedTransposed {
 public:
  QuantizedTransposed() = default;
  // Of a group of channels. `window` and sizes are those of an image (axes 1 and 2).
  QuantizedTransposed(const QuantizedMatrix& w, const Window& window, const std::array<int64_t, 3>& in,
                      const std::array<int64_t, 3>& out, int64_t in_channels, int64_t out_channels,
                      const Activation& activation, int threads, Precision precision);

  bool empty() const { return columns_.empty(); }
  const QuantizedColumns& columns() const { return columns_; }
  const char* scheme() const { return columns_.scheme(); }
  int64_t workspace_bytes() const;

  struct Call {
    const float *in, *w, *bias, *residual;  // the last two may be null
    float* out;
    void* workspace;
    ThreadPool* pool;
  };
  // Of an image in packed layout.
  void run(const Call& call) const;

 private:
  int64_t taps() const { return window_.kernel[1] * window_.kernel[2]; }
  int64_t pixels() const { return in_[1] * in_[2]; }
  void gather(const float* image, int64_t begin, float* rows, ThreadPool* pool) const;
  void add(const float* sums, int64_t block, int64_t begin, float* out) const;

  Window window_;
  std::array<int64_t, 3> in_{}, out_{};
  int64_t in_channels_ = 0, out_channels_ = 0, band_ = 1;  // pixels at a time
  Activation activation_;
  QuantizedColumns columns_;
};

}  // namespace minnow
