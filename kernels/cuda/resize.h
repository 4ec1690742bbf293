// Resampling of channels-last images along rows and columns, by tables that the host has made.
#pragma once

#include "kernels/core/dtype.h"
#include "kernels/cuda/launch.h"

namespace minnow::cuda {

struct Resize {
  // Place i of the result is the sum of weight[k * out + i] * x[index[k * out + i]] over k; an index below 0 gives
  // `outside`.
  struct Axis {
    int in = 1, out = 1, taps = 1;
    const int* index = nullptr;
    const float* weight = nullptr;  // null: the only tap is taken as it is
  };
  DType dtype = DType::kF16;  // kF16, kBF16 or kF32
  int images = 0;
  int channels = 0;  // of the memory: a multiple of 8
  Axis rows, columns;
  float outside = 0;

  const void* x = nullptr;  // [images, rows.in, columns.in, channels]
  void* y = nullptr;        // [images, rows.out, columns.out, channels]
};

// Both axes have weights, or none has.
cudaError_t resize(const Resize& problem, const Target& target);

}  // namespace minnow::cuda
