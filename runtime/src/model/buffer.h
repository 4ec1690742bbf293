// Aligned memory, and an account of how much is allocated.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "kernels/core/status.h"

namespace minnow {

constexpr int64_t kAlignment = 64;

inline int64_t align_up(int64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

// Bytes of memory in this machine. A larger malloc may succeed, and the process is killed when it touches the memory.
int64_t physical_memory();

constexpr int64_t kLargePage = int64_t{2} << 20;

// Populates new memory that is about to be written completely, with large pages where they fit, and also at the end if
// the rest of that page is `filled_later`. If the system provides large pages slowly, small pages are used. `small`:
// whether the large page around `begin`, and on return that around the end, consists of small pages.
void populate(char* begin, int64_t bytes, bool filled_later, bool* small);

// Counts the memory of a session, and refuses what exceeds its limit; or the memory of a model that its sessions share,
// which has no limit of its own.
class MemoryAccount {
 public:
  // The memory of this account counts for the limit of both. It must outlive this one.
  void set_shared(const MemoryAccount* shared) { shared_ = shared; }
  // The limit of this account by itself, and with what is shared.
  void set_most(int64_t own, int64_t both) {
    most_.store(own, std::memory_order_relaxed);
    most_of_both_.store(both, std::memory_order_relaxed);
  }
  // An error if so many further bytes exceed the limit.
  Status fits(int64_t bytes) const;
  Status take(int64_t bytes);
  void give_back(int64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  int64_t used() const { return used_.load(std::memory_order_relaxed); }

  const MemoryAccount* shared_ = nullptr;
  std::atomic<int64_t> used_{0}, most_{std::numeric_limits<int64_t>::max()};
  std::atomic<int64_t> most_of_both_{std::numeric_limits<int64_t>::max()};
};

// Functions of the program that give memory in place of malloc(); see minnow_allocator.
struct Allocator {
  void* (*allocate)(void* user, size_t size, size_t alignment);
  void (*free)(void* user, void* memory, size_t size);
  void* user;
};

// For memory from now on. The copy is kept until the process ends, as memory goes back to where it is from. Null: none.
void set_allocator(const Allocator* allocator);
const Allocator* allocator();

// 64-byte aligned memory, not initialized. After make() never null, even for 0 bytes.
class Buffer {
 public:
  Buffer() = default;
  // An error if the machine has less memory than that, if the allocation fails, or if it exceeds the limit of the
  // account. The account must outlive the buffer; it may be null.
  static Status make(int64_t bytes, Buffer* out, MemoryAccount* account = nullptr);

  // The same, starting at a large page, for memory that is soon written completely.
  static Status make_paged(int64_t bytes, Buffer* out, MemoryAccount* account);

  char* data() const { return memory_.get(); }
  int64_t size() const { return size_; }

 private:
  static Status make(int64_t bytes, int64_t alignment, Buffer* out, MemoryAccount* account);

  struct Free {
    Free() : begin(nullptr), size(0), source(nullptr), bytes(0), account(nullptr) {}
    Free(void* memory, int64_t size, const Allocator* source, int64_t bytes, MemoryAccount* account)
        : begin(memory), size(size), source(source), bytes(bytes), account(account) {}
    void operator()(char*) const;
    void* begin;              // what was allocated
    int64_t size;             // of it
    const Allocator* source;  // null: malloc
    int64_t bytes;            // of the account, if any
    MemoryAccount* account;
  };
  std::unique_ptr<char, Free> memory_;
  int64_t size_ = 0;
};

}  // namespace minnow
