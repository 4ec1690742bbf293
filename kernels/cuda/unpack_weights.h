// Quantized weights as floats, for products of many rows.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/core/dtype.h"

namespace minnow::cuda {

// w = scale * (q - 2^(bits - 1)) + offset, with a scale and an offset for each group of a row, in the form of
// quantized_tile.h.
struct UnpackWeights {
  int n = 0, k = 0, padded = 0;  // `padded`: what comes after k is 0
  int bits = 4, group = 32;
  const uint8_t* q = nullptr;
  const float* scale = nullptr;
  const float* offset = nullptr;  // or null
  DType dtype = DType::kF16;      // of the floats
  void* to = nullptr;             // [n, padded]
};
cudaError_t unpack_weights(const UnpackWeights& problem, cudaStream_t stream);

}  // namespace minnow::cuda
