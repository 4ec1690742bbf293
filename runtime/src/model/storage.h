// Memory: aligned buffers of our own, and files mapped into memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/status.h"

struct stat;

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

// The bytes of a file, read-only, as long as the object lives. Where a path leads may change meanwhile.
class MappedFile {
 public:
  static Status open(const std::string& path, std::shared_ptr<const MappedFile>* out);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const char* data() const { return data_; }
  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }

  // Whether the path still leads to this file, and nobody can have written to it since it was opened.
  bool is_current() const;
  // Tells the system that these bytes are about to be read: all of them at once, not page by page.
  void prefetch(const void* begin, int64_t bytes) const;
  // Says that the memory of these bytes is not needed soon; they stay valid. The system is told of many pieces at a
  // time: each time it has to tell all processors on which the process has threads.
  void release(const void* begin, int64_t bytes) const;
  // Tells it of the last ones, too.
  void release_rest() const;

 private:
  // What changes when a file is written or replaced.
  struct Stamp {
    uint64_t device = 0, inode = 0;
    int64_t size = 0, seconds = 0, nanoseconds = 0;
    bool operator==(const Stamp& o) const {
      return device == o.device && inode == o.inode && size == o.size && seconds == o.seconds &&
             nanoseconds == o.nanoseconds;
    }
  };

  MappedFile(std::string path, const char* data, const Stamp& stamp, bool settled)
      : path_(std::move(path)), data_(data), size_(stamp.size), stamp_(stamp), settled_(settled) {}
  static Stamp stamp_of(const struct stat& info);
  void tell_released() const;

  std::string path_;
  const char* data_;
  int64_t size_;
  Stamp stamp_;
  bool settled_;              // was not written just before: the next change will show in its time
  mutable std::mutex mutex_;  // for what follows
  mutable std::vector<std::pair<uintptr_t, uintptr_t>> released_;  // of which the system has not been told
  mutable int64_t released_bytes_ = 0;
};

}  // namespace minnow
