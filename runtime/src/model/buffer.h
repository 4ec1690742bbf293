// Aligned memory of our own, and the count of what is taken.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>

#include "kernels/core/status.h"

namespace minnow {

constexpr int64_t kAlignment = 64;

inline int64_t align_up(int64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

// A malloc beyond this may succeed, and kill the process when the memory is touched.
int64_t physical_memory();

constexpr int64_t kLargePage = int64_t{2} << 20;

// For memory that nobody has used, and is about to be written from its first byte to its last: it shall come in large
// pages where whole ones lie inside, and where one begins that is `filled_later`. Where these come slowly, small pages
// come at once. `small`: whether the place of a large page in which `begin` lies, then that of the end, has small ones.
void populate(char* begin, int64_t bytes, bool filled_later, bool* small);

// Counts memory that belongs together, and refuses what would be too much.
class MemoryAccount {
 public:
  void set_most(int64_t bytes) { most_.store(bytes, std::memory_order_relaxed); }
  // Whether so many bytes more are allowed.
  Status fits(int64_t bytes) const;
  Status take(int64_t bytes);
  void give_back(int64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> used_{0}, most_{std::numeric_limits<int64_t>::max()};
};

// 64-byte aligned memory, not initialized. Never null when made, even for 0 bytes.
class Buffer {
 public:
  Buffer() = default;
  // An error when the machine has less memory than that, or gives no more, or the account does not allow it. The
  // account outlives the buffer; it may be null.
  static Status make(int64_t bytes, Buffer* out, MemoryAccount* account = nullptr);

  // For memory that is soon used to its last byte: it begins with a large page.
  static Status make_paged(int64_t bytes, Buffer* out, MemoryAccount* account);

  // Counts memory that was made without an account.
  Status charge(MemoryAccount* account);

  char* data() const { return memory_.get(); }
  int64_t size() const { return size_; }

 private:
  static Status make(int64_t bytes, int64_t alignment, Buffer* out, MemoryAccount* account);

  struct Free {
    Free() : begin(nullptr), bytes(0), account(nullptr) {}
    Free(void* memory, int64_t bytes, MemoryAccount* account) : begin(memory), bytes(bytes), account(account) {}
    void operator()(char*) const;
    void* begin;    // what malloc gave
    int64_t bytes;  // of the account, if any
    MemoryAccount* account;
  };
  std::unique_ptr<char, Free> memory_;
  int64_t size_ = 0;
};

}  // namespace minnow
