// GroupNorm and InstanceNorm of channels-last images.
#pragma once

#include "kernels/core/dtype.h"
#include "kernels/cuda/activation.h"
#include "kernels/cuda/launch.h"

namespace minnow::cuda {

struct GroupNorm {
  DType dtype = DType::kF16;            // kF16, kBF16 or kF32
  DType parameter_dtype = DType::kF32;  // of scale and bias: kF32, or that of x
  int images = 0, pixels = 0;
  int channels = 0;  // those that there are; in memory they are rounded up to a multiple of 8, at most 4096
  int groups = 1;    // as many as channels: InstanceNorm
  float epsilon = 1e-5f;
  Activation activation;

  const void* x = nullptr;
  const void* scale = nullptr;  // [channels], or null
  const void* bias = nullptr;   // [channels], or null
  void* y = nullptr;            // may be x
  float* workspace = nullptr;   // of group_norm_workspace() bytes
};

int64_t group_norm_workspace(const GroupNorm& problem);
cudaError_t group_norm(const GroupNorm& problem, const Target& target);

}  // namespace minnow::cuda
