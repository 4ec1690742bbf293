// The kernels that only Vulkan has. A row serves the nodes that its `supports` admits, and the portable row
// (kernels/gpu) all others:
//
//   MINNOW_VULKAN_KERNEL("MaxPool", create_pool, supports_pool, LayoutRule::kPacked);
#pragma once

#include "kernels/gpu/channels_last.h"
#include "kernels/gpu/device.h"

namespace minnow::vulkan {

// What kernels choose by.
struct Machine {
  bool matrices = false;   // cooperative matrices of 16 x 16 halves with sums of f32, by subgroups of 32
  bool subgroups = false;  // sums over a subgroup
  int subgroup = 1;        // work-items of a subgroup
  int units = 1;           // multiprocessors, or a guess
};
const Machine& machine_of(const NodeContext& node);

using gpu::kChannelRound;
using gpu::round_channels;

using VulkanKernels = gpu::KernelsOf<struct Vulkan>;

#define MINNOW_VULKAN_KERNEL(...) \
  MINNOW_REGISTER(::minnow::vulkan::VulkanKernels, MINNOW_UNIQUE(vulkan_registrar_), __VA_ARGS__)

}  // namespace minnow::vulkan
