// Files mapped into memory.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/status.h"

struct stat;

namespace minnow {

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
