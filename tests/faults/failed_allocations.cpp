// Every allocation of loading, planning and running a model fails, one after the other: the call must end with an error
// and a message, what it had must be given back, and the same objects and new ones must then give the right results.
//
// usage: failed_allocations CASES THREADS MOST FOLDER
//
// MOST: of the allocations of a case at most so many fail, evenly spread. FOLDER: for files, which are mapped. Prints a
// line per case. The sanitizer looks for leaks at the end.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <new>

#include "cases.h"

namespace {

// The allocation with this number fails; `kFromThere`: so do all after it.
std::atomic<bool> counting{false};
std::atomic<long> count{0}, failing{-1}, failed{0};
std::atomic<bool> from_there{false};

bool fails() {
  if (!counting.load(std::memory_order_relaxed)) return false;
  const long number = count.fetch_add(1, std::memory_order_relaxed), first = failing.load(std::memory_order_relaxed);
  const bool hit = first >= 0 && (number == first || (from_there.load(std::memory_order_relaxed) && number > first));
  if (hit) failed.fetch_add(1, std::memory_order_relaxed);
  if (hit) errno = ENOMEM;
  return hit;
}

}  // namespace

#if defined(__SANITIZE_ADDRESS__)
#define REAL(name) __interceptor_##name
#else
#define REAL(name) __libc_##name
#endif

extern "C" {
void* REAL(malloc)(size_t);
void* REAL(calloc)(size_t, size_t);
void* REAL(realloc)(void*, size_t);
void* REAL(memalign)(size_t, size_t);
void REAL(free)(void*);

void* malloc(size_t n) { return fails() ? nullptr : REAL(malloc)(n); }
void* calloc(size_t n, size_t size) { return fails() ? nullptr : REAL(calloc)(n, size); }
void* realloc(void* p, size_t n) { return fails() ? nullptr : REAL(realloc)(p, n); }
void* memalign(size_t alignment, size_t n) { return fails() ? nullptr : REAL(memalign)(alignment, n); }
void* aligned_alloc(size_t alignment, size_t n) { return fails() ? nullptr : REAL(memalign)(alignment, n); }
int posix_memalign(void** p, size_t alignment, size_t n) {
  if (fails()) return ENOMEM;
  *p = REAL(memalign)(alignment, n);
  return *p == nullptr ? ENOMEM : 0;
}
void* mmap(void* at, size_t n, int protection, int flags, int fd, off_t offset) {
  if (fails()) return MAP_FAILED;
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, n, protection, flags, fd, offset));
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const Create real = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  return fails() ? EAGAIN : real(thread, attributes, start, argument);
}
}

