#include "kernels/vulkan/abilities.h"

#include <algorithm>
#include <cstring>

namespace minnow::vulkan {
namespace {

constexpr uint32_t kSide = 16;      // of the matrices that the kernels use
constexpr uint32_t kSubgroup = 32;  // and how many items hold one
constexpr int kUnits = 32;          // where the device does not tell

// Whether the device multiplies matrices of 16 x 16 halves, with sums of f32.
bool has_matrices(const InstanceApi& vk, VkPhysicalDevice device) {
  if (!has_extension(vk, device, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME) ||
      !has_extension(vk, device, VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME))
    return false;
  MatrixFeatures features;
  VkPhysicalDeviceFeatures2 all = {};
  all.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  std::vector<const char*> extensions;
  features.add_to(&all, &extensions);
  features.matrices.cooperativeMatrix = features.halves.shaderFloat16 = VK_FALSE;
  vk.vkGetPhysicalDeviceFeatures2(device, &all);
  if (features.matrices.cooperativeMatrix != VK_TRUE || features.halves.shaderFloat16 != VK_TRUE) return false;
  const auto ask = reinterpret_cast<PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR>(
      vk.find(vk.instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
  uint32_t n = 0;
  if (ask == nullptr || ask(device, &n, nullptr) != VK_SUCCESS) return false;
  VkCooperativeMatrixPropertiesKHR empty = {};
  empty.sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
  std::vector<VkCooperativeMatrixPropertiesKHR> known(n, empty);
  if (ask(device, &n, known.data()) != VK_SUCCESS) return false;
  return std::any_of(known.begin(), known.end(), [](const VkCooperativeMatrixPropertiesKHR& p) {
    return p.MSize == kSide && p.NSize == kSide && p.KSize == kSide && p.AType == VK_COMPONENT_TYPE_FLOAT16_KHR &&
           p.BType == VK_COMPONENT_TYPE_FLOAT16_KHR && p.CType == VK_COMPONENT_TYPE_FLOAT32_KHR &&
           p.ResultType == VK_COMPONENT_TYPE_FLOAT32_KHR && p.scope == VK_SCOPE_SUBGROUP_KHR;
  });
}

}  // namespace

bool has_extension(const InstanceApi& vk, VkPhysicalDevice device, const char* name) {
  uint32_t n = 0;
  if (vk.vkEnumerateDeviceExtensionProperties(device, nullptr, &n, nullptr) != VK_SUCCESS) return false;
  std::vector<VkExtensionProperties> all(n);
  if (vk.vkEnumerateDeviceExtensionProperties(device, nullptr, &n, all.data()) != VK_SUCCESS) return false;
  return std::any_of(all.begin(), all.end(),
                     [&](const VkExtensionProperties& e) { return std::strcmp(e.extensionName, name) == 0; });
}

Machine find_machine(const InstanceApi& vk, VkPhysicalDevice device) {
  VkPhysicalDeviceShaderSMBuiltinsPropertiesNV units = {};
  units.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV;
  VkPhysicalDeviceSubgroupProperties subgroups = {};
  subgroups.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
  const bool tells_units = has_extension(vk, device, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME);
  if (tells_units) subgroups.pNext = &units;
  VkPhysicalDeviceProperties2 properties = {};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  properties.pNext = &subgroups;
  vk.vkGetPhysicalDeviceProperties2(device, &properties);
  Machine machine;
  machine.subgroup = static_cast<int>(subgroups.subgroupSize);
  machine.subgroups = (subgroups.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 &&
                      (subgroups.supportedOperations & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT) != 0;
  machine.units = tells_units && units.shaderSMCount > 0 ? static_cast<int>(units.shaderSMCount) : kUnits;
  machine.matrices = subgroups.subgroupSize == kSubgroup && has_matrices(vk, device);
  return machine;
}

void MatrixFeatures::add_to(VkPhysicalDeviceFeatures2* all, std::vector<const char*>* extensions) {
  halves.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES;
  halves.shaderFloat16 = VK_TRUE;
  halves.pNext = all->pNext;
  matrices.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR;
  matrices.cooperativeMatrix = VK_TRUE;
  matrices.pNext = &halves;
  all->pNext = &matrices;
  extensions->push_back(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
  extensions->push_back(VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME);
}

}  // namespace minnow::vulkan
