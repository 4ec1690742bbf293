// Addresses for memory that an API knows as objects.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

namespace minnow::gpu {

// OpenCL and Vulkan have buffers where the engine has addresses: each buffer gets a range of numbers, at which no
// process has memory. A range is never given to another buffer. Any thread may call it.
template <typename Buffer>
class AddressSpace {
 public:
  char* add(Buffer buffer, int64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const uintptr_t address = next_;
    next_ += static_cast<uintptr_t>((bytes + 2 * kPage) / kPage * kPage);
    ranges_[address] = {buffer, bytes};
    return reinterpret_cast<char*>(address);
  }
  void remove(const char* address) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ranges_.erase(reinterpret_cast<uintptr_t>(address));
  }
  // The buffer, and where in it the address is; null where it is none of this device. The end of a buffer belongs to
  // it.
  Buffer find(const void* address, int64_t* offset) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = reinterpret_cast<uintptr_t>(address);
    auto it = ranges_.upper_bound(at);
    if (it == ranges_.begin()) return nullptr;
    --it;
    *offset = static_cast<int64_t>(at - it->first);
    return *offset > it->second.bytes ? nullptr : it->second.buffer;
  }

 private:
  static constexpr int64_t kPage = 4096;
  struct Range {
    Buffer buffer;
    int64_t bytes;
  };
  mutable std::mutex mutex_;
  uintptr_t next_ = uintptr_t{1} << 56;
  std::map<uintptr_t, Range> ranges_;
};

}  // namespace minnow::gpu
