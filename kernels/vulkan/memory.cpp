#include "kernels/vulkan/memory.h"

#include <algorithm>

namespace minnow::vulkan {
namespace {

constexpr int64_t kShared = int64_t{16} << 20;  // bytes of a buffer that allocations share
constexpr int64_t kLargest = int64_t{2} << 20;  // of an allocation that shares one
constexpr int64_t kGranularity = 256;           // no device asks for a larger alignment of offsets
constexpr VkMemoryPropertyFlags kSeen = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

int64_t rounded(int64_t bytes) {
  return (std::max<int64_t>(bytes, 1) + kGranularity - 1) / kGranularity * kGranularity;
}

}  // namespace

class MemoryPool::PoolMemory final : public Memory {
 public:
  PoolMemory(MemoryPool& pool, Block* block, int64_t offset, int64_t bytes)
      : pool_(pool), block_(block), offset_(offset) {
    data_ = block->address + offset;
    bytes_ = bytes;
  }
  ~PoolMemory() override { pool_.give_back(block_, offset_, rounded(bytes_)); }

 private:
  MemoryPool& pool_;
  Block* block_;
  int64_t offset_;
};

MemoryPool::~MemoryPool() {
  for (const auto& block : blocks_) destroy(*block);
}

Status MemoryPool::create(int64_t bytes, VkMemoryPropertyFlags needed, VkMemoryPropertyFlags preferred, Block* out) {
  const DeviceApi& vk = context_.vk;
  if (static_cast<VkDeviceSize>(bytes) > context_.most_bytes)
    return fail(Code::kDevice, "%lld bytes of memory at once; this device gives at most %lld",
                static_cast<long long>(bytes), static_cast<long long>(context_.most_bytes));
  VkBufferCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = static_cast<VkDeviceSize>(bytes);
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  MINNOW_RETURN_IF_FAILED("to create a buffer", vk.vkCreateBuffer(context_.device, &info, nullptr, &out->buffer));
  VkMemoryRequirements requirements = {};
  vk.vkGetBufferMemoryRequirements(context_.device, out->buffer, &requirements);
  // The first type that has all; one that has what is needed comes after it.
  int chosen = -1;
  for (VkMemoryPropertyFlags flags : {needed | preferred, needed})
    for (uint32_t i = 0; i < context_.memory.memoryTypeCount && chosen < 0; ++i)
      if ((requirements.memoryTypeBits >> i & 1) != 0 &&
          (context_.memory.memoryTypes[i].propertyFlags & flags) == flags)
        chosen = static_cast<int>(i);
  VkMemoryAllocateInfo allocation = {};
  allocation.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  allocation.allocationSize = requirements.size;
  allocation.memoryTypeIndex = static_cast<uint32_t>(chosen);
  VkResult result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
  if (chosen >= 0) {
    // Drivers in software take what they are asked for until the system ends the process.
    const VkMemoryType& type = context_.memory.memoryTypes[chosen];
    if (static_cast<VkDeviceSize>(used_) + requirements.size <= context_.memory.memoryHeaps[type.heapIndex].size)
      result = vk.vkAllocateMemory(context_.device, &allocation, nullptr, &out->memory);
    if (result == VK_SUCCESS) result = vk.vkBindBufferMemory(context_.device, out->buffer, out->memory, 0);
    if (result == VK_SUCCESS && (type.propertyFlags & kSeen) == kSeen && ((needed | preferred) & kSeen) == kSeen) {
      void* mapped = nullptr;
      result = vk.vkMapMemory(context_.device, out->memory, 0, VK_WHOLE_SIZE, 0, &mapped);
      out->mapped = static_cast<char*>(mapped);
    }
  }
  if (result != VK_SUCCESS) {
    destroy(*out);
    *out = Block();
    return failed("to allocate memory", result);
  }
  out->bytes = bytes;
  return ok();
}

void MemoryPool::destroy(const Block& block) {
  const DeviceApi& vk = context_.vk;
  vk.vkDestroyBuffer(context_.device, block.buffer, nullptr);
  vk.vkFreeMemory(context_.device, block.memory, nullptr);
}

Status MemoryPool::allocate_staging(int64_t bytes, Block* out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return create(bytes, kSeen, VK_MEMORY_PROPERTY_HOST_CACHED_BIT, out);
}

Status MemoryPool::add_block(int64_t bytes, Block** out) {
  auto block = std::make_unique<Block>();
  const VkMemoryPropertyFlags seen = kSeen | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  MINNOW_RETURN_IF_ERROR(
      create(bytes, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, context_.is_unified() ? seen : 0, block.get()));
  block->address = space_.add(block.get(), bytes);
  used_ += bytes;
  *out = block.get();
  blocks_.push_back(std::move(block));
  return ok();
}

Status MemoryPool::allocate(int64_t bytes, std::unique_ptr<Memory>* out) {
  const int64_t needed = rounded(bytes);
  *out = nullptr;  // what it held may be of this pool, which it is given back to under the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  Block* chosen = nullptr;
  int64_t offset = 0;
  if (needed > kLargest) {
    MINNOW_RETURN_IF_ERROR(add_block(needed, &chosen));
  } else {
    for (size_t i = 0; i < blocks_.size() && chosen == nullptr; ++i) {
      offset = blocks_[i]->free.take(needed);
      if (offset >= 0) chosen = blocks_[i].get();
    }
    if (chosen == nullptr) {
      MINNOW_RETURN_IF_ERROR(add_block(kShared, &chosen));
      chosen->free = gpu::FreeRanges(kShared);
      offset = chosen->free.take(needed);
    }
  }
  *out = std::make_unique<PoolMemory>(*this, chosen, offset, bytes);
  return ok();
}

void MemoryPool::give_back(Block* block, int64_t offset, int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Returned returned = {time_++, block, offset, bytes};
  if (entered_.empty())
    free_now(returned);
  else
    returned_.push_back(returned);
}

void MemoryPool::free_now(const Returned& returned) {
  Block* block = returned.block;
  const bool shared = returned.bytes <= kLargest;
  if (shared) {
    block->free.give_back(returned.offset, returned.bytes);
    // The first one stays, for what comes next.
    if (!block->free.is_whole() || block == blocks_.front().get()) return;
  }
  space_.remove(block->address);
  used_ -= block->bytes;
  destroy(*block);
  blocks_.erase(std::find_if(blocks_.begin(), blocks_.end(), [&](const auto& other) { return other.get() == block; }));
}

uint64_t MemoryPool::enter() {
  const std::lock_guard<std::mutex> lock(mutex_);
  entered_.insert(time_);
  return time_++;
}

void MemoryPool::leave(uint64_t entered) {
  const std::lock_guard<std::mutex> lock(mutex_);
  entered_.erase(entered_.find(entered));
  const uint64_t oldest = entered_.empty() ? time_ : *entered_.begin();
  const auto stays = [&](const Returned& r) { return r.time >= oldest; };
  const auto done = std::stable_partition(returned_.begin(), returned_.end(), stays);
  const std::vector<Returned> now(done, returned_.end());
  returned_.erase(done, returned_.end());
  for (const Returned& r : now) free_now(r);
}

}  // namespace minnow::vulkan
