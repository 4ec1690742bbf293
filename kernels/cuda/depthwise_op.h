// Depthwise Conv nodes, for the row of Conv.
#pragma once

#include <memory>
#include <string>

#include "kernels/core/kernel.h"

namespace minnow::cuda {

// A Conv of one or two spatial axes whose groups have one channel each of x and y.
bool is_depthwise(const NodeContext& node);
// Whether there is a kernel for it; x, the residual and y are channels-last then.
bool supports_depthwise(const NodeContext& node, std::string* why);
std::unique_ptr<Kernel> create_depthwise(const NodeContext& node);

}  // namespace minnow::cuda
