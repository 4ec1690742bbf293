// How a device treats floats that are no ordinary numbers: drivers may drop NaN and take subnormal numbers for zeros,
// unless a kernel asks them not to, which the extension VK_KHR_shader_float_controls is for.
#pragma once

#include <vector>

#include "kernels/vulkan/api.h"

namespace minnow::vulkan {

// Widths of floats in bits, added: 16 + 32 + 64.
struct FloatModes {
  uint32_t special = 0;    // NaN, infinities and the signs of zeros are kept
  uint32_t subnormal = 0;  // and numbers below the least normal one
};

// All that a device lets a kernel ask for, and kernels need: they compute with 32 bits, and store 16.
FloatModes choose_float_modes(const VkPhysicalDeviceFloatControlsProperties& device);

// SPIR-V of one entry point, made to ask for them.
std::vector<uint32_t> with_float_modes(const uint32_t* code, size_t bytes, const FloatModes& modes);

}  // namespace minnow::vulkan
