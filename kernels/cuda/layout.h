// Between plain images [image, channel, pixel] and channels-last ones [image, pixel, channel rounded up to 8], of the
// same or another float type: what images pass through on their way to the device and back.
#pragma once

#include "kernels/core/dtype.h"
#include "kernels/cuda/activation.h"
#include "kernels/cuda/launch.h"

namespace minnow::cuda {

struct LayoutChange {
  DType from = DType::kF32, to = DType::kF16;  // kF16, kBF16 or kF32; not kF16 with kBF16
  bool to_channels_last = true;
  int images = 0, channels = 0, pixels = 0;
  const void* x = nullptr;
  void* y = nullptr;  // what is beyond the channels becomes 0
};

cudaError_t change_layout(const LayoutChange& problem, const Target& target);

// y = activation(x * gate + residual), of channels-last images.
struct Combine {
  DType dtype = DType::kF16;  // of all operands: kF16, kBF16 or kF32
  int images = 0, pixels = 0;
  int channels = 0;  // of the memory: a multiple of 8
  Activation activation;

  const void* x = nullptr;
  const void* gate = nullptr;      // [images or 1, channels], or null
  int gate_stride = 0;             // elements from one image's gate to the next one's; 0: one for all
  const void* residual = nullptr;  // like x, or null
  void* y = nullptr;               // may be x or the residual
};

cudaError_t combine(const Combine& problem, const Target& target);

}  // namespace minnow::cuda
