// Pooling of channels-last images: under a sliding window, and of whole images.
#pragma once

#include "kernels/core/dtype.h"
#include "kernels/cuda/launch.h"

namespace minnow::cuda {

struct Pool {
  DType dtype = DType::kF16;  // kF16, kBF16 or kF32
  bool maximum = true;        // else the mean. NaN wins over numbers, padding never does.
  int images = 0, height = 0, width = 0;
  int channels = 0;  // of the memory: a multiple of 8
  int out_height = 0, out_width = 0;
  int kernel_height = 1, kernel_width = 1;
  int stride_y = 1, stride_x = 1, dilation_y = 1, dilation_x = 1;
  int pad_y = 0, pad_x = 0;          // before the first row and column
  int pad_y_end = 0, pad_x_end = 0;  // behind the last ones; they matter where padding counts
  bool count_padding = false;        // the mean counts padding as zeros

  const void* x = nullptr;  // [images, height, width, channels]
  void* y = nullptr;        // [images, out_height, out_width, channels]
};

cudaError_t pool(const Pool& problem, const Target& target);
// The same of kI8 or kU8, whose maximum it takes.
cudaError_t max_pool_bytes(const Pool& problem, const Target& target);

struct GlobalPool {
  DType dtype = DType::kF16;
  bool maximum = false;  // else the mean
  int images = 0, pixels = 0;
  int channels = 0;       // of the memory: a multiple of 8
  int kept_channels = 0;  // of each image in y
  int y_stride = 0;       // elements from one image to the next in y

  const void* x = nullptr;  // [images, pixels, channels]
  void* y = nullptr;        // [images, kept_channels]
};

cudaError_t global_pool(const GlobalPool& problem, const Target& target);

}  // namespace minnow::cuda
