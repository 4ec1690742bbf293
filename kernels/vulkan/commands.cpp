#include "kernels/vulkan/commands.h"

#include <algorithm>
#include <cstring>

namespace minnow::vulkan {
namespace {

constexpr uint32_t kSets = 64, kDescriptors = 512;       // of a pool
constexpr int64_t kStaging = int64_t{1} << 20;           // bytes of a buffer for copies, at least
constexpr int64_t kStagingKept = int64_t{64} << 20;      // for the next time
constexpr int64_t kMostOffset = (int64_t{1} << 32) - 1;  // kernels have offsets of 32 bits

uint64_t bits(VkBuffer buffer) {
  uint64_t value = 0;
  std::memcpy(&value, &buffer, sizeof buffer);
  return value;
}

}  // namespace

Commands::~Commands() {
  const DeviceApi& vk = context_.vk;
  for (VkDescriptorPool pool : descriptors_) vk.vkDestroyDescriptorPool(context_.device, pool, nullptr);
  for (const Block& block : staging_) memory_.release_staging(block);
  if (pool_ != VK_NULL_HANDLE) vk.vkDestroyCommandPool(context_.device, pool_, nullptr);
}

Status Commands::create() {
  VkCommandPoolCreateInfo pool = {};
  pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool.queueFamilyIndex = context_.family;
  MINNOW_RETURN_IF_FAILED("to create a command pool",
                          context_.vk.vkCreateCommandPool(context_.device, &pool, nullptr, &pool_));
  VkCommandBufferAllocateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  info.commandPool = pool_;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  MINNOW_RETURN_IF_FAILED("to create a command buffer",
                          context_.vk.vkAllocateCommandBuffers(context_.device, &info, &commands_));
  return ok();
}

Status Commands::begin() {
  if (commands_ == VK_NULL_HANDLE) MINNOW_RETURN_IF_ERROR(create());
  MINNOW_RETURN_IF_FAILED("to reset a command pool", context_.vk.vkResetCommandPool(context_.device, pool_, 0));
  for (size_t i = 0; i < descriptors_.size() && i <= filling_; ++i)
    context_.vk.vkResetDescriptorPool(context_.device, descriptors_[i], 0);
  filling_ = 0;
  sets_.clear();
  int64_t kept = 0;
  for (size_t i = 0; i < staging_.size();) {
    kept += staging_[i].bytes;
    if (kept <= kStagingKept) {
      ++i;
      continue;
    }
    kept -= staging_[i].bytes;
    memory_.release_staging(staging_[i]);
    staging_.erase(staging_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  staging_filling_ = 0;
  staging_used_ = staged_ = 0;
  downloads_.clear();
  only_launches_ = false;
  bound_pipeline_ = VK_NULL_HANDLE;
  bound_set_ = VK_NULL_HANDLE;
  bound_layout_ = VK_NULL_HANDLE;
  launches_ = 0;
  VkCommandBufferBeginInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  info.flags =
      is_recording_ ? VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT : VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  MINNOW_RETURN_IF_FAILED("to begin a command buffer", context_.vk.vkBeginCommandBuffer(commands_, &info));
  return ok();
}

// What comes now sees what everything before it has written, also what was submitted before.
void Commands::barrier(bool is_launch) {
  const bool between_launches = is_launch && only_launches_;
  if (between_launches) {
    VkMemoryBarrier kernels = {};
    kernels.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    kernels.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
    kernels.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
    const VkPipelineStageFlags stages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    context_.vk.vkCmdPipelineBarrier(commands_, stages, stages, 0, 1, &kernels, 0, nullptr, 0, nullptr);
  } else {
    VkMemoryBarrier all = {};
    all.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    all.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    all.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT |
                        VK_ACCESS_TRANSFER_WRITE_BIT;
    const VkPipelineStageFlags stages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    context_.vk.vkCmdPipelineBarrier(commands_, stages, stages, 0, 1, &all, 0, nullptr, 0, nullptr);
  }
  only_launches_ = is_launch;
}

Status Commands::find_set(const Layout& layout, const std::vector<VkDescriptorBufferInfo>& buffers,
                          VkDescriptorSet* out) {
  std::vector<uint64_t> key;
  for (const VkDescriptorBufferInfo& buffer : buffers) {
    key.push_back(bits(buffer.buffer));
    key.push_back(buffer.offset);
    key.push_back(buffer.range);
  }
  const auto known = sets_.find(key);
  if (known != sets_.end()) {
    *out = known->second;
    return ok();
  }
  const DeviceApi& vk = context_.vk;
  VkDescriptorSetAllocateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
  info.descriptorSetCount = 1;
  info.pSetLayouts = &layout.set;
  VkResult result = VK_ERROR_OUT_OF_POOL_MEMORY;
  bool is_new = false;
  while (true) {
    if (filling_ == descriptors_.size()) {
      const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, kDescriptors};
      VkDescriptorPoolCreateInfo pool = {};
      pool.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
      pool.maxSets = kSets;
      pool.poolSizeCount = 1;
      pool.pPoolSizes = &size;
      VkDescriptorPool created = VK_NULL_HANDLE;
      MINNOW_RETURN_IF_FAILED("to create a descriptor pool",
                              vk.vkCreateDescriptorPool(context_.device, &pool, nullptr, &created));
      descriptors_.push_back(created);
      is_new = true;
    }
    info.descriptorPool = descriptors_[filling_];
    result = vk.vkAllocateDescriptorSets(context_.device, &info, out);
    const bool is_full = result == VK_ERROR_OUT_OF_POOL_MEMORY || result == VK_ERROR_FRAGMENTED_POOL;
    if (!is_full || is_new) break;
    ++filling_;
  }
  if (result != VK_SUCCESS) return failed("to create a descriptor set", result);
  VkWriteDescriptorSet write = {};
  write.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
  write.dstSet = *out;
  write.descriptorCount = static_cast<uint32_t>(buffers.size());
  write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
  write.pBufferInfo = buffers.data();
  vk.vkUpdateDescriptorSets(context_.device, 1, &write, 0, nullptr);
  sets_.emplace(std::move(key), *out);
  return ok();
}

Status Commands::launch(const BuiltProgram& program, const gpu::Arguments& arguments, const gpu::Groups& groups) {
  const VkPhysicalDeviceLimits& limits = context_.properties.limits;
  const int64_t counts[3] = {groups.x, groups.y, groups.z};
  for (int i = 0; i < 3; ++i)
    if (counts[i] > limits.maxComputeWorkGroupCount[i])
      return fail(Code::kInternal, "%s: %lld work-groups, at most %u", program.text.name,
                  static_cast<long long>(counts[i]), limits.maxComputeWorkGroupCount[i]);
  std::vector<VkDescriptorBufferInfo> buffers;
  std::vector<uint32_t> words;
  for (const void* address : arguments.buffers()) {
    int64_t offset = 0;
    const Block* block = memory_.find(address, &offset);
    if (block == nullptr) return fail(Code::kInternal, "Vulkan was given an address that is none of its memory");
    VkDescriptorBufferInfo buffer = {block->buffer, 0, VK_WHOLE_SIZE};
    if (block->bytes > limits.maxStorageBufferRange || block->bytes > kMostOffset) {
      // Only a part of it can be bound: that which begins here.
      const auto step = static_cast<int64_t>(std::max<VkDeviceSize>(limits.minStorageBufferOffsetAlignment, 256));
      const int64_t begin = std::min(offset, block->bytes - 1) / step * step;
      buffer.offset = static_cast<VkDeviceSize>(begin);
      buffer.range =
          std::min<VkDeviceSize>(static_cast<VkDeviceSize>(block->bytes - begin), limits.maxStorageBufferRange / 4 * 4);
      offset -= begin;
    }
    buffers.push_back(buffer);
    words.push_back(static_cast<uint32_t>(offset));
  }
  words.insert(words.end(), arguments.words().begin(), arguments.words().end());
  VkDescriptorSet set = VK_NULL_HANDLE;
  MINNOW_RETURN_IF_ERROR(find_set(program.layout, buffers, &set));
  const DeviceApi& vk = context_.vk;
  barrier(true);
  if (bound_pipeline_ != program.pipeline) {
    vk.vkCmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, program.pipeline);
    bound_pipeline_ = program.pipeline;
  }
  if (bound_set_ != set || bound_layout_ != program.layout.pipeline) {
    vk.vkCmdBindDescriptorSets(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, program.layout.pipeline, 0, 1, &set, 0,
                               nullptr);
    bound_set_ = set;
    bound_layout_ = program.layout.pipeline;
  }
  if (!words.empty())
    vk.vkCmdPushConstants(commands_, program.layout.pipeline, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                          static_cast<uint32_t>(4 * words.size()), words.data());
  vk.vkCmdDispatch(commands_, static_cast<uint32_t>(groups.x), static_cast<uint32_t>(groups.y),
                   static_cast<uint32_t>(groups.z));
  ++launches_;
  return ok();
}

Status Commands::stage(int64_t bytes, const Block** block, int64_t* offset) {
  while (staging_filling_ < staging_.size() && staging_[staging_filling_].bytes - staging_used_ < bytes) {
    ++staging_filling_;
    staging_used_ = 0;
  }
  if (staging_filling_ == staging_.size()) {
    Block created;
    MINNOW_RETURN_IF_ERROR(memory_.allocate_staging(std::max(bytes, kStaging), &created));
    staging_.push_back(created);
    staging_used_ = 0;
  }
  *block = &staging_[staging_filling_];
  *offset = staging_used_;
  staging_used_ += (bytes + 63) / 64 * 64;
  staged_ += bytes;
  return ok();
}

void Commands::copy(const Block& from, int64_t read, const Block& to, int64_t write, int64_t bytes) {
  barrier(false);
  const VkBufferCopy region = {static_cast<VkDeviceSize>(read), static_cast<VkDeviceSize>(write),
                               static_cast<VkDeviceSize>(bytes)};
  context_.vk.vkCmdCopyBuffer(commands_, from.buffer, to.buffer, 1, &region);
}

void Commands::write_time(VkQueryPool pool, uint32_t query) {
  barrier(false);
  context_.vk.vkCmdResetQueryPool(commands_, pool, query, 1);
  context_.vk.vkCmdWriteTimestamp(commands_, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool, query);
}

Status Commands::upload(const void* host, const Block& to, int64_t offset, int64_t bytes) {
  const Block* block = nullptr;
  int64_t at = 0;
  MINNOW_RETURN_IF_ERROR(stage(bytes, &block, &at));
  std::memcpy(block->mapped + at, host, static_cast<size_t>(bytes));
  copy(*block, at, to, offset, bytes);
  return ok();
}

Status Commands::download(const Block& from, int64_t offset, void* host, int64_t bytes) {
  const Block* block = nullptr;
  int64_t at = 0;
  MINNOW_RETURN_IF_ERROR(stage(bytes, &block, &at));
  copy(from, offset, *block, at, bytes);
  downloads_.push_back({block->mapped + at, host, bytes});
  return ok();
}

Status Commands::end(VkCommandBuffer* out) {
  if (!downloads_.empty()) {
    VkMemoryBarrier host = {};
    host.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    host.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    host.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
    context_.vk.vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &host,
                                     0, nullptr, 0, nullptr);
  }
  *out = commands_;
  MINNOW_RETURN_IF_FAILED("to end a command buffer", context_.vk.vkEndCommandBuffer(commands_));
  return ok();
}

void Commands::deliver() {
  for (const Download& download : downloads_)
    std::memcpy(download.host, download.staged, static_cast<size_t>(download.bytes));
  downloads_.clear();
}

}  // namespace minnow::vulkan
