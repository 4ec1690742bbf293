// Convolution of images of bf16 with channels last (Layout::kLast), for precision "low".
#pragma once

#include <memory>
#include <vector>

#include "kernels/core/kernel.h"

namespace minnow {

// Whether there is a kernel for such a convolution, by the types of its inputs.
bool takes_half_images(const std::vector<const TensorType*>& inputs);
std::unique_ptr<Kernel> create_conv_half();

}  // namespace minnow
