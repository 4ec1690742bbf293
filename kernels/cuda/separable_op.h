// Conv nodes that are fused with the depthwise convolution before them (runtime/src/fuse/separable_conv.cpp).
#pragma once

#include <memory>
#include <string>

#include "kernels/core/kernel.h"

namespace minnow::cuda {

// Whether the node is one.
bool is_separable(const NodeContext& node);
bool supports_separable(const NodeContext& node, std::string* why);
std::unique_ptr<Kernel> create_separable(const NodeContext& node);

}  // namespace minnow::cuda
