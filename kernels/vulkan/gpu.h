// A device, for its streams.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "kernels/gpu/device.h"
#include "kernels/vulkan/memory.h"
#include "kernels/vulkan/programs.h"

namespace minnow::vulkan {

class VulkanStream;

class VulkanDevice final : public gpu::Device {
 public:
  VulkanDevice();
  ~VulkanDevice() override;
  Status open(const InstanceApi& instance, VkPhysicalDevice physical);

  std::string name() const override { return context.properties.deviceName; }
  bool is_software() const override { return context.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU; }
  const gpu::Limits& limits() const override { return limits_; }
  const gpu::Speed& speed() const override { return speed_; }
  Status program(const char* text, std::initializer_list<gpu::Constant> constants, const gpu::Program** out) override {
    return programs_.find(text, constants, out);
  }
  Status allocate(int64_t bytes, std::unique_ptr<Memory>* out) override { return memory.allocate(bytes, out); }
  Status upload(const void* host, int64_t bytes, std::unique_ptr<Memory>* out) override;
  std::unique_ptr<gpu::Stream> create_stream() override;
  const KernelTable* own_kernels() const override { return &VulkanKernels::table(); }
  int channel_block() const override { return 0; }  // one block of all
  int64_t bytes(const TensorType& type) const override;
  std::unique_ptr<Kernel> create_conversion(const TensorType& from, const TensorType& to) override;

  void save_programs() { programs_.save(); }

  Context context;
  MemoryPool memory;

 private:
  Status create(const InstanceApi& instance);
  void estimate_speed();

  Programs programs_;
  gpu::Limits limits_;
  gpu::Speed speed_;
  std::mutex uploading_;
  std::unique_ptr<VulkanStream> uploads_;
};

// False where a physical device has no queue that computes.
bool find_queue_family(const InstanceApi& vk, VkPhysicalDevice device, uint32_t* family);

}  // namespace minnow::vulkan
