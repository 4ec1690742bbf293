#include "runtime/src/gpu/weight_memory.h"

#include <algorithm>

namespace minnow {
namespace {

constexpr int64_t kAligned = 256;
constexpr int64_t kPage = 64 << 10, kLargePage = 2 << 20;  // drivers round up to one of them
constexpr int64_t kMostShared = 32 << 20;                  // of a block that is made for more than what is asked for

int64_t rounded(int64_t bytes, int64_t to) { return (std::max<int64_t>(bytes, 1) + to - 1) / to * to; }

}  // namespace

Status WeightMemory::take(int64_t bytes, char** out) {
  const int64_t needed = rounded(bytes, kAligned);
  for (Block& block : blocks_) {
    if (block.memory->bytes() - block.used < needed) continue;
    *out = block.memory->data() + block.used;
    block.used += needed;
    return ok();
  }
  // A quarter of what there is already: at most so much stays empty.
  const int64_t wanted = std::max(needed, std::min(bytes_ / 4, kMostShared));
  const int64_t size = rounded(wanted, wanted > kLargePage / 2 ? kLargePage : kPage);
  Block block;
  Status status = allocate_(size, &block.memory);
  if (!status.ok() && size > needed) status = allocate_(needed, &block.memory);
  MINNOW_RETURN_IF_ERROR(status);
  bytes_ += block.memory->bytes();
  block.used = needed;
  *out = block.memory->data();
  blocks_.push_back(std::move(block));
  return ok();
}

Status WeightMemory::add(const void* host, int64_t bytes, char** out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  MINNOW_RETURN_IF_ERROR(take(bytes, out));
  return bytes == 0 ? ok() : write_(host, *out, bytes);
}

int64_t WeightMemory::bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return bytes_;
}

}  // namespace minnow
