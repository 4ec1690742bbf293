// The texts, compiled for a device.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "kernels/gpu/device.h"
#include "kernels/vulkan/context.h"

namespace minnow::vulkan {

// For all kernels with this number of buffers: these, and 128 bytes of push constants.
struct Layout {
  VkDescriptorSetLayout set = VK_NULL_HANDLE;
  VkPipelineLayout pipeline = VK_NULL_HANDLE;
};

constexpr uint32_t kPushConstants = 128;  // bytes that every device has

class BuiltProgram final : public gpu::Program {
 public:
  BuiltProgram(const gpu::TextInfo& text, const Layout& layout, VkPipeline pipeline)
      : Program(text), layout(layout), pipeline(pipeline) {}
  const Layout layout;
  const VkPipeline pipeline;
};

// Any thread may call it.
class Programs {
 public:
  explicit Programs(Context& context) : context_(context) {}
  ~Programs();
  Status open();
  // Keeps what the driver has compiled in the user's cache, if there is something new and the last time was not just
  // now.
  void save();
  Status find(const char* text, std::initializer_list<gpu::Constant> constants, const gpu::Program** out);

 private:
  struct Entry {
    std::mutex compiling;
    std::unique_ptr<BuiltProgram> program;
  };
  Status find_layout(int buffers, Layout* out);
  Status build(const gpu::TextInfo& text, const std::vector<gpu::Constant>& constants,
               std::unique_ptr<BuiltProgram>* out);

  Context& context_;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::string cache_name_, cache_key_;  // of the file
  std::atomic<bool> is_new_{false};     // something was compiled since it was saved
  std::chrono::steady_clock::time_point saved_;
  std::mutex mutex_;
  std::map<int, Layout> layouts_;
  std::map<std::string, std::unique_ptr<Entry>> entries_;
};

}  // namespace minnow::vulkan
