// The pause instruction, for threads that spin.
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
