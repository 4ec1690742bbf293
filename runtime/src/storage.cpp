#include "runtime/src/storage.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace minnow {
namespace {

constexpr time_t kCoarseSeconds = 2;  // some file systems keep times no better
constexpr uintptr_t kLargePage = uintptr_t{2} << 20;

struct FileHandle {
  int fd;
  ~FileHandle() {
    if (fd >= 0) close(fd);
  }
};

}  // namespace

int64_t physical_memory() {
  static const int64_t bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  return bytes;
}

void Buffer::Free::operator()(char*) const { std::free(begin); }

Status Buffer::make(int64_t bytes, Buffer* out) {
  const int64_t size = align_up(std::max<int64_t>(bytes, 1));
  // Aligned by hand: what aligned_alloc() cuts off at both ends, glibc does not join again before it looks for the next
  // piece of the same size, so that the outputs of each run, freed after the next, would lie in new memory.
  void* memory = bytes < 0 || size > physical_memory() ? nullptr : std::malloc(static_cast<size_t>(size + kAlignment));
  if (memory == nullptr)
    return fail(Code::kUsage, "not enough memory: %.1f MiB are needed at once; this machine has %.0f MiB",
                static_cast<double>(bytes) / (1 << 20), static_cast<double>(physical_memory()) / (1 << 20));
  const auto place = reinterpret_cast<uintptr_t>(memory);
  out->memory_ = {static_cast<char*>(memory) + (-place & (kAlignment - 1)), Free{memory}};
  out->size_ = bytes;
  return ok();
}

void Buffer::prefer_large_pages() const {
#ifdef MADV_HUGEPAGE
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data()) + kLargePage - 1) / kLargePage * kLargePage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data()) + static_cast<uintptr_t>(size_)) / kLargePage * kLargePage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

Status MappedFile::open(const std::string& path, std::shared_ptr<const MappedFile>* out) {
  const FileHandle file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat info;
  if (file.fd < 0 || fstat(file.fd, &info) != 0)
    return fail(Code::kFormat, "%s: cannot be read: %s", path.c_str(), std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return fail(Code::kFormat, "%s: is not a file", path.c_str());
  if (info.st_size == 0) return fail(Code::kFormat, "%s: the file is empty", path.c_str());
  void* data = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) return fail(Code::kFormat, "%s: cannot be mapped: %s", path.c_str(), std::strerror(errno));
  const bool settled = time(nullptr) - info.st_mtim.tv_sec > kCoarseSeconds;
  out->reset(new MappedFile(path, static_cast<const char*>(data), stamp_of(info), settled));
  return ok();
}

MappedFile::Stamp MappedFile::stamp_of(const struct stat& info) {
  return {info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

bool MappedFile::is_current() const {
  struct stat now;
  return settled_ && stat(path_.c_str(), &now) == 0 && stamp_of(now) == stamp_;
}

MappedFile::~MappedFile() { munmap(const_cast<char*>(data_), static_cast<size_t>(size_)); }

void MappedFile::prefetch(const void* begin, int64_t bytes) const {
#ifdef MADV_POPULATE_READ
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = reinterpret_cast<uintptr_t>(begin) / page * page;
  const uintptr_t last = reinterpret_cast<uintptr_t>(begin) + static_cast<uintptr_t>(bytes);
  madvise(reinterpret_cast<void*>(first), last - first, MADV_POPULATE_READ);  // an older system refuses: no harm
#else
  (void)begin, (void)bytes;
#endif
}

void MappedFile::release(const void* begin, int64_t bytes) const {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = (reinterpret_cast<uintptr_t>(begin) + page - 1) / page * page;
  const uintptr_t last = (reinterpret_cast<uintptr_t>(begin) + static_cast<uintptr_t>(bytes)) / page * page;
  if (last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace minnow
