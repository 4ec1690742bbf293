// Files mapped into memory, or copied there.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/status.h"
#include "runtime/src/model/buffer.h"

struct stat;

namespace minnow {

// How the bytes of a file come into memory. What is mapped must stay as it is: access to the pages of a file that was
// cut off meanwhile ends the process. A copy does not change any more.
enum class FileAccess : uint8_t { kMapped, kCopied };

// The bytes of a file, read-only, as long as the object exists. The file at the path may be replaced meanwhile.
class MappedFile {
 public:
  static Status open(const std::string& path, std::shared_ptr<const MappedFile>* out,
                     FileAccess access = FileAccess::kMapped);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const char* data() const { return data_; }
  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }

  // Whether the path still leads to this file, and the file has not been written since it was opened.
  bool is_current() const;
  // Makes the system read these bytes now, together instead of page by page.
  void prefetch(const void* begin, int64_t bytes) const;
  // Allows the system to take back the memory of these bytes; they stay valid. Many calls are passed to the system
  // together, since each such system call interrupts all processors with threads of the process.
  void release(const void* begin, int64_t bytes) const;
  // Passes on the calls that are left.
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

  // Without a copy, open() sets where the file is mapped.
  MappedFile(std::string path, Buffer copy, const Stamp& stamp, bool settled)
      : path_(std::move(path)), copy_(std::move(copy)), size_(stamp.size), stamp_(stamp), settled_(settled) {
    data_ = copy_.data();
  }
  bool is_copy() const { return copy_.data() != nullptr; }
  static Stamp stamp_of(const struct stat& info);
  void tell_released() const;

  std::string path_;
  const char* data_ = nullptr;
  Buffer copy_;  // empty where the file is mapped
  int64_t size_;
  Stamp stamp_;
  bool settled_;              // old enough that the next change will change its time stamp
  mutable std::mutex mutex_;  // guards the members below
  mutable std::vector<std::pair<uintptr_t, uintptr_t>> released_;  // not yet passed to the system
  mutable int64_t released_bytes_ = 0;
};

}  // namespace minnow