namespace {
void* allocate(size_t n) {
  void* p = malloc(n == 0 ? 1 : n);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
void* allocate(size_t n, std::align_val_t alignment) {
  void* p = memalign(static_cast<size_t>(alignment), n == 0 ? 1 : n);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
}  // namespace

void* operator new(size_t n) { return allocate(n); }
void* operator new[](size_t n) { return allocate(n); }
void* operator new(size_t n, const std::nothrow_t&) noexcept { return malloc(n == 0 ? 1 : n); }
void* operator new[](size_t n, const std::nothrow_t&) noexcept { return malloc(n == 0 ? 1 : n); }
void* operator new(size_t n, std::align_val_t a) { return allocate(n, a); }
void* operator new[](size_t n, std::align_val_t a) { return allocate(n, a); }
void operator delete(void* p) noexcept { REAL(free)(p); }
void operator delete[](void* p) noexcept { REAL(free)(p); }
void operator delete(void* p, size_t) noexcept { REAL(free)(p); }
void operator delete[](void* p, size_t) noexcept { REAL(free)(p); }
void operator delete(void* p, std::align_val_t) noexcept { REAL(free)(p); }
void operator delete[](void* p, std::align_val_t) noexcept { REAL(free)(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { REAL(free)(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { REAL(free)(p); }

namespace {

struct Outcome {
  minnow_code code = MINNOW_OK;
  const char* where = "";
  minnow_model* model = nullptr;
  minnow_session* session = nullptr;
  Results first, second;
};

// Loads, plans and runs twice. The copies of the results are not the engine's allocations.
void attempt(const std::string& path, const Case& c, int threads, bool counted, Outcome* out) {
  minnow_options options = MINNOW_OPTIONS;
  options.threads = threads;
  const auto step = [&](const char* where, auto call) {
    if (out->code != MINNOW_OK) return;
    counting = counted;
    out->code = call();
    counting = false;
    out->where = where;
  };
  step("load", [&] { return minnow_load_file(path.c_str(), &out->model); });
  step("create", [&] { return minnow_create_session(out->model, &options, &out->session); });
  for (Results* results : {&out->first, &out->second}) {
    minnow_tensor outputs[64] = {};
    const size_t n = out->session == nullptr ? 0 : minnow_num_outputs(out->session);
    step("run", [&] { return minnow_run(out->session, c.inputs.data(), c.inputs.size(), outputs, n); });
    for (size_t i = 0; i < n && out->code == MINNOW_OK; ++i) results->push_back(bytes_of(outputs[i]));
  }
}

void end(Outcome* out) {
  minnow_free_session(out->session);
  minnow_free_model(out->model);
}

void recover(const std::string& path, const Case& c, int threads, const Outcome& want, Outcome* out,
             const std::string& what) {
  minnow_options options = MINNOW_OPTIONS;
  options.threads = threads;
  if (out->model == nullptr) expect(minnow_load_file(path.c_str(), &out->model) == MINNOW_OK, what + ": load again");
  if (out->session == nullptr)
    expect(minnow_create_session(out->model, &options, &out->session) == MINNOW_OK, what + ": create again");
  // The states are those before the run that has failed; there are no results for a third run.
  const bool first = out->code == MINNOW_OK || out->first.empty();
  if (out->code == MINNOW_OK) expect(minnow_reset(out->session) == MINNOW_OK, what + ": reset");
  Results again;
  expect(run_case(out->session, c, &again) == MINNOW_OK, what + ": run again");
  expect(again == (first ? want.first : want.second), what + ": other results afterwards");
}

}  // namespace

int main(int argc, char** argv) {
  expect(argc == 5, "usage: failed_allocations CASES THREADS MOST FOLDER");
  const int threads = std::atoi(argv[2]);
  const long most = std::atol(argv[3]);
  const std::string path = std::string(argv[4]) + "/case.mnn";
  CaseReader reader(argv[1]);
  Case c;
  for (int number = 0; reader.next(&c); ++number) {
    std::FILE* file = std::fopen(path.c_str(), "wb");
    expect(file != nullptr && std::fwrite(c.file.data(), 1, c.file.size(), file) == c.file.size(), "cannot write");
    std::fclose(file);
    Outcome want;
    failing = -1;
    attempt(path, c, threads, false, &want);
    expect(want.code == MINNOW_OK, "the case does not run");
    Outcome counted;
    count = 0;
    attempt(path, c, threads, true, &counted);
    expect(counted.first == want.first && counted.second == want.second, "two sessions give other results");
    end(&counted);
    const long all = count, stride = all > most ? (all + most - 1) / most : 1;
    long errors = 0, survived = 0;
    for (long n = number % stride; n < all; n += stride) {
      for (bool all_after : {false, true}) {
        Outcome out;
        count = 0;
        failed = 0;
        failing = n;
        from_there = all_after;
        attempt(path, c, threads, true, &out);
        failing = -1;
        const std::string what = "case " + std::to_string(number) + ", allocation " + std::to_string(n) +
                                 (all_after ? " and all after it, " : ", ") + out.where + " came to " +
                                 std::to_string(out.code);
        if (out.code != MINNOW_OK) {
          ++errors;
          expect(failed > 0, what + ", though nothing has failed");
          expect(out.code == MINNOW_UNSUPPORTED || out.code == MINNOW_FORMAT, what);
          // With no memory at all, there may be none for the message.
          expect(all_after || minnow_last_error()[0] != 0, what + " without a message");
        } else {
          ++survived;
          expect(out.first == want.first && out.second == want.second, what + " with other results");
        }
        recover(path, c, threads, want, &out, what);
        end(&out);
      }
    }
    end(&want);
    std::printf("case %d: %ld allocations, %ld errors, %ld went on\n", number, all, errors, survived);
    std::fflush(stdout);
  }
  return 0;
}
