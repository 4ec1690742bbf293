#include "kernels/vulkan/api.h"

#include <dlfcn.h>

#include <string>

namespace minnow::vulkan {
namespace {

const char* name_of(VkResult result) {
  switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return "no memory on the host";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
      return "no memory on the device";
    case VK_ERROR_DEVICE_LOST:
      return "the device is lost: its driver has reset it, because a kernel took too long or did what it must not; "
             "restart the process";
    case VK_ERROR_INITIALIZATION_FAILED:
      return "the driver cannot be initialized";
    case VK_ERROR_INCOMPATIBLE_DRIVER:
      return "there is no driver for Vulkan";
    case VK_ERROR_FEATURE_NOT_PRESENT:
      return "the device lacks a feature";
    case VK_ERROR_EXTENSION_NOT_PRESENT:
      return "the device lacks an extension";
    case VK_ERROR_TOO_MANY_OBJECTS:
      return "too many objects";
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_FRAGMENTED_POOL:
      return "no room in a pool";
    default:
      return "error";
  }
}

Status load(InstanceApi* vk) {
  void* library = nullptr;
  for (const char* name : {"libvulkan.so.1", "libvulkan.so"})
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return Status(Code::kDevice, "the Vulkan loader cannot be opened (" + std::string(dlerror()) +
                                     "); it comes with the package libvulkan1");
  const auto find = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
  if (find == nullptr) return fail(Code::kDevice, "the Vulkan loader has no vkGetInstanceProcAddr");
  const auto version =
      reinterpret_cast<PFN_vkEnumerateInstanceVersion>(find(VK_NULL_HANDLE, "vkEnumerateInstanceVersion"));
  const auto create = reinterpret_cast<PFN_vkCreateInstance>(find(VK_NULL_HANDLE, "vkCreateInstance"));
  if (version == nullptr || create == nullptr || version(&vk->version) != VK_SUCCESS ||
      vk->version < VK_API_VERSION_1_1)
    return fail(Code::kDevice, "the Vulkan loader is older than Vulkan 1.1");
  VkApplicationInfo application = {};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.pApplicationName = "minnow";
  application.apiVersion = VK_API_VERSION_1_1;
  VkInstanceCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  vk->find = find;
  MINNOW_RETURN_IF_FAILED("to create an instance", create(&info, nullptr, &vk->instance));
#define MINNOW_FIND(name)                                             \
  vk->name = reinterpret_cast<PFN_##name>(find(vk->instance, #name)); \
  if (vk->name == nullptr) return fail(Code::kDevice, "the Vulkan loader has no %s", #name);
  MINNOW_VULKAN_INSTANCE_FUNCTIONS(MINNOW_FIND)
#undef MINNOW_FIND
  return ok();
}

}  // namespace

Status find_api(const InstanceApi** out) {
  static InstanceApi api;
  static const Status status = load(&api);
  *out = &api;
  return status;
}

Status find_device_api(const InstanceApi& vk, VkDevice device, DeviceApi* out) {
#define MINNOW_FIND(name)                                                          \
  out->name = reinterpret_cast<PFN_##name>(vk.vkGetDeviceProcAddr(device, #name)); \
  if (out->name == nullptr) return fail(Code::kDevice, "the Vulkan driver has no %s", #name);
  MINNOW_VULKAN_DEVICE_FUNCTIONS(MINNOW_FIND)
#undef MINNOW_FIND
  return ok();
}

Status failed(const char* what, VkResult result) {
  return fail(Code::kDevice, "Vulkan: %s: %s (%d)", what, name_of(result), static_cast<int>(result));
}

}  // namespace minnow::vulkan
