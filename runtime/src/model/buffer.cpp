#include "runtime/src/model/buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <vector>

// Of Linux 5.14. The headers may be older than the system that this runs on.
#if defined(__linux__) && !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23
#endif

namespace minnow {
namespace {

constexpr int64_t kSmallBytes = 64 << 10;
// Clearing a large page takes 0.2 ms, but ten times as long if the system has to assemble it first, or if it is a
// virtual machine whose host has reclaimed unused memory. Recently used small pages are always available.
constexpr int64_t kSlowNanoseconds = 1000000;
// After a slow large page, so many of the next ones are replaced by small pages, and twice as many each time: trying a
// large page takes as long as that many small ones.
constexpr int kFewestSmallOnes = 16, kMostSmallOnes = 64;
std::atomic<int> small_ones{kFewestSmallOnes}, small_ones_left{0};
std::atomic<const Allocator*> chosen{nullptr};

// Processor time of this thread, without that of others on the same processor.
int64_t nanoseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
}

// A hint: it fails on older systems, without consequences.
void advise(uintptr_t begin, uintptr_t end, int advice) {
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

}  // namespace

void populate(char* begin, int64_t bytes, bool filled_later, bool* small) {
#if defined(MADV_HUGEPAGE) && defined(MADV_POPULATE_WRITE)
  constexpr auto kLarge = static_cast<uintptr_t>(kLargePage);
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t end = reinterpret_cast<uintptr_t>(begin) + static_cast<uintptr_t>(bytes);
  const uintptr_t at = reinterpret_cast<uintptr_t>(begin);
  uintptr_t large = (at + kLarge - 1) / kLarge * kLarge;
  // A last page that is mostly filled is worth the waste.
  const uintptr_t large_end = (end + (filled_later ? kLarge - 1 : kLarge / 4)) / kLarge * kLarge;
  if (*small) advise(at / page * page, std::min(end, large), MADV_POPULATE_WRITE);
  for (; large < large_end; large += kLarge) {
    *small = small_ones_left > 0 && small_ones_left.fetch_sub(1) > 0;
    if (*small) {
      advise(large, std::min(end, large + kLarge), MADV_POPULATE_WRITE);
      continue;
    }
    advise(large, large + kLarge, MADV_HUGEPAGE);
    const int64_t start = nanoseconds();
    *reinterpret_cast<volatile char*>(large) = 0;
    if (nanoseconds() - start < kSlowNanoseconds) {
      small_ones = kFewestSmallOnes;
      // The others are allocated when they are written to, in parallel by the threads that write.
      return advise(large, large_end, MADV_HUGEPAGE);
    }
    small_ones_left = small_ones.load();
    small_ones = std::min(2 * small_ones, kMostSmallOnes);
  }
#else
  (void)begin, (void)bytes, (void)filled_later, (void)small;
#endif
}

int64_t physical_memory() {
  static const int64_t bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  return bytes;
}

Status MemoryAccount::fits(int64_t bytes) const {
  const auto check = [bytes](int64_t used, int64_t most) {
    if (bytes <= most - used) return ok();
    return fail(Code::kUnsupported,
                "not enough memory: %.1f MiB are needed, and %.1f are left of the %.1f that max_memory allows",
                static_cast<double>(bytes) / (1 << 20),
                static_cast<double>(std::max<int64_t>(most - used, 0)) / (1 << 20),
                static_cast<double>(most) / (1 << 20));
  };
  MINNOW_RETURN_IF_ERROR(check(used(), most_.load(std::memory_order_relaxed)));
  if (shared_ == nullptr) return ok();
  return check(used() + shared_->used(), most_of_both_.load(std::memory_order_relaxed));
}

Status MemoryAccount::take(int64_t bytes) {
  MINNOW_RETURN_IF_ERROR(fits(bytes));
  used_.fetch_add(bytes, std::memory_order_relaxed);
  return ok();
}

void set_allocator(const Allocator* allocator) {
  if (allocator == nullptr) {
    chosen = nullptr;
    return;
  }
  // Never destroyed: memory may be freed late.
  static auto* const all = new std::pair<std::mutex, std::vector<std::unique_ptr<const Allocator>>>();
  const std::lock_guard<std::mutex> lock(all->first);
  all->second.push_back(std::make_unique<const Allocator>(*allocator));
  chosen = all->second.back().get();
}

const Allocator* allocator() { return chosen; }

void Buffer::Free::operator()(char*) const {
  if (source == nullptr)
    std::free(begin);
  else
    source->free(source->user, begin, static_cast<size_t>(size));
  if (account != nullptr) account->give_back(bytes);
}

Status Buffer::make(int64_t bytes, Buffer* out, MemoryAccount* account) {
  return make(bytes, kAlignment, out, account);
}

Status Buffer::make(int64_t bytes, int64_t alignment, Buffer* out, MemoryAccount* account) {
  // Aligned by hand: glibc does not merge the parts that aligned_alloc() cuts off before it searches for the next piece
  // of the same size, so that the outputs of each run, freed after the next one, would be in new memory.
  const bool possible = bytes >= 0 && bytes <= physical_memory();
  const int64_t size = possible ? (std::max<int64_t>(bytes, 1) + alignment - 1) / alignment * alignment : 0;
  if (possible && account != nullptr) MINNOW_RETURN_IF_ERROR(account->take(bytes));
  const Allocator* source = allocator();
  void* memory = nullptr;
  if (possible && source == nullptr) memory = std::malloc(static_cast<size_t>(size + alignment));
  if (possible && source != nullptr)
    memory = source->allocate(source->user, static_cast<size_t>(size), static_cast<size_t>(alignment));
  if (source != nullptr && (reinterpret_cast<intptr_t>(memory) & (alignment - 1)) != 0) {
    source->free(source->user, memory, static_cast<size_t>(size));
    if (account != nullptr) account->give_back(bytes);
    return fail(Code::kUsage, "the allocator has given memory whose address is no multiple of %lld",
                static_cast<long long>(alignment));
  }
  if (memory == nullptr) {
    if (possible && account != nullptr) account->give_back(bytes);
    return fail(Code::kUnsupported, "not enough memory: %.1f MiB are needed at once; this machine has %.0f MiB",
                static_cast<double>(bytes) / (1 << 20), static_cast<double>(physical_memory()) / (1 << 20));
  }
  const auto place = reinterpret_cast<intptr_t>(memory);
  out->memory_ = {static_cast<char*>(memory) + (-place & (alignment - 1)), Free{memory, size, source, bytes, account}};
  out->size_ = bytes;
  return ok();
}

Status Buffer::make_paged(int64_t bytes, Buffer* out, MemoryAccount* account) {
  if (bytes < kSmallBytes || allocator() != nullptr) return make(bytes, out, account);
  // The unused parts around the large pages take address space, but no memory.
  MINNOW_RETURN_IF_ERROR(make(bytes, kLargePage, out, account));
  bool small = false;  // unknown: the parts outside of large pages are allocated when they are written to
  populate(out->data(), bytes, false, &small);
  return ok();
}

}  // namespace minnow
