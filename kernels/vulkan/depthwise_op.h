// Convolutions with a channel in a group, of images with channels last.
#pragma once

#include "kernels/vulkan/device_table.h"

namespace minnow::vulkan {

bool is_depthwise(const NodeContext& node);
bool supports_depthwise(const NodeContext& node, std::string* why);
std::unique_ptr<Kernel> create_depthwise(const NodeContext& node);

}  // namespace minnow::vulkan
