/* Counts what a call of minnow_run allocates, on all threads. Preloaded: glibc only. With ALLOCATION_TRACE set, each
 * allocation's callers go to stderr. */
#include <execinfo.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

static atomic_int counting;
static atomic_long count;
static _Thread_local int inside;

static void note(void) {
  if (!atomic_load(&counting) || inside) return;
  inside = 1;
  atomic_fetch_add(&count, 1);
  if (getenv("ALLOCATION_TRACE") != NULL) {
    void* callers[16];
    backtrace_symbols_fd(callers, backtrace(callers, 16), 2);
    if (write(2, "\n", 1) != 1) abort();
  }
  inside = 0;
}

void* malloc(size_t n) {
  note();
  return __libc_malloc(n);
}

void* calloc(size_t n, size_t size) {
  note();
  return __libc_calloc(n, size);
}

void* realloc(void* p, size_t n) {
  note();
  return __libc_realloc(p, n);
}

void* memalign(size_t alignment, size_t n) {
  note();
  return __libc_memalign(alignment, n);
}

void* aligned_alloc(size_t alignment, size_t n) {
  note();
  return __libc_memalign(alignment, n);
}

int posix_memalign(void** p, size_t alignment, size_t n) {
  note();
  *p = __libc_memalign(alignment, n);
  return *p == NULL ? 12 : 0;
}

/* -1: the run has failed. */
long allocations_of_run(int (*run)(void*, void*, size_t, void*, size_t), void* session, void* inputs, size_t n,
                        void* outputs, size_t m) {
  atomic_store(&count, 0);
  atomic_store(&counting, 1);
  const int code = run(session, inputs, n, outputs, m);
  atomic_store(&counting, 0);
  return code != 0 ? -1 : atomic_load(&count);
}
