// What a thread does between two looks at what it waits for.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace minnow {

inline void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace minnow
