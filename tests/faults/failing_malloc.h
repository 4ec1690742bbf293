// Allocations, and threads, that fail when told to.
#pragma once

#include <atomic>

struct Allocations {
  std::atomic<bool> counting{false};
  std::atomic<long> count{0};          // while counting
  std::atomic<long> failing{-1};       // the allocation with this number fails
  std::atomic<bool> all_after{false};  // and all after it
  std::atomic<long> failed{0};
};
extern Allocations allocations;
