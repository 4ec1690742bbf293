// The memory of a device. A device has room for few allocations (some thousands), so that small ones share a buffer.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "kernels/gpu/address_space.h"
#include "kernels/gpu/device.h"
#include "kernels/gpu/free_ranges.h"
#include "kernels/vulkan/context.h"

namespace minnow::vulkan {

// A buffer with its memory.
struct Block {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  int64_t bytes = 0;
  char* mapped = nullptr;   // where the host sees it, if it does
  char* address = nullptr;  // in the address space of the device
  gpu::FreeRanges free;     // of a shared one
};

// Any thread may call it.
class MemoryPool {
 public:
  explicit MemoryPool(Context& context) : context_(context) {}
  ~MemoryPool();

  Status allocate(int64_t bytes, std::unique_ptr<Memory>* out);
  // Memory that the host sees, for copies; not in the address space.
  Status allocate_staging(int64_t bytes, Block* out);
  void release_staging(const Block& block) { destroy(block); }
  // Null where the address is none of this device's.
  const Block* find(const void* address, int64_t* offset) const { return space_.find(address, offset); }

  // A stream calls enter() before it enqueues something, and leave() when all of that is done: memory that is given
  // back in between stays until then, since commands may use it.
  uint64_t enter();
  void leave(uint64_t entered);

 private:
  class PoolMemory;
  struct Returned {
    uint64_t time;
    Block* block;
    int64_t offset, bytes;
  };

  Status create(int64_t bytes, VkMemoryPropertyFlags needed, VkMemoryPropertyFlags preferred, Block* out);
  void destroy(const Block& block);
  Status add_block(int64_t bytes, Block** out);
  void give_back(Block* block, int64_t offset, int64_t bytes);
  void free_now(const Returned& returned);

  Context& context_;
  gpu::AddressSpace<Block*> space_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Block>> blocks_;
  int64_t used_ = 0;  // by blocks
  uint64_t time_ = 0;
  std::multiset<uint64_t> entered_;
  std::vector<Returned> returned_;
};

}  // namespace minnow::vulkan
