// A kernel that only takes time: behind it others wait, until what is to be measured is enqueued.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"

namespace minnow::cuda {

cudaError_t delay(int64_t nanoseconds, const Target& target);

}  // namespace minnow::cuda
