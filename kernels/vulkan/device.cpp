#include "kernels/vulkan/device.h"

#include <algorithm>
#include <cstring>

#include "kernels/vulkan/abilities.h"
#include "kernels/vulkan/gpu.h"
#include "kernels/vulkan/layout_kernel.h"
#include "kernels/vulkan/stream.h"
#include "kernels/vulkan/try_matrices.h"

namespace minnow::vulkan {
namespace {

int rank_of(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return 0;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return 1;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return 2;
    default:
      return 3;
  }
}

VkPhysicalDeviceProperties properties_of(const InstanceApi& vk, VkPhysicalDevice device) {
  VkPhysicalDeviceProperties2 properties = {};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  vk.vkGetPhysicalDeviceProperties2(device, &properties);
  return properties.properties;
}

// Those that have Vulkan 1.1 and compute: the fastest kinds first.
std::vector<VkPhysicalDevice> all_devices(const InstanceApi& vk) {
  uint32_t n = 0;
  if (vk.vkEnumeratePhysicalDevices(vk.instance, &n, nullptr) != VK_SUCCESS || n == 0) return {};
  std::vector<VkPhysicalDevice> devices(n);
  const VkResult result = vk.vkEnumeratePhysicalDevices(vk.instance, &n, devices.data());
  if (result != VK_SUCCESS && result != VK_INCOMPLETE) return {};
  devices.resize(n);
  const auto unfit = [&](VkPhysicalDevice device) {
    uint32_t family = 0;
    return properties_of(vk, device).apiVersion < VK_API_VERSION_1_1 || !find_queue_family(vk, device, &family);
  };
  devices.erase(std::remove_if(devices.begin(), devices.end(), unfit), devices.end());
  std::stable_sort(devices.begin(), devices.end(), [&](VkPhysicalDevice a, VkPhysicalDevice b) {
    return rank_of(properties_of(vk, a).deviceType) < rank_of(properties_of(vk, b).deviceType);
  });
  return devices;
}

}  // namespace

bool find_queue_family(const InstanceApi& vk, VkPhysicalDevice device, uint32_t* family) {
  uint32_t n = 0;
  vk.vkGetPhysicalDeviceQueueFamilyProperties(device, &n, nullptr);
  std::vector<VkQueueFamilyProperties> all(n);
  vk.vkGetPhysicalDeviceQueueFamilyProperties(device, &n, all.data());
  // The first that computes: it draws, too, where something does, and is the one that drivers care for most.
  for (uint32_t i = 0; i < n; ++i)
    if ((all[i].queueFlags & VK_QUEUE_COMPUTE_BIT) != 0) {
      *family = i;
      return true;
    }
  return false;
}

VulkanDevice::VulkanDevice() : memory(context), programs_(context) {}

VulkanDevice::~VulkanDevice() { uploads_ = nullptr; }

Status VulkanDevice::create(const InstanceApi& instance) {
  VkPhysicalDevice8BitStorageFeatures bytes = {};
  bytes.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES;
  VkPhysicalDevice16BitStorageFeatures halves = {};
  halves.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
  VkPhysicalDeviceFeatures2 all = {};
  all.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  all.pNext = &halves;
  const bool knows_bytes = has_extension(instance, context.physical, VK_KHR_8BIT_STORAGE_EXTENSION_NAME);
  if (knows_bytes) halves.pNext = &bytes;
  instance.vkGetPhysicalDeviceFeatures2(context.physical, &all);
  context.small_types = bytes.storageBuffer8BitAccess == VK_TRUE && halves.storageBuffer16BitAccess == VK_TRUE;
  context.int64 = all.features.shaderInt64 == VK_TRUE;
  const bool knows_floats = has_extension(instance, context.physical, VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME);
  if (knows_floats) {
    VkPhysicalDeviceFloatControlsProperties floats = {};
    floats.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES;
    VkPhysicalDeviceProperties2 properties = {};
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    properties.pNext = &floats;
    instance.vkGetPhysicalDeviceProperties2(context.physical, &properties);
    context.float_modes = choose_float_modes(floats);
  }

  // Of what there is, what kernels use.
  all.features = {};
  all.features.shaderInt64 = context.int64 ? VK_TRUE : VK_FALSE;
  const bool small = context.small_types;
  VkPhysicalDevice8BitStorageFeatures use_bytes = {};
  use_bytes.sType = bytes.sType;
  use_bytes.storageBuffer8BitAccess = VK_TRUE;
  VkPhysicalDevice16BitStorageFeatures use_halves = {};
  use_halves.sType = halves.sType;
  use_halves.pNext = &use_bytes;
  use_halves.storageBuffer16BitAccess = VK_TRUE;
  all.pNext = small ? &use_halves : nullptr;
  std::vector<const char*> extensions;
  MatrixFeatures matrices;
  context.machine = find_machine(instance, context.physical);
  if (!small) context.machine.matrices = false;
  if (context.machine.matrices) matrices.add_to(&all, &extensions);
  if (small) extensions.push_back(VK_KHR_8BIT_STORAGE_EXTENSION_NAME);
  if (knows_floats) extensions.push_back(VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME);
  const float priority = 1;
  VkDeviceQueueCreateInfo queue = {};
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueFamilyIndex = context.family;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = &all;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  MINNOW_RETURN_IF_FAILED("to open the device",
                          instance.vkCreateDevice(context.physical, &info, nullptr, &context.device));
  MINNOW_RETURN_IF_ERROR(find_device_api(instance, context.device, &context.vk));
  uint32_t n = context.family + 1;
  std::vector<VkQueueFamilyProperties> families(n);
  instance.vkGetPhysicalDeviceQueueFamilyProperties(context.physical, &n, families.data());
  // A processor gains nothing from trying kernels.
  if (!is_software() && families[context.family].timestampValidBits == 64)
    context.tick = 1e-9 * static_cast<double>(context.properties.limits.timestampPeriod);
  context.vk.vkGetDeviceQueue(context.device, context.family, 0, &context.queue);
  return ok();
}

