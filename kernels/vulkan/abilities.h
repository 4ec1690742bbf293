// What a device can do beyond Vulkan 1.1, that kernels of this folder use where it is there.
#pragma once

#include <vector>

#include "kernels/vulkan/api.h"
#include "kernels/vulkan/device_table.h"

// Of VK_KHR_cooperative_matrix, which headers before 1.3.255 do not have.
#ifndef VK_KHR_cooperative_matrix
#define VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME "VK_KHR_cooperative_matrix"
constexpr auto VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR =
    static_cast<VkStructureType>(1000506000);
constexpr auto VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR = static_cast<VkStructureType>(1000506001);
enum VkComponentTypeKHR { VK_COMPONENT_TYPE_FLOAT16_KHR = 0, VK_COMPONENT_TYPE_FLOAT32_KHR = 1 };
enum VkScopeKHR { VK_SCOPE_SUBGROUP_KHR = 3 };
struct VkPhysicalDeviceCooperativeMatrixFeaturesKHR {
  VkStructureType sType;
  void* pNext;
  VkBool32 cooperativeMatrix;
  VkBool32 cooperativeMatrixRobustBufferAccess;
};
struct VkCooperativeMatrixPropertiesKHR {
  VkStructureType sType;
  void* pNext;
  uint32_t MSize, NSize, KSize;
  uint32_t AType, BType, CType, ResultType;
  VkBool32 saturatingAccumulation;
  uint32_t scope;
};
using PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR = VkResult(VKAPI_PTR*)(VkPhysicalDevice, uint32_t*,
                                                                                   VkCooperativeMatrixPropertiesKHR*);
#endif

namespace minnow::vulkan {

bool has_extension(const InstanceApi& vk, VkPhysicalDevice device, const char* name);

Machine find_machine(const InstanceApi& vk, VkPhysicalDevice device);

// What it takes to open a device for kernels with cooperative matrices.
struct MatrixFeatures {
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrices = {};
  VkPhysicalDeviceShaderFloat16Int8Features halves = {};
  // Both must live until the device is open.
  void add_to(VkPhysicalDeviceFeatures2* all, std::vector<const char*>* extensions);
};

}  // namespace minnow::vulkan
