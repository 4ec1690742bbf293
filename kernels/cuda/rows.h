// Softmax and normalization of rows: of numbers that lie beside each other, or for Softmax `inner` apart.
#pragma once

#include "kernels/core/dtype.h"
#include "kernels/cuda/launch.h"

namespace minnow::cuda {

struct Softmax {
  DType dtype = DType::kF32;  // kF16, kBF16 or kF32
  bool log = false;
  int64_t outer = 0, length = 0, inner = 1;  // x is [outer, length, inner]; rows lie along the middle axis
  const void* x = nullptr;
  void* y = nullptr;  // may be x
};

cudaError_t softmax(const Softmax& problem, const Target& target);

// y = (x - mean) / sqrt(variance + epsilon) * scale + bias for each row; see LayerNorm, RMSNorm and GroupNorm in
// schema/ops/norm.py.
struct RowNorm {
  DType dtype = DType::kF32;            // of x and y: kF16, kBF16 or kF32
  DType parameter_dtype = DType::kF32;  // of scale and bias: kF32, or that of x
  bool centered = true;                 // else no mean is taken away (RMSNorm)
  int64_t rows = 0, length = 0;
  // Where scale and bias are one number per channel: the neighbors that are of one channel, the channels in a row, and
  // those of an image. 0: they are one number per element of a row.
  int64_t channel_size = 0, row_channels = 0, channels = 0;
  float epsilon = 1e-5f;
  bool constant_parameters = false;  // no kernel has written scale and bias: they are read before others have ended

  const void* x = nullptr;
  const void* scale = nullptr;  // or null
  const void* bias = nullptr;   // or null
  void* y = nullptr;            // may be x
};

cudaError_t row_norm(const RowNorm& problem, const Target& target);

}  // namespace minnow::cuda
