// Whether a device's cooperative matrices multiply as they should.
#pragma once

#include "kernels/vulkan/gpu.h"

namespace minnow::vulkan {

// Multiplies small whole numbers by the text product_32x32, as every layer does. False where the driver cannot compile
// it, or the results are others.
bool matrices_are_right(VulkanDevice& device);

}  // namespace minnow::vulkan
