// GPUs by Vulkan 1.1.
#pragma once

#include <memory>

#include "kernels/gpu/device.h"

namespace minnow::vulkan {

// Devices that compute; 0 where there is no Vulkan.
int count_devices();
Status open_device(int index, std::unique_ptr<gpu::Device>* out);

}  // namespace minnow::vulkan
