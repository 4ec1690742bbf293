// Depthwise Conv nodes, for the row of Conv.
#pragma once

#include <memory>
#include <string>

#include "kernels/core/kernel.h"

namespace minnow::cuda {

// Whether there is a kernel for it, see gpu::is_depthwise(); x, the residual and y are channels-last then.
bool supports_depthwise(const NodeContext& node, std::string* why);
std::unique_ptr<Kernel> create_depthwise(const NodeContext& node);

}  // namespace minnow::cuda
