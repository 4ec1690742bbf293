// Commands for a device, and what they need: descriptors, and memory that the host sees.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "kernels/gpu/device.h"
#include "kernels/vulkan/memory.h"
#include "kernels/vulkan/programs.h"

namespace minnow::vulkan {

// A command buffer that is filled, submitted, and filled again when it has run; or, for a recording, submitted as often
// as one likes. Each command sees what those before it have written.
class Commands {
 public:
  Commands(Context& context, MemoryPool& memory, bool is_recording)
      : context_(context), memory_(memory), is_recording_(is_recording) {}
  ~Commands();

  // To be called first, and again when it has run.
  Status begin();
  Status launch(const BuiltProgram& program, const gpu::Arguments& arguments, const gpu::Groups& groups);
  Status upload(const void* host, const Block& to, int64_t offset, int64_t bytes);
  Status download(const Block& from, int64_t offset, void* host, int64_t bytes);
  void copy(const Block& from, int64_t read, const Block& to, int64_t write, int64_t bytes);
  // Writes when everything before is done to a query, which it resets.
  void write_time(VkQueryPool pool, uint32_t query);
  Status end(VkCommandBuffer* out);
  // When it has run: the bytes of its downloads go to where they were asked for.
  void deliver();

  int launches() const { return launches_; }
  int64_t staged() const { return staged_; }

 private:
  struct Download {
    const char* staged;
    void* host;
    int64_t bytes;
  };
  Status create();
  Status stage(int64_t bytes, const Block** block, int64_t* offset);
  Status find_set(const Layout& layout, const std::vector<VkDescriptorBufferInfo>& buffers, VkDescriptorSet* out);
  void barrier(bool is_launch);

  Context& context_;
  MemoryPool& memory_;
  const bool is_recording_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;

  std::vector<VkDescriptorPool> descriptors_;
  size_t filling_ = 0;  // of descriptors_
  std::map<std::vector<uint64_t>, VkDescriptorSet> sets_;

  std::vector<Block> staging_;
  size_t staging_filling_ = 0;
  int64_t staging_used_ = 0, staged_ = 0;
  std::vector<Download> downloads_;

  bool only_launches_ = false;  // since the last barrier for everything
  VkPipeline bound_pipeline_ = VK_NULL_HANDLE;
  VkDescriptorSet bound_set_ = VK_NULL_HANDLE;
  VkPipelineLayout bound_layout_ = VK_NULL_HANDLE;
  int launches_ = 0;
};

}  // namespace minnow::vulkan
