// A convolution by weights that stay quantized: the windows of some pixels at a time become rows of a matrix, which is
// multiplied with them.
#pragma once

#include "kernels/cpu/conv/scheme.h"
#include "kernels/cpu/gemm/quantized.h"

namespace minnow {

class QuantizedWindows {
 public:
  QuantizedWindows() = default;
  // `form` is that of a group of channels, and has the columns of a row in the order of direct_order() (conv.cpp).
  // Images of one pixel are rows already.
  QuantizedWindows(const ConvShape& shape, const QuantizedForm& form, bool one_pixel, bool has_residual);

  const QuantizedForm& form() const { return gemm_[0].form(); }
  int64_t bytes() const { return shape_.group * form().bytes(); }  // packed
  const char* scheme() const { return gemm_[0].scheme(); }
  int64_t workspace_bytes() const;
  void run(const ConvCall& call) const;

 private:
  int64_t pixels() const { return shape_.n * shape_.oh * shape_.ow; }
  int64_t row_bytes() const;  // of what a row needs in the workspace beside the product's own
  void gather(const float* x, int64_t group, int64_t pixel, float* row) const;
  // Pixel by pixel of a band, from the image to rows or back.
  void move(float* image, float* rows, int64_t begin, int64_t count, bool to_image, ThreadPool* pool) const;

  ConvShape shape_ = {};
  bool one_pixel_ = false, has_residual_ = false;
  int64_t band_ = 1, out_row_ = 0;  // pixels at a time; floats of a row of the result
  QuantizedGemm gemm_[2];           // of all bands but the last one, and of that
};

}  // namespace minnow
