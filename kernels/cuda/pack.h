// Between row-major tensors and channels-last ones, whose channels are rounded up to a multiple of 8: of any elements.
// Of floats layout.h does it faster.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"

namespace minnow::cuda {

struct Pack {
  const void* from = nullptr;
  void* to = nullptr;
  int element_bytes = 4;                         // 1, 2, 4 or 8
  int64_t images = 0, channels = 0, pixels = 0;  // channels without those that are only padding
  bool packs = true;                             // to channels-last, where lanes beyond the channels get zeros
};
cudaError_t pack(const Pack& problem, const Target& target);

}  // namespace minnow::cuda
