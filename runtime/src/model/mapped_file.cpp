#include "runtime/src/model/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

// Of Linux 5.14. The headers may be older than the system that this runs on.
#if defined(__linux__) && !defined(MADV_POPULATE_READ)
#define MADV_POPULATE_READ 22
#endif

namespace minnow {
namespace {

constexpr time_t kCoarseSeconds = 2;  // the resolution of time stamps on some file systems
// How many released bytes may stay in memory: so many, or a part of a large file.
constexpr int64_t kReleasedBytes = 2 << 20, kReleasedParts = 64;

// All bytes, from the start of the file.
Status read_all(int fd, const std::string& path, int64_t size, Buffer* copy) {
  MINNOW_RETURN_IF_ERROR(Buffer::make(size, copy).at(path));
  for (int64_t done = 0; done < size;) {
    const ssize_t n = read(fd, copy->data() + done, static_cast<size_t>(std::min<int64_t>(size - done, 1 << 30)));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(Code::kFormat, "%s: cannot be read: %s", path.c_str(), std::strerror(errno));
    if (n == 0) return fail(Code::kFormat, "%s: became shorter while it was read", path.c_str());
    done += n;
  }
  return ok();
}

struct FileHandle {
  int fd;
  ~FileHandle() {
    if (fd >= 0) close(fd);
  }
};

}  // namespace

Status MappedFile::open(const std::string& path, std::shared_ptr<const MappedFile>* out, FileAccess access) {
  const FileHandle file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat info;
  if (file.fd < 0 || fstat(file.fd, &info) != 0)
    return fail(Code::kFormat, "%s: cannot be read: %s", path.c_str(), std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return fail(Code::kFormat, "%s: is not a file", path.c_str());
  if (info.st_size == 0) return fail(Code::kFormat, "%s: the file is empty", path.c_str());
  Buffer copy;
  if (access == FileAccess::kCopied) MINNOW_RETURN_IF_ERROR(read_all(file.fd, path, info.st_size, &copy));
  const bool settled = time(nullptr) - info.st_mtim.tv_sec > kCoarseSeconds;
  // Whatever can fail comes before the mapping, which only the object takes back.
  std::unique_ptr<MappedFile> made(new MappedFile(path, std::move(copy), stamp_of(info), settled));
  if (!made->is_copy()) {
    void* data = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, file.fd, 0);
    if (data == MAP_FAILED) return fail(Code::kFormat, "%s: cannot be mapped: %s", path.c_str(), std::strerror(errno));
    made->data_ = static_cast<const char*>(data);
#ifdef MADV_NOHUGEPAGE
    // A huge page would be there again as a whole after each part of it that is released.
    madvise(data, static_cast<size_t>(info.st_size), MADV_NOHUGEPAGE);  // a hint
#endif
  }
  *out = std::move(made);
  return ok();
}

MappedFile::Stamp MappedFile::stamp_of(const struct stat& info) {
  return {info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

bool MappedFile::is_current() const {
  struct stat now;
  return settled_ && stat(path_.c_str(), &now) == 0 && stamp_of(now) == stamp_;
}

MappedFile::~MappedFile() {
  if (!is_copy() && data_ != nullptr) munmap(const_cast<char*>(data_), static_cast<size_t>(size_));
}

void MappedFile::prefetch(const void* begin, int64_t bytes) const {
#ifdef MADV_POPULATE_READ
  if (is_copy()) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = reinterpret_cast<uintptr_t>(begin) / page * page;
  const uintptr_t last = reinterpret_cast<uintptr_t>(begin) + static_cast<uintptr_t>(bytes);
  madvise(reinterpret_cast<void*>(first), last - first, MADV_POPULATE_READ);  // a hint; may fail
#else
  (void)begin, (void)bytes;
#endif
}

void MappedFile::release(int64_t bytes) const {
  const int64_t most = std::max(kReleasedBytes, size_ / kReleasedParts);
  if (released_.fetch_add(bytes, std::memory_order_relaxed) + bytes >= most) release_rest();
}

void MappedFile::release_rest() const {
  if (released_.exchange(0, std::memory_order_relaxed) > 0) release_all();
}

void MappedFile::release_all() const {
  if (is_copy()) return;                                                         // no file would give the bytes again
  madvise(const_cast<char*>(data_), static_cast<size_t>(size_), MADV_DONTNEED);  // a hint
}

}  // namespace minnow
