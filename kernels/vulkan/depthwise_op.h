// Convolutions with a channel in a group, of images with channels last: see gpu::is_depthwise().
#pragma once

#include "kernels/vulkan/device_table.h"

namespace minnow::vulkan {

bool supports_depthwise(const NodeContext& node, std::string* why);
std::unique_ptr<Kernel> create_depthwise(const NodeContext& node);

}  // namespace minnow::vulkan
