// Takes the place of malloc, operator new, mmap and pthread_create in all libraries of the program. Compiled without
// sanitizers, since the first calls come before theirs are ready.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "failing_malloc.h"

// The libraries must find what is here.
#pragma GCC visibility push(default)

Allocations allocations;

namespace {

bool fails() {
  Allocations& a = allocations;
  if (!a.counting.load(std::memory_order_relaxed)) return false;
  const long number = a.count.fetch_add(1, std::memory_order_relaxed),
             first = a.failing.load(std::memory_order_relaxed);
  const bool hit = first >= 0 && (number == first || (a.all_after.load(std::memory_order_relaxed) && number > first));
  if (hit) a.failed.fetch_add(1, std::memory_order_relaxed);
  if (hit) errno = ENOMEM;
  return hit;
}

}  // namespace

#ifdef MINNOW_WITH_ASAN  // this file itself is compiled without
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
