// What all parts of a device use: its handles, and what it can do.
#pragma once

#include <mutex>

#include "kernels/vulkan/api.h"
#include "kernels/vulkan/device_table.h"
#include "kernels/vulkan/float_modes.h"

namespace minnow::vulkan {

struct Context {
  Context() = default;
  ~Context() {
    if (device != VK_NULL_HANDLE && vk.vkDestroyDevice != nullptr) vk.vkDestroyDevice(device, nullptr);
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const InstanceApi* instance = nullptr;
  DeviceApi vk;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  VkPhysicalDeviceProperties properties = {};
  VkPhysicalDeviceMemoryProperties memory = {};
  VkDeviceSize most_bytes = 0;  // of an allocation
  bool small_types = false;     // buffers of elements of 8 and 16 bits
  bool int64 = false;
  FloatModes float_modes;
  Machine machine;

  // All streams share one queue: what is submitted earlier is seen by what is submitted later, after a barrier.
  uint32_t family = 0;
  VkQueue queue = VK_NULL_HANDLE;
  std::mutex queue_mutex;
  double tick = 0;  // seconds of a step of the device's clock; 0: it has none

  // The processor's memory is the device's.
  bool is_unified() const {
    return properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ||
           properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  }
};

}  // namespace minnow::vulkan
