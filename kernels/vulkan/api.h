// The functions of Vulkan 1.1, from the system's loader at run time: nothing is linked.
#pragma once

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include "kernels/core/status.h"

namespace minnow::vulkan {

// The formatter never agrees with itself on this list.
// clang-format off
#define MINNOW_VULKAN_INSTANCE_FUNCTIONS(X)   \
  X(vkEnumeratePhysicalDevices)               \
  X(vkGetPhysicalDeviceProperties2)           \
  X(vkGetPhysicalDeviceFeatures2)             \
  X(vkGetPhysicalDeviceMemoryProperties)      \
  X(vkGetPhysicalDeviceQueueFamilyProperties) \
  X(vkEnumerateDeviceExtensionProperties) X(vkCreateDevice) X(vkGetDeviceProcAddr)
// clang-format on

// The formatter never agrees with itself on this list.
// clang-format off
#define MINNOW_VULKAN_DEVICE_FUNCTIONS(X)                                                                           \
  X(vkDestroyDevice)                                                                                                \
  X(vkGetDeviceQueue)                                                                                               \
  X(vkQueueSubmit)                                                                                                  \
  X(vkQueueWaitIdle)                                                                                                \
  X(vkCreateFence)                                                                                                  \
  X(vkDestroyFence)                                                                                                 \
  X(vkResetFences)                                                                                                  \
  X(vkWaitForFences) X(vkGetFenceStatus) X(vkAllocateMemory) X(vkFreeMemory) X(vkMapMemory) X(vkCreateBuffer)       \
      X(vkDestroyBuffer) X(vkGetBufferMemoryRequirements) X(vkBindBufferMemory) X(vkCreateShaderModule)             \
          X(vkDestroyShaderModule) X(vkCreatePipelineCache) X(vkDestroyPipelineCache) X(vkGetPipelineCacheData)     \
              X(vkCreateComputePipelines) X(vkDestroyPipeline) X(vkCreatePipelineLayout) X(vkDestroyPipelineLayout) \
                  X(vkCreateDescriptorSetLayout) X(vkDestroyDescriptorSetLayout) X(vkCreateDescriptorPool)          \
                      X(vkDestroyDescriptorPool) X(vkResetDescriptorPool) X(vkAllocateDescriptorSets)               \
                          X(vkUpdateDescriptorSets) X(vkCreateCommandPool) X(vkDestroyCommandPool)                  \
                              X(vkResetCommandPool) X(vkAllocateCommandBuffers) X(vkBeginCommandBuffer)             \
                                  X(vkEndCommandBuffer) X(vkCmdBindPipeline) X(vkCmdBindDescriptorSets)             \
                                      X(vkCmdPushConstants) X(vkCmdDispatch) X(vkCmdCopyBuffer)                     \
                                          X(vkCmdPipelineBarrier) X(vkCreateQueryPool) X(vkDestroyQueryPool)                \
                                              X(vkCmdResetQueryPool) X(vkCmdWriteTimestamp)                                 \
                                                  X(vkGetQueryPoolResults)
// clang-format on

// The functions of the loader, for an instance that lives as long as the process.
struct InstanceApi {
  VkInstance instance = VK_NULL_HANDLE;
  uint32_t version = 0;                      // of the instance: at least 1.1
  PFN_vkGetInstanceProcAddr find = nullptr;  // for the functions of extensions
#define MINNOW_DECLARE(name) PFN_##name name = nullptr;
  MINNOW_VULKAN_INSTANCE_FUNCTIONS(MINNOW_DECLARE)
#undef MINNOW_DECLARE
};

// The functions of a device.
struct DeviceApi {
#define MINNOW_DECLARE(name) PFN_##name name = nullptr;
  MINNOW_VULKAN_DEVICE_FUNCTIONS(MINNOW_DECLARE)
#undef MINNOW_DECLARE
};

// An error where there is no loader, or where it makes no instance.
Status find_api(const InstanceApi** out);
Status find_device_api(const InstanceApi& vk, VkDevice device, DeviceApi* out);

// An error of Vulkan: what was tried, and what it says.
Status failed(const char* what, VkResult result);

#define MINNOW_RETURN_IF_FAILED(what, expression)                              \
  do {                                                                         \
    const VkResult result_ = (expression);                                     \
    if (result_ != VK_SUCCESS) return ::minnow::vulkan::failed(what, result_); \
  } while (0)

}  // namespace minnow::vulkan
