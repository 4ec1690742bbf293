// SIMD for kernels: Google Highway, one source for all instruction sets, chosen at run time. A kernel file reads
//
//   #define HWY_TARGET_INCLUDE __BASE_FILE__
//   #include "kernels/cpu/machine/simd.h"          // before every other use of Highway
//
//   HWY_BEFORE_NAMESPACE();
//   namespace minnow::HWY_NAMESPACE {
//   namespace hn = hwy::HWY_NAMESPACE;
//   void softmax_rows(...) { ... }          // compiled once per instruction set
//   }  // namespace minnow::HWY_NAMESPACE
//   HWY_AFTER_NAMESPACE();
//
//   #if HWY_ONCE
//   namespace minnow {
//   HWY_EXPORT(softmax_rows);               // then HWY_DYNAMIC_DISPATCH(softmax_rows)(...), which must not throw
//   }
//   #endif
//
// Only headers of Highway are used: simd.cpp has the little that is in its library, so the choice is ours alone and
// pack_width() always agrees with the code that runs.

// No `#pragma once`: the last part takes effect once per instruction set.
#ifndef MINNOW_KERNELS_CPU_SIMD_H
#define MINNOW_KERNELS_CPU_SIMD_H

// Few targets, so that the code stays small. x86: SSE4 is the least we run on, then AVX2 and AVX-512. Arm: NEON; the
// vectors of SVE cannot be elements of arrays, which the kernels that hold many accumulators need.
#include "hwy/detect_compiler_arch.h"
#if defined(HWY_DISABLED_TARGETS) || defined(HWY_BASELINE_TARGETS)
#error "Include kernels/cpu/machine/simd.h before Highway"
#endif
#if HWY_ARCH_X86_64
#ifndef MINNOW_X86_TARGETS  // a slim build may have fewer, see cmake/slim.cmake
#define MINNOW_X86_TARGETS (HWY_SSE4 | HWY_AVX2 | HWY_AVX3)
#define MINNOW_X86_BASELINE HWY_SSE4
#endif
#define HWY_BASELINE_TARGETS MINNOW_X86_BASELINE
#define HWY_DISABLED_TARGETS (~(MINNOW_X86_TARGETS))
#elif HWY_ARCH_ARM_A64
#define HWY_DISABLED_TARGETS (~HWY_NEON)
#endif

// Whether to compile what is written by hand for AVX-512 and its extensions.
#if HWY_ARCH_X86_64 && !defined(MINNOW_NO_AVX512)
#define MINNOW_AVX512 1
#else
#define MINNOW_AVX512 0
#endif

#include "kernels/core/status.h"
#include "kernels/core/tensor.h"

namespace minnow {

// The instruction set in use: "avx512", "avx2", "sse4", "neon", "scalar". It is the best this machine has, or the one
// that the environment variable MINNOW_ISA names at first use.
const char* isa_name();

// Whether the processor has more than that: vectors of f16 to compute with, and sums of 4 products of bytes. For files
// that are written by hand for them; each is false where there is no such file.
bool has_half();
bool has_dot();

// 0, 1 and 2 for the instruction sets of x86, from the least.
int isa_index();

// Calls through this are known not to throw, so that their callers need no records for unwinding.
template <typename R, typename... Args>
auto never_throws(R (*function)(Args...)) {
  return reinterpret_cast<R (*)(Args...) noexcept>(function);
}

// An error when MINNOW_ISA names an instruction set that this machine or build does not have (another is used then),
// or when the machine has none of those we can run on. To be asked before the first kernel runs.
Status isa_status();

}  // namespace minnow

#endif  // MINNOW_KERNELS_CPU_SIMD_H

#ifdef HWY_TARGET_INCLUDE
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#if HWY_ARCH_X86_64
// Highway's own tables have room for all the targets it knows, and a function for each signature.
#undef HWY_EXPORT
#undef HWY_DYNAMIC_DISPATCH
#define HWY_EXPORT(function)                                                                   \
  static constexpr decltype(&HWY_STATIC_DISPATCH(function)) HWY_DISPATCH_TABLE(function)[] = { \
      HWY_CHOOSE_SSE4(function), HWY_CHOOSE_AVX2(function), HWY_CHOOSE_AVX3(function)}
#define HWY_DYNAMIC_DISPATCH(function) (*::minnow::never_throws(HWY_DISPATCH_TABLE(function)[::minnow::isa_index()]))
#endif
#endif
