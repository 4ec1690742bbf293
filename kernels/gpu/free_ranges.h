// What is free of a piece of memory that several share.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>

namespace minnow::gpu {

// Offsets and bytes are multiples of whatever the caller aligns to.
class FreeRanges {
 public:
  FreeRanges() = default;  // nothing is free
  explicit FreeRanges(int64_t bytes) : all_(bytes), free_{{0, bytes}} {}

  // The offset of so many bytes, which are no longer free; -1 where there is no such range.
  int64_t take(int64_t bytes) {
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      const auto [at, room] = *it;
      if (room < bytes) continue;
      free_.erase(it);
      if (room > bytes) free_[at + bytes] = room - bytes;
      return at;
    }
    return -1;
  }
  void give_back(int64_t offset, int64_t bytes) {
    auto it = free_.emplace(offset, bytes).first;
    if (const auto next = std::next(it); next != free_.end() && it->first + it->second == next->first) {
      it->second += next->second;
      free_.erase(next);
    }
    if (it == free_.begin()) return;
    if (const auto before = std::prev(it); before->first + before->second == it->first) {
      before->second += it->second;
      free_.erase(it);
    }
  }
  // Whether nothing is taken.
  bool is_whole() const { return !free_.empty() && free_.begin()->second == all_; }

 private:
  int64_t all_ = 0;
  std::map<int64_t, int64_t> free_;  // bytes by offset
};

}  // namespace minnow::gpu
