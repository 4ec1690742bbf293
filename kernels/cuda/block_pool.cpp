#include "kernels/cuda/block_pool.h"

#include <algorithm>

namespace minnow::cuda {
namespace {

constexpr int64_t kAligned = 256;
constexpr int64_t kStep = 2 << 20;         // what the driver rounds up to
constexpr int64_t kMostShared = 32 << 20;  // of a block that is made for more than one piece

int64_t rounded(int64_t bytes, int64_t to) { return (std::max<int64_t>(bytes, 1) + to - 1) / to * to; }

}  // namespace

Status BlockPool::allocate(int64_t bytes, char** out) {
  const int64_t needed = rounded(bytes, kAligned);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [begin, block] : blocks_) {
    const bool whole = block.free.is_whole();
    const int64_t at = block.free.take(needed);
    if (at < 0) continue;
    if (whole) unused_ -= block.bytes;
    *out = begin + at;
    return ok();
  }
  // A quarter of what there is already: at most so much is not in use.
  const int64_t least = rounded(needed, kStep);
  int64_t size = std::max(least, std::min(rounded(bytes_ / 4, kStep), kMostShared));
  char* begin = nullptr;
  Status status = make_(size, &begin);
  if (!status.ok() && size > least) status = make_(size = least, &begin);
  MINNOW_RETURN_IF_ERROR(status);
  bytes_ += size;
  Block& block = blocks_[begin];
  block = {size, gpu::FreeRanges(size)};
  *out = begin + block.free.take(needed);
  return ok();
}

void BlockPool::give_back(char* address, int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = std::prev(blocks_.upper_bound(address));
  Block& block = it->second;
  block.free.give_back(address - it->first, rounded(bytes, kAligned));
  if (!block.free.is_whole()) return;
  if (unused_ + block.bytes <= kept_) {
    unused_ += block.bytes;
    return;
  }
  bytes_ -= block.bytes;
  drop_(it->first);
  blocks_.erase(it);
}

void BlockPool::drop_unused() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto it = blocks_.begin(); it != blocks_.end();) {
    if (!it->second.free.is_whole()) {
      ++it;
      continue;
    }
    bytes_ -= it->second.bytes;
    drop_(it->first);
    it = blocks_.erase(it);
  }
  unused_ = 0;
}

int64_t BlockPool::bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return bytes_;
}

}  // namespace minnow::cuda
