#include "kernels/vulkan/stream.h"

#include <algorithm>
#include <cstring>

namespace minnow::vulkan {
namespace {

constexpr int kMostLaunches = 128;             // collected, before they are submitted
constexpr int64_t kPiece = int64_t{32} << 20;  // of a copy from or to the host
constexpr int64_t kMostStaged = 2 * kPiece;    // bytes, before commands are submitted
constexpr size_t kMostSubmitted = 8;           // submissions, before the host waits for the oldest

}  // namespace

// It may outlive the stream, but is not replayed then.
class VulkanStream::CommandsRecording final : public Recording {
 public:
  CommandsRecording(VulkanStream& stream, std::unique_ptr<Commands> commands, VkCommandBuffer buffer)
      : stream_(stream), device_(stream.device_), commands_(std::move(commands)), buffer_(buffer) {}
  ~CommandsRecording() override {
    const std::lock_guard<std::mutex> lock(device_.context.queue_mutex);
    device_.context.vk.vkQueueWaitIdle(device_.context.queue);
  }
  Status replay() override {
    MINNOW_RETURN_IF_ERROR(stream_.close());
    stream_.enter();
    stream_.closed_.push_back(buffer_);
    stream_.errors_.expect();
    return ok();
  }

 private:
  VulkanStream& stream_;
  VulkanDevice& device_;
  std::unique_ptr<Commands> commands_;
  VkCommandBuffer buffer_;
};

VulkanStream::~VulkanStream() {
  const Status status = drain();
  (void)status;  // a destructor can only drop it
  open_ = nullptr;
  recording_ = nullptr;
  closed_commands_.clear();
  for (VkFence fence : unused_fences_) device_.context.vk.vkDestroyFence(device_.context.device, fence, nullptr);
  if (times_ != VK_NULL_HANDLE) device_.context.vk.vkDestroyQueryPool(device_.context.device, times_, nullptr);
  if (entered_) device_.memory.leave(entered_at_);
}

Status VulkanStream::find(const void* address, const Block** block, int64_t* offset) const {
  *block = device_.memory.find(address, offset);
  return *block != nullptr ? ok() : fail(Code::kInternal, "Vulkan was given an address that is none of its memory");
}

void VulkanStream::enter() {
  if (entered_) return;
  entered_at_ = device_.memory.enter();
  entered_ = true;
}

Status VulkanStream::current(Commands** out) {
  *out = recording_.get();
  if (recording_ != nullptr) return ok();
  if (open_ != nullptr && (open_->launches() >= kMostLaunches || open_->staged() >= kMostStaged))
    MINNOW_RETURN_IF_ERROR(submit());
  if (open_ == nullptr) {
    enter();
    std::unique_ptr<Commands> commands;
    if (!unused_.empty()) {
      commands = std::move(unused_.back());
      unused_.pop_back();
    } else {
      commands = std::make_unique<Commands>(device_.context, device_.memory, false);
    }
    MINNOW_RETURN_IF_ERROR(commands->begin());
    open_ = std::move(commands);
  }
  *out = open_.get();
  return ok();
}

Status VulkanStream::close() {
  if (open_ == nullptr) return ok();
  VkCommandBuffer buffer = VK_NULL_HANDLE;
  std::unique_ptr<Commands> commands = std::move(open_);
  MINNOW_RETURN_IF_ERROR(commands->end(&buffer));
  closed_.push_back(buffer);
  closed_commands_.push_back(std::move(commands));
  return ok();
}

Status VulkanStream::submit() {
  MINNOW_RETURN_IF_ERROR(close());
  if (closed_.empty()) return ok();
  Context& context = device_.context;
  Submission submission;
  std::vector<VkCommandBuffer> buffers;
  buffers.swap(closed_);
  submission.commands.swap(closed_commands_);
  if (unused_fences_.empty()) {
    VkFenceCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
    MINNOW_RETURN_IF_FAILED("to create a fence",
                            context.vk.vkCreateFence(context.device, &info, nullptr, &submission.fence));
  } else {
    submission.fence = unused_fences_.back();
    unused_fences_.pop_back();
  }
  VkSubmitInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.commandBufferCount = static_cast<uint32_t>(buffers.size());
  info.pCommandBuffers = buffers.data();
  VkResult result;
  {
    const std::lock_guard<std::mutex> lock(context.queue_mutex);
    result = context.vk.vkQueueSubmit(context.queue, 1, &info, submission.fence);
  }
  if (result != VK_SUCCESS) {
    context.vk.vkDestroyFence(context.device, submission.fence, nullptr);
    return failed("to submit commands", result);
  }
  submitted_.push_back(std::move(submission));
  while (submitted_.size() > kMostSubmitted) MINNOW_RETURN_IF_ERROR(await_oldest());
  return ok();
}

Status VulkanStream::await_oldest() {
  Context& context = device_.context;
  Submission submission = std::move(submitted_.front());
  submitted_.erase(submitted_.begin());
  VkResult result = context.vk.vkWaitForFences(context.device, 1, &submission.fence, VK_TRUE, UINT64_MAX);
  if (result == VK_SUCCESS) result = context.vk.vkResetFences(context.device, 1, &submission.fence);
  if (result != VK_SUCCESS) {
    // Of a device that is lost nothing runs any more.
    context.vk.vkDestroyFence(context.device, submission.fence, nullptr);
    return failed("to wait for the device", result);
  }
  unused_fences_.push_back(submission.fence);
  for (std::unique_ptr<Commands>& commands : submission.commands) {
    commands->deliver();
    unused_.push_back(std::move(commands));
  }
  return ok();
}

// Everything is over after it, also after an error, of which it returns the first.
Status VulkanStream::drain() {
  Status first = submit();
  while (!submitted_.empty())
    if (Status status = await_oldest(); first.ok()) first = std::move(status);
  follows_ = false;
  if (entered_) device_.memory.leave(entered_at_);
  entered_ = false;
  return first;
}

Status VulkanStream::finish() {
  MINNOW_RETURN_IF_ERROR(drain());
  device_.save_programs();
  return errors_.expected() ? errors_.collect(*this) : ok();
}

Status VulkanStream::launch(const gpu::Program& program, const gpu::Arguments& arguments, const gpu::Groups& groups) {
  if (!arguments.fit(program.text))
    return fail(Code::kInternal, "wrong arguments for the kernel text %s", program.text.name);
  if (groups.x <= 0 || groups.y <= 0 || groups.z <= 0) return ok();
  Commands* commands = nullptr;
  MINNOW_RETURN_IF_ERROR(current(&commands));
  return commands->launch(static_cast<const BuiltProgram&>(program), arguments, groups);
}

Status VulkanStream::upload(const void* host, void* device, int64_t bytes) {
  if (bytes == 0) return ok();
  const Block* block = nullptr;
  int64_t offset = 0;
  MINNOW_RETURN_IF_ERROR(find(device, &block, &offset));
  if (block->mapped != nullptr && recording_ == nullptr && is_idle()) {
    std::memcpy(block->mapped + offset, host, static_cast<size_t>(bytes));
    return ok();
  }
  const char* from = static_cast<const char*>(host);
  for (int64_t at = 0; at < bytes; at += kPiece) {
    Commands* commands = nullptr;
    MINNOW_RETURN_IF_ERROR(current(&commands));
    MINNOW_RETURN_IF_ERROR(commands->upload(from + at, *block, offset + at, std::min(kPiece, bytes - at)));
  }
  return ok();
}

Status VulkanStream::download(const void* device, void* host, int64_t bytes) {
  if (bytes == 0) return ok();
  const Block* block = nullptr;
  int64_t offset = 0;
  MINNOW_RETURN_IF_ERROR(find(device, &block, &offset));
  if (recording_ != nullptr) return fail(Code::kInternal, "a copy to the host cannot be recorded");
  if (block->mapped != nullptr && is_idle()) {
    std::memcpy(host, block->mapped + offset, static_cast<size_t>(bytes));
    return ok();
  }
  char* to = static_cast<char*>(host);
  for (int64_t at = 0; at < bytes; at += kPiece) {
    Commands* commands = nullptr;
    MINNOW_RETURN_IF_ERROR(current(&commands));
    MINNOW_RETURN_IF_ERROR(commands->download(*block, offset + at, to + at, std::min(kPiece, bytes - at)));
  }
  return ok();
}

Status VulkanStream::copy(const void* from, void* to, int64_t bytes) {
  if (bytes == 0) return ok();
  const Block *source = nullptr, *target = nullptr;
  int64_t read = 0, write = 0;
  MINNOW_RETURN_IF_ERROR(find(from, &source, &read));
  MINNOW_RETURN_IF_ERROR(find(to, &target, &write));
  Commands* commands = nullptr;
  MINNOW_RETURN_IF_ERROR(current(&commands));
  commands->copy(*source, read, *target, write, bytes);
  return ok();
}

Status VulkanStream::begin_recording() {
  auto commands = std::make_unique<Commands>(device_.context, device_.memory, true);
  MINNOW_RETURN_IF_ERROR(commands->begin());
  recording_ = std::move(commands);
  return ok();
}

Status VulkanStream::end_recording(std::unique_ptr<Recording>* out) {
  std::unique_ptr<Commands> commands = std::move(recording_);
  if (commands == nullptr) return fail(Code::kInternal, "nothing is recorded");
  VkCommandBuffer buffer = VK_NULL_HANDLE;
  MINNOW_RETURN_IF_ERROR(commands->end(&buffer));
  *out = std::make_unique<CommandsRecording>(*this, std::move(commands), buffer);
  return ok();
}

Status VulkanStream::time(const std::function<Status()>& enqueue, int times, double* seconds) {
  const Context& context = device_.context;
  if (times_ == VK_NULL_HANDLE) {
    VkQueryPoolCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = 2;
    MINNOW_RETURN_IF_FAILED("to create queries", context.vk.vkCreateQueryPool(context.device, &info, nullptr, &times_));
  }
  MINNOW_RETURN_IF_ERROR(drain());
  Commands* commands = nullptr;
  MINNOW_RETURN_IF_ERROR(current(&commands));
  commands->write_time(times_, 0);
  for (int i = 0; i < times; ++i) MINNOW_RETURN_IF_ERROR(enqueue());
  MINNOW_RETURN_IF_ERROR(current(&commands));
  commands->write_time(times_, 1);
  MINNOW_RETURN_IF_ERROR(drain());
  uint64_t ticks[2] = {0, 0};
  MINNOW_RETURN_IF_FAILED("to read the time",
                          context.vk.vkGetQueryPoolResults(context.device, times_, 0, 2, sizeof ticks, ticks,
                                                           sizeof ticks[0], VK_QUERY_RESULT_64_BIT));
  *seconds = static_cast<double>(ticks[1] - ticks[0]) * context.tick / times;
  return ok();
}

// Each command buffer begins with a barrier after all that was submitted before.
Status VulkanStream::wait(gpu::Stream& other) {
  auto& stream = static_cast<VulkanStream&>(other);
  if (&stream == this) return ok();
  MINNOW_RETURN_IF_ERROR(stream.submit());
  if (stream.is_idle()) return ok();
  follows_ = true;
  return close();
}

}  // namespace minnow::vulkan
