// Vectors of numbers of bf16, as floats: of each pair of neighbors the first is an even number and the second an odd
// one. To be included inside nothing, after kernels/cpu/machine/simd.h, in files compiled once per instruction set.
//
// What computes with such images runs where AMX does, and with AVX2 in tests: there it is compiled for size, and not at
// all for fewer registers.

#if defined(MINNOW_KERNELS_CPU_HALF_NUMBERS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MINNOW_KERNELS_CPU_HALF_NUMBERS_INL_H
#undef MINNOW_KERNELS_CPU_HALF_NUMBERS_INL_H
#else
#define MINNOW_KERNELS_CPU_HALF_NUMBERS_INL_H
#endif

#include "hwy/highway.h"

#undef MINNOW_HAS_HALF_NUMBERS
#undef MINNOW_HALF_NUMBERS
#if HWY_TARGET == HWY_AVX3
#define MINNOW_HAS_HALF_NUMBERS 1
#define MINNOW_HALF_NUMBERS
#else
#define MINNOW_HAS_HALF_NUMBERS (HWY_TARGET == HWY_AVX2)
#define MINNOW_HALF_NUMBERS [[gnu::cold]]
#endif

#if MINNOW_HAS_HALF_NUMBERS
HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using HalfFloats = hn::CappedTag<float, 16>;
using HalfPairs = hn::RebindToUnsigned<HalfFloats>;
constexpr int64_t kHalfPairs = static_cast<int64_t>(hn::MaxLanes(HalfFloats()));

HWY_INLINE hn::Vec<HalfPairs> load_pairs(const uint16_t* from) {
  return hn::BitCast(HalfPairs(), hn::LoadU(hn::Repartition<uint16_t, HalfPairs>(), from));
}
HWY_INLINE hn::Vec<HalfFloats> even_of(hn::Vec<HalfPairs> pairs) {
  return hn::BitCast(HalfFloats(), hn::ShiftLeft<16>(pairs));
}
HWY_INLINE hn::Vec<HalfFloats> odd_of(hn::Vec<HalfPairs> pairs) {
  return hn::BitCast(HalfFloats(), hn::And(pairs, hn::Set(HalfPairs(), 0xffff0000u)));
}

// To the nearest, ties to even, in the upper halves. NaN must have lower halves of 0, as sums and products of such
// numbers have.
HWY_INLINE hn::Vec<HalfPairs> round_half(hn::Vec<HalfFloats> x) {
  const HalfPairs d;
  const auto bits = hn::BitCast(d, x);
  const auto last = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
  return hn::Add(bits, hn::Add(last, hn::Set(d, 0x7fffu)));
}

HWY_INLINE void store_pairs(hn::Vec<HalfFloats> even, hn::Vec<HalfFloats> odd, uint16_t* to) {
  const HalfPairs d;
  const auto upper = hn::And(round_half(odd), hn::Set(d, 0xffff0000u));
  const auto both = hn::Or(hn::ShiftRight<16>(round_half(even)), upper);
  hn::StoreU(hn::BitCast(hn::Repartition<uint16_t, HalfPairs>(), both), hn::Repartition<uint16_t, HalfPairs>(), to);
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // include guard