// Rough guesses, until they are measured.
void VulkanDevice::estimate_speed() {
  switch (context.properties.deviceType) {
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      speed_.flops = 1e10;
      speed_.bytes = 5e9;
      speed_.launch = 3e-5;
      speed_.copy = 5e-5;
      break;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      speed_.flops = 1e12;
      speed_.bytes = 4e10;
      break;
    default:
      speed_.flops = 1e13;
      speed_.bytes = 5e11;
      speed_.launch = 4e-6;
      speed_.copy_bytes = 1e10;
  }
}

Status VulkanDevice::open(const InstanceApi& instance, VkPhysicalDevice physical) {
  context.instance = &instance;
  context.physical = physical;
  VkPhysicalDeviceMaintenance3Properties maintenance = {};
  maintenance.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES;
  VkPhysicalDeviceProperties2 properties = {};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  properties.pNext = &maintenance;
  instance.vkGetPhysicalDeviceProperties2(physical, &properties);
  context.properties = properties.properties;
  context.most_bytes = maintenance.maxMemoryAllocationSize;
  instance.vkGetPhysicalDeviceMemoryProperties(physical, &context.memory);
  if (!find_queue_family(instance, physical, &context.family))
    return fail(Code::kDevice, "%s does not compute", context.properties.deviceName);
  MINNOW_RETURN_IF_ERROR(create(instance).at(context.properties.deviceName));
  limits_.shared_bytes = context.properties.limits.maxComputeSharedMemorySize;
  for (int i = 0; i < 3; ++i) limits_.groups[i] = context.properties.limits.maxComputeWorkGroupCount[i];
  limits_.int64 = context.int64;
  limits_.bytes = context.small_types;
  limits_.specializes = context.properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU;
  // Less what an offset takes to be aligned.
  limits_.tensor_bytes = int64_t{context.properties.limits.maxStorageBufferRange} - 1024;
  estimate_speed();
  MINNOW_RETURN_IF_ERROR(programs_.open());
  uploads_ = std::make_unique<VulkanStream>(*this);
  context.machine.matrices = context.machine.matrices && matrices_are_right(*this);
  return ok();
}

Status VulkanDevice::upload(const void* host, int64_t bytes, std::unique_ptr<Memory>* out) {
  MINNOW_RETURN_IF_ERROR(memory.allocate(bytes, out));
  const std::lock_guard<std::mutex> lock(uploading_);
  Status status = uploads_->upload(host, (*out)->data(), bytes);
  const Status finished = uploads_->finish();
  return status.ok() ? finished : status;
}

const Machine& machine_of(const NodeContext& node) {
  return static_cast<const VulkanDevice&>(gpu::device_of(node)).context.machine;
}

int64_t VulkanDevice::bytes(const TensorType& type) const {
  if (type.layout != minnow::Layout::kPacked || type.shape.rank() < 2) return type.bytes();
  TensorType padded = type;
  padded.shape[1] = round_channels(type.shape[1]);
  return padded.bytes();
}

std::unique_ptr<Kernel> VulkanDevice::create_conversion(const TensorType& from, const TensorType& to) {
  if (from.dtype != to.dtype || from.layout == to.layout) return nullptr;
  return create_layout_kernel(*this, from.dtype, to.layout == minnow::Layout::kPacked);
}

std::unique_ptr<gpu::Stream> VulkanDevice::create_stream() { return std::make_unique<VulkanStream>(*this); }

int count_devices() {
  const InstanceApi* vk = nullptr;
  return find_api(&vk).ok() ? static_cast<int>(all_devices(*vk).size()) : 0;
}

Status open_device(int index, std::unique_ptr<gpu::Device>* out) {
  const InstanceApi* vk = nullptr;
  MINNOW_RETURN_IF_ERROR(find_api(&vk));
  const std::vector<VkPhysicalDevice> devices = all_devices(*vk);
  if (static_cast<size_t>(index) >= devices.size())
    return fail(Code::kDevice, "there are %d devices with Vulkan 1.1", static_cast<int>(devices.size()));
  auto device = std::make_unique<VulkanDevice>();
  MINNOW_RETURN_IF_ERROR(device->open(*vk, devices[static_cast<size_t>(index)]));
  *out = std::move(device);
  return ok();
}

}  // namespace minnow::vulkan
