// Between plain tensors and those with channels last.
#pragma once

#include "kernels/vulkan/device_table.h"

namespace minnow::vulkan {

// Of elements of one type. `packs`: to channels last. It runs without reshape(), too.
std::unique_ptr<Kernel> create_layout_kernel(gpu::Device& device, DType dtype, bool packs);

}  // namespace minnow::vulkan
