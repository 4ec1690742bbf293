// Which instruction sets this processor has, for the dispatch of Highway.
//
// Highway declares these functions in hwy/targets.h and keeps them in a library of its own, which Debian ships as a
// shared one only. Defined here, they leave libminnow.so with nothing to load but libc, libstdc++ and pthread.
#include <cstdlib>
#include <cstring>

#include "hwy/targets.h"

#if HWY_ARCH_ARM_A64
#include <sys/auxv.h>
#endif

namespace hwy {
namespace {

struct Level {
  int64_t target;
  const char* name;  // as the environment variable MINNOW_ISA spells it
  bool here;
};

// From the lowest to the highest. A level counts only when all below it are here: each includes the ones before.
// What a level asks for is what Highway lets the compiler use for it (HWY_TARGET_STR in hwy/ops/set_macros-inl.h).
int64_t detect() {
#if HWY_ARCH_X86
  // gcc and clang ask the operating system too whether it saves the wide registers.
#define HAS(feature) static_cast<bool>(__builtin_cpu_supports(feature))
  __builtin_cpu_init();
  const Level levels[] = {
      {HWY_SSSE3, "ssse3", HAS("ssse3")},
      {HWY_SSE4, "sse4", HAS("sse4.1") && HAS("sse4.2") && HAS("pclmul") && HAS("aes")},
      {HWY_AVX2, "avx2", HAS("avx2") && HAS("bmi") && HAS("bmi2") && HAS("fma") && HAS("f16c")},
      {HWY_AVX3, "avx512", HAS("avx512f") && HAS("avx512vl") && HAS("avx512dq") && HAS("avx512bw") && HAS("avx512cd")},
      {HWY_AVX3_DL, "avx512dl",
       HAS("avx512vnni") && HAS("vpclmulqdq") && HAS("avx512vbmi") && HAS("avx512vbmi2") && HAS("vaes") &&
           HAS("avx512vpopcntdq") && HAS("avx512bitalg") && HAS("gfni")},
  };
#undef HAS
#elif HWY_ARCH_ARM_A64
  constexpr unsigned long kSve = 1UL << 22, kSve2 = 1UL << 1, kSveAes = 1UL << 2;  // the kernel's HWCAP bits
  const bool sve2 = (getauxval(AT_HWCAP2) & kSve2) && (getauxval(AT_HWCAP2) & kSveAes);
  const Level levels[] = {
      {HWY_NEON, "neon", true},
      {HWY_SVE, "sve", (getauxval(AT_HWCAP) & kSve) != 0},
      {HWY_SVE2, "sve2", sve2},
  };
#else
  const Level levels[] = {{HWY_STATIC_TARGET, "baseline", true}};
#endif
  const char* highest = std::getenv("MINNOW_ISA");  // for tests and for measuring: use nothing above this one
  int64_t targets = HWY_STATIC_TARGET;
  for (const Level& level : levels) {
    if (!level.here) break;
    targets |= level.target;
    if (highest && std::strcmp(highest, level.name) == 0) break;
  }
  return targets;
}

}  // namespace

int64_t SupportedTargets() {
  static const int64_t targets = detect();
  return targets;
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
