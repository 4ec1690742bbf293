// Depthwise convolution of channels-last images: every channel by itself. What follows is in one pass over memory:
// y = activation(gate * (x conv w) + bias + residual), in f32.
#pragma once

#include "kernels/core/dtype.h"
#include "kernels/cuda/activation.h"
#include "kernels/cuda/launch.h"

namespace minnow::cuda {

struct Depthwise {
  DType dtype = DType::kF16;  // of x, weights, residual, gate and y: kF16, kBF16 or kF32
  int images = 0, height = 0, width = 0;
  int channels = 0;  // of the memory: a multiple of 8
  int out_height = 0, out_width = 0;
  int kernel_height = 1, kernel_width = 1;
  int stride_y = 1, stride_x = 1, dilation_y = 1, dilation_x = 1;
  int pad_y = 0, pad_x = 0;  // before the first row and column
  Activation activation;

  const void* x = nullptr;         // [images, height, width, channels]
  const void* weights = nullptr;   // [kernel_height, kernel_width, channels]; written before the run
  const float* bias = nullptr;     // [channels], or null; written before the run
  const void* residual = nullptr;  // like y, or null
  const void* gate = nullptr;      // [images or 1, channels], or null: a factor of each channel of x
  int gate_stride = 0;             // elements from one image's gate to the next one's; 0: one for all
  void* y = nullptr;               // [images, out_height, out_width, channels]
  int scheme = -1;                 // which way to compute it; -1: whichever is expected to be the fastest
};

// How many ways there are to compute it: schemes from 0 on.
int depthwise_schemes(const Depthwise& problem);

// All pointers are aligned to 16 bytes; y overlaps nothing that is read. cudaErrorInvalidValue for other types.
cudaError_t depthwise(const Depthwise& problem, const Target& target);

}  // namespace minnow::cuda
