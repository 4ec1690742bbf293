// Memory: aligned buffers of our own, and files mapped into memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/status.h"

namespace minnow {

constexpr int64_t kAlignment = 64;

inline int64_t align_up(int64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

// A malloc beyond this may succeed, and kill the process when the memory is touched.
int64_t physical_memory();

// 64-byte aligned memory, not initialized. Never null when made, even for 0 bytes.
class Buffer {
 public:
  Buffer() = default;
  // An error when the machine has less memory than that, or gives no more.
  static Status make(int64_t bytes, Buffer* out);

  // Asks for large pages where whole ones lie inside: the system is asked less often when memory is first used.
  void prefer_large_pages() const;

  char* data() const { return memory_.get(); }
  int64_t size() const { return size_; }

 private:
  struct Free {
    void operator()(char* p) const;
  };
  std::unique_ptr<char, Free> memory_;
  int64_t size_ = 0;
};

// The bytes of a file, read-only, as long as the object lives.
class MappedFile {
 public:
  static Status open(const std::string& path, std::shared_ptr<const MappedFile>* out);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const char* data() const { return data_; }
  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }

  // Tells the system that the memory of these bytes is not needed soon; they stay valid.
  void release(const void* begin, int64_t bytes) const;

 private:
  MappedFile(std::string path, const char* data, int64_t size) : path_(std::move(path)), data_(data), size_(size) {}

  std::string path_;
  const char* data_;
  int64_t size_;
};

}  // namespace minnow
