// Commands in order.
#pragma once

#include <memory>
#include <vector>

#include "kernels/gpu/error_slots.h"
#include "kernels/vulkan/commands.h"
#include "kernels/vulkan/gpu.h"

namespace minnow::vulkan {

// Commands are collected, and submitted when there are many, or at finish().
class VulkanStream final : public gpu::Stream {
 public:
  explicit VulkanStream(VulkanDevice& device) : device_(device), errors_(device) {}
  ~VulkanStream() override;

  Status launch(const gpu::Program& program, const gpu::Arguments& arguments, const gpu::Groups& groups) override;
  bool owns(const void* address) const override {
    int64_t offset = 0;
    return device_.memory.find(address, &offset) != nullptr;
  }
  Status upload(const void* host, void* device, int64_t bytes) override;
  Status download(const void* device, void* host, int64_t bytes) override;
  Status copy(const void* from, void* to, int64_t bytes) override;
  Status finish() override;
  Status error_slot(const RunContext& context, gpu::ErrorFunction function, void** address) override {
    return errors_.find(context, function, address);
  }
  bool can_record() const override { return true; }
  Status begin_recording() override;
  Status end_recording(std::unique_ptr<Recording>* out) override;
  bool can_time() const override { return device_.context.tick > 0; }
  Status time(const std::function<Status()>& enqueue, int times, double* seconds) override;
  Status wait(gpu::Stream& other) override;

 private:
  class CommandsRecording;
  // What was submitted at once.
  struct Submission {
    VkFence fence = VK_NULL_HANDLE;
    std::vector<std::unique_ptr<Commands>> commands;
  };

  Status find(const void* address, const Block** block, int64_t* offset) const;
  // The commands to add to.
  Status current(Commands** out);
  // Ends the commands that are being collected.
  Status close();
  Status submit();
  // Waits for the oldest submission, and delivers what it has downloaded.
  Status await_oldest();
  Status drain();
  bool is_idle() const { return open_ == nullptr && closed_.empty() && submitted_.empty() && !follows_; }
  void enter();

  VulkanDevice& device_;
  gpu::ErrorSlots errors_;
  std::unique_ptr<Commands> open_, recording_;
  std::vector<VkCommandBuffer> closed_;  // to be submitted, in this order
  std::vector<std::unique_ptr<Commands>> closed_commands_;
  std::vector<Submission> submitted_;
  std::vector<std::unique_ptr<Commands>> unused_;
  std::vector<VkFence> unused_fences_;
  VkQueryPool times_ = VK_NULL_HANDLE;
  bool follows_ = false;  // commands of another stream, which may still run
  bool entered_ = false;  // the memory pool
  uint64_t entered_at_ = 0;
};

}  // namespace minnow::vulkan
