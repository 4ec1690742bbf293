// Conversion between float types, as inputs and outputs need it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/cuda/launch.h"

namespace minnow::cuda {

struct FloatConversion {
  DType from = DType::kF32, to = DType::kF16;
  int64_t count = 0;
  const void* x = nullptr;
  void* y = nullptr;
};

// Between f32 and a type of 16 bits, in memory that is aligned to 16 bytes.
bool can_convert_floats(const FloatConversion& problem);
// A finite number stays finite in f16.
cudaError_t convert_floats(const FloatConversion& problem, const Target& target);

}  // namespace minnow::cuda
