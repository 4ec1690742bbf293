#include "kernels/cpu/machine/amx.h"

#include "kernels/cpu/machine/simd.h"

#if MINNOW_AVX512
#include <cpuid.h>
#endif
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace minnow {

#if MINNOW_AVX512 && defined(__linux__) && defined(SYS_arch_prctl)

bool request_amx(AmxNumbers numbers) {
  uint32_t a, b, c, d;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0 || a < 7) return false;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c >> 27 & 1) == 0) return false;  // OSXSAVE
  uint32_t kept, high;                                                          // registers that the system keeps
  asm volatile("xgetbv" : "=a"(kept), "=d"(high) : "c"(0));
  __cpuid_count(7, 0, a, b, c, d);
  const bool has = (d >> 24 & 1) != 0 && (d >> (numbers == AmxNumbers::kBytes ? 25 : 22) & 1) != 0;
  if (!has || (kept >> 17 & 3) != 3) return false;
  // Linux gives the tiles to those who ask for them.
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

#else

bool request_amx(AmxNumbers) { return false; }

#endif

}  // namespace minnow
