// A Vulkan loader in front of the system's, which makes of its devices what they are not:
//   SHIM_LACKS=small,int64,floats   features that they lack; floats: VK_KHR_shader_float_controls
//   SHIM_FLOATS=0, 1 or 2    they keep all floats, the widths of which are chosen as a number of
//                            VkShaderFloatControlsIndependence says
//   SHIM_MODULES=FOLDER      SPIR-V goes there as well
//   SHIM_REMAINDER=unsigned  remainders of integers take them for unsigned: nonsense for negative numbers, for which
//                            Vulkan has no defined result
//   SHIM_DISCRETE=1          their memory is not the host's
//   SHIM_RANGE=N             bytes of a buffer that a kernel sees at the most
//   SHIM_FULL=N              no allocation of more than N bytes succeeds
//   SHIM_LOST=N              the device is lost from the Nth submission on (counting from 0)
#define VK_NO_PROTOTYPES
#include <dlfcn.h>
#include <vulkan/vulkan.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

PFN_vkGetInstanceProcAddr real = nullptr;
PFN_vkGetDeviceProcAddr real_device = nullptr;
VkInstance instance = VK_NULL_HANDLE;
int submissions = 0;
bool is_lost = false;

const char* asked(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

template <typename F>
F original(const char* name) {
  return reinterpret_cast<F>(real(instance, name));
}

template <typename F>
F original(VkDevice device, const char* name) {
  return reinterpret_cast<F>(real_device(device, name));
}

VkDevice the_device = VK_NULL_HANDLE;

VKAPI_ATTR void VKAPI_CALL features(VkPhysicalDevice device, VkPhysicalDeviceFeatures2* out) {
  original<PFN_vkGetPhysicalDeviceFeatures2>("vkGetPhysicalDeviceFeatures2")(device, out);
  const char* lacks = asked("SHIM_LACKS");
  if (std::strstr(lacks, "int64") != nullptr) out->features.shaderInt64 = VK_FALSE;
  if (std::strstr(lacks, "small") == nullptr) return;
  for (auto* next = static_cast<VkBaseOutStructure*>(out->pNext); next != nullptr; next = next->pNext)
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES)
      reinterpret_cast<VkPhysicalDevice16BitStorageFeatures*>(next)->storageBuffer16BitAccess = VK_FALSE;
}

VKAPI_ATTR void VKAPI_CALL properties(VkPhysicalDevice device, VkPhysicalDeviceProperties2* out) {
  original<PFN_vkGetPhysicalDeviceProperties2>("vkGetPhysicalDeviceProperties2")(device, out);
  if (*asked("SHIM_DISCRETE") != '\0') out->properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  if (*asked("SHIM_RANGE") != '\0')
    out->properties.limits.maxStorageBufferRange = static_cast<uint32_t>(std::atoll(asked("SHIM_RANGE")));
  if (*asked("SHIM_FLOATS") == '\0') return;
  for (auto* next = static_cast<VkBaseOutStructure*>(out->pNext); next != nullptr; next = next->pNext) {
    if (next->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES) continue;
    auto* floats = reinterpret_cast<VkPhysicalDeviceFloatControlsProperties*>(next);
    floats->denormBehaviorIndependence =
        static_cast<VkShaderFloatControlsIndependence>(std::atoi(asked("SHIM_FLOATS")));
    floats->shaderDenormPreserveFloat16 = floats->shaderDenormPreserveFloat32 = VK_TRUE;
    floats->shaderDenormPreserveFloat64 = floats->shaderSignedZeroInfNanPreserveFloat16 = VK_TRUE;
    floats->shaderSignedZeroInfNanPreserveFloat32 = VK_TRUE;
  }
}

