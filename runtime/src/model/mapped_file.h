// Files mapped into memory, or copied there.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

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
  // So many bytes will not be read soon. The system gets back the memory of all of the file, after many calls: access
  // to one byte may bring in megabytes around it. All bytes stay valid; to read them again costs page faults.
  void release(int64_t bytes) const;
  // The same for calls that are left.
  void release_rest() const;
  void release_all() const;

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

  std::string path_;
  const char* data_ = nullptr;
  Buffer copy_;  // empty where the file is mapped
  int64_t size_;
  Stamp stamp_;
  bool settled_;                              // old enough that the next change will change its time stamp
  mutable std::atomic<int64_t> released_{0};  // bytes that the system was not told of
};

}  // namespace minnow
