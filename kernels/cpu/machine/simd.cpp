#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
#include "kernels/cpu/machine/packed_layout.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
// Asked of the code that really runs, so that it can never disagree with it.
int float_lanes() { return static_cast<int>(hwy::HWY_NAMESPACE::Lanes(hwy::HWY_NAMESPACE::ScalableTag<float>())); }
}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>

#if HWY_ARCH_X86
#include <cpuid.h>
#elif HWY_ARCH_ARM_A64 && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace minnow {
namespace {

struct Isa {
  const char* name;
  int64_t target;
  bool available;
};

struct Choice {
  const Isa* isa = nullptr;
  int64_t target = HWY_STATIC_TARGET;
  Status status;
};

#if HWY_ARCH_X86
// clang 14 cannot be asked for it by name.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

Choice choose() {
#if HWY_ARCH_X86
  __builtin_cpu_init();
  const bool sse4 =
      __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("aes");
  const bool avx2 = sse4 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && has_f16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd");
  static const Isa kIsas[] = {{"avx512", HWY_AVX3, avx512}, {"avx2", HWY_AVX2, avx2}, {"sse4", HWY_SSE4, sse4}};
#elif HWY_ARCH_ARM
  static const Isa kIsas[] = {{"neon", HWY_NEON, true}};
#else
  static const Isa kIsas[] = {{"scalar", HWY_STATIC_TARGET, true}};
#endif
  Choice choice;
  const char* wanted = std::getenv("MINNOW_ISA");
  if (wanted != nullptr && *wanted == '\0') wanted = nullptr;
  std::string available;
  for (const Isa& isa : kIsas) {
    if (!isa.available || (isa.target & (HWY_TARGETS)) == 0) continue;
    available += (available.empty() ? "" : ", ") + std::string(isa.name);
    if (choice.isa == nullptr || (wanted != nullptr && std::string(wanted) == isa.name)) choice.isa = &isa;
  }
  if (choice.isa == nullptr) {
    choice.status =
        fail(Code::kDevice, "this processor is too old: SSE4.2, PCLMUL and AES are the least that is needed");
    return choice;
  }
  choice.target = choice.isa->target;
  if (wanted != nullptr && std::string(wanted) != choice.isa->name)
    choice.status = fail(Code::kUsage, "MINNOW_ISA=%s: this machine has no such instruction set; it has %s", wanted,
                         available.c_str());
  return choice;
}

const Choice& choice() {
  static const Choice chosen = choose();
  return chosen;
}

}  // namespace

HWY_EXPORT(float_lanes);

int pack_width() {
  static const int lanes = HWY_DYNAMIC_DISPATCH(float_lanes)();
  return lanes;
}

int isa_index() {
  static const int index = choice().target == HWY_AVX3 ? 2 : choice().target == HWY_AVX2 ? 1 : 0;
  return index;
}

const char* isa_name() { return choice().isa == nullptr ? "none" : choice().isa->name; }

Status isa_status() { return choice().status; }

#if HWY_ARCH_ARM_A64 && defined(__linux__)
bool has_half() {  // FPHP and ASIMDHP: single numbers and vectors
  static const bool has = (getauxval(AT_HWCAP) >> 9 & 3) == 3;
  return has;
}
bool has_dot() {  // ASIMDDP
  static const bool has = (getauxval(AT_HWCAP) >> 20 & 1) != 0;
  return has;
}
#elif HWY_ARCH_ARM_A64 && defined(__APPLE__)
bool has_half() { return true; }
bool has_dot() { return true; }
#else
bool has_half() { return false; }
bool has_dot() { return false; }
#endif

}  // namespace minnow

// What is needed of Highway's own library.
namespace hwy {

HWY_NORETURN void HWY_FORMAT(3, 4) Abort(const char* file, int line, const char* format, ...) {
  std::fprintf(stderr, "%s:%d: ", file, line);
  va_list args;
  va_start(args, format);
  std::vfprintf(stderr, format, args);
  va_end(args);
  std::fputc('\n', stderr);
  std::abort();
}

}  // namespace hwy
#endif  // HWY_ONCE