VKAPI_ATTR VkResult VKAPI_CALL extensions(VkPhysicalDevice device, const char* layer, uint32_t* n,
                                          VkExtensionProperties* out) {
  const VkResult result =
      original<PFN_vkEnumerateDeviceExtensionProperties>("vkEnumerateDeviceExtensionProperties")(device, layer, n, out);
  if (out != nullptr && std::strstr(asked("SHIM_LACKS"), "floats") != nullptr) {
    const auto lacks = [](const VkExtensionProperties& e) {
      return std::strcmp(e.extensionName, VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME) == 0;
    };
    *n = static_cast<uint32_t>(std::remove_if(out, out + *n, lacks) - out);
  }
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL create_module(VkDevice device, const VkShaderModuleCreateInfo* info,
                                             const VkAllocationCallbacks* allocator, VkShaderModule* out) {
  static std::atomic<int> number{0};
  if (const char* folder = asked("SHIM_MODULES"); *folder != '\0') {
    std::FILE* file = std::fopen((std::string(folder) + "/" + std::to_string(number++) + ".spv").c_str(), "wb");
    if (file == nullptr || std::fwrite(info->pCode, 1, info->codeSize, file) != info->codeSize) std::abort();
    std::fclose(file);
  }
  std::vector<uint32_t> code(info->pCode, info->pCode + info->codeSize / 4);
  if (*asked("SHIM_REMAINDER") != '\0')
    for (size_t i = 5; i < code.size(); i += code[i] >> 16)
      if ((code[i] & 0xffff) == 138 || (code[i] & 0xffff) == 139) code[i] = (code[i] & ~0xffffu) | 137;  // OpUMod
  VkShaderModuleCreateInfo changed = *info;
  changed.pCode = code.data();
  return original<PFN_vkCreateShaderModule>(device, "vkCreateShaderModule")(device, &changed, allocator, out);
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* allocator, VkDevice* out) {
  const VkResult result = original<PFN_vkCreateDevice>("vkCreateDevice")(physical, info, allocator, out);
  the_device = *out;
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo* info,
                                        const VkAllocationCallbacks* allocator, VkDeviceMemory* out) {
  const char* full = asked("SHIM_FULL");
  if (*full != '\0' && info->allocationSize > static_cast<VkDeviceSize>(std::atoll(full)))
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  return original<PFN_vkAllocateMemory>(device, "vkAllocateMemory")(device, info, allocator, out);
}

VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t n, const VkSubmitInfo* infos, VkFence fence) {
  const char* lost = asked("SHIM_LOST");
  if (*lost != '\0' && submissions++ >= std::atoi(lost)) is_lost = true;
  if (is_lost) return VK_ERROR_DEVICE_LOST;
  return original<PFN_vkQueueSubmit>(the_device, "vkQueueSubmit")(queue, n, infos, fence);
}

VKAPI_ATTR VkResult VKAPI_CALL wait_for(VkDevice device, uint32_t n, const VkFence* fences, VkBool32 all,
                                        uint64_t timeout) {
  if (is_lost) return VK_ERROR_DEVICE_LOST;
  return original<PFN_vkWaitForFences>(device, "vkWaitForFences")(device, n, fences, all, timeout);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL of_device(VkDevice device, const char* name) {
  if (std::strcmp(name, "vkAllocateMemory") == 0) return reinterpret_cast<PFN_vkVoidFunction>(allocate);
  if (std::strcmp(name, "vkCreateShaderModule") == 0) return reinterpret_cast<PFN_vkVoidFunction>(create_module);
  if (std::strcmp(name, "vkQueueSubmit") == 0) return reinterpret_cast<PFN_vkVoidFunction>(submit);
  if (std::strcmp(name, "vkWaitForFences") == 0) return reinterpret_cast<PFN_vkVoidFunction>(wait_for);
  return real_device(device, name);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) PFN_vkVoidFunction vkGetInstanceProcAddr(VkInstance given,
                                                                                           const char* name) {
  if (real == nullptr) {
    void* library = dlopen(asked("SHIM_REAL"), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    real = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
  }
  if (given != VK_NULL_HANDLE) instance = given;
  if (std::strcmp(name, "vkGetPhysicalDeviceFeatures2") == 0) return reinterpret_cast<PFN_vkVoidFunction>(features);
  if (std::strcmp(name, "vkGetPhysicalDeviceProperties2") == 0) return reinterpret_cast<PFN_vkVoidFunction>(properties);
  if (std::strcmp(name, "vkEnumerateDeviceExtensionProperties") == 0)
    return reinterpret_cast<PFN_vkVoidFunction>(extensions);
  if (std::strcmp(name, "vkCreateDevice") == 0) return reinterpret_cast<PFN_vkVoidFunction>(create_device);
  if (std::strcmp(name, "vkGetDeviceProcAddr") == 0) {
    real_device = reinterpret_cast<PFN_vkGetDeviceProcAddr>(real(given, name));
    return reinterpret_cast<PFN_vkVoidFunction>(of_device);
  }
  return real(given, name);
}
