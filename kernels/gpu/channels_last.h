// Images with channels last, as the kernels of a GPU that has such read and write them.
#pragma once

#include <cstdint>

#include "kernels/core/kernel.h"

namespace minnow::gpu {

// The memory of a tensor in that layout: C is rounded up to a multiple of this.
constexpr int64_t kChannelRound = 8;
constexpr int64_t round_channels(int64_t c) { return (c + kChannelRound - 1) / kChannelRound * kChannelRound; }

// The types of floats that these kernels compute.
constexpr bool is_kernel_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

// A Conv of one or two spatial axes whose groups have one channel each of x and y.
bool is_depthwise(const NodeContext& node);

}  // namespace minnow::gpu
