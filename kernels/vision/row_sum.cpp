#include "kernels/vision/row_sum.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/vision/picture.h"

#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::vision::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls block(i) for each `step` elements of [0, n), the last of them overlapping the one before; rest(i) for each
// element where n is less.
template <typename Block, typename Rest>
HWY_INLINE void InBlocks(int64_t n, int64_t step, Block block, Rest rest) {
  if (n < step) {
    for (int64_t i = 0; i < n; ++i) rest(i);
    return;
  }
  int64_t i = 0;
  for (; i + step <= n; i += step) block(i);
  if (i < n) block(n - step);
}

// T: of the rows; the sums are of D, and begin with `start`. Four vectors at a time, which stay in registers. What
// store gets is a vector and its place; `one` gets single sums where n is less than a vector.
template <class D, typename T, typename N, class Store, class One>
HWY_INLINE void SumOf(D d, const T* const* rows, const N* weight, int64_t taps, hn::TFromD<D> start, int64_t n,
                      Store store, One one) {
  using Sum = hn::TFromD<D>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto load = [&](const T* p) HWY_ATTR {
    if constexpr (sizeof(T) == sizeof(Sum)) {
      return hn::LoadU(d, p);
    } else {
      return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, D>(), p));
    }
  };
  const auto add = [&](auto w, const T* p, auto sum) HWY_ATTR {
    return hn::Add(hn::Mul(w, load(p)), sum);  // not MulAdd, which rounds otherwise where there is no such instruction
  };
  const auto block = [&](int64_t i) HWY_ATTR {
    auto sum = hn::Set(d, start);
    for (int64_t k = 0; k < taps; ++k) sum = add(hn::Set(d, static_cast<Sum>(weight[k])), rows[k] + i, sum);
    store(sum, i);
  };
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    auto a = hn::Set(d, start), b = a, c = a, e = a;
    for (int64_t k = 0; k < taps; ++k) {
      const auto w = hn::Set(d, static_cast<Sum>(weight[k]));
      const T* p = rows[k] + i;
      a = add(w, p, a);
      b = add(w, p + lanes, b);
      c = add(w, p + 2 * lanes, c);
      e = add(w, p + 3 * lanes, e);
    }
    store(a, i);
    store(b, i + lanes);
    store(c, i + 2 * lanes);
    store(e, i + 3 * lanes);
  }
  if (n >= lanes) {
    for (; i + lanes <= n; i += lanes) block(i);
    if (i < n) block(n - lanes);
    return;
  }
  for (; i < n; ++i) {
    Sum sum = start;
    for (int64_t k = 0; k < taps; ++k)
      sum = static_cast<Sum>(sum + static_cast<Sum>(weight[k]) * static_cast<Sum>(rows[k][i]));
    one(sum, i);
  }
}
template <typename T, typename N>
HWY_INLINE void SumTo(const T* const* rows, const N* weight, int64_t taps, N* dst, int64_t n) {
  const hn::ScalableTag<N> d;
  SumOf(
      d, rows, weight, taps, N{0}, n, [&](auto sum, int64_t i) HWY_ATTR { hn::StoreU(sum, d, dst + i); },
      [&](N sum, int64_t i) HWY_ATTR { dst[i] = sum; });
}

// The same for few rows with the weights of derivatives, in fewer products. False for others.
template <typename T>
HWY_INLINE bool SumFew(const T* const* rows, const uint16_t* weight, int64_t taps, uint16_t* dst, int64_t n) {
  const hn::ScalableTag<uint16_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto load = [&](const T* p) HWY_ATTR {
    if constexpr (sizeof(T) == 2) {
      return hn::LoadU(d, p);
    } else {
      return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, decltype(d)>(), p));
    }
  };
  const T *a = rows[0], *b = rows[1];
  if (taps == 2 && weight[0] == uint16_t{65535} && weight[1] == 1) {
    InBlocks(
        n, lanes, [&](int64_t i) HWY_ATTR { hn::StoreU(hn::Sub(load(b + i), load(a + i)), d, dst + i); },
        [&](int64_t i) HWY_ATTR { dst[i] = static_cast<uint16_t>(b[i] - a[i]); });
    return true;
  }
  if (taps != 3 || weight[0] != weight[2]) return false;
  const T* c = rows[2];
  const uint32_t outer = weight[0], inner = weight[1];
  const auto outers = hn::Set(d, weight[0]), inners = hn::Set(d, weight[1]);
  InBlocks(
      n, lanes,
      [&](int64_t i) HWY_ATTR {
        const auto sum = hn::Mul(hn::Add(load(a + i), load(c + i)), outers);
        hn::StoreU(hn::Add(sum, hn::Mul(load(b + i), inners)), d, dst + i);
      },
      [&](int64_t i) HWY_ATTR { dst[i] = static_cast<uint16_t>((uint32_t{a[i]} + c[i]) * outer + b[i] * inner); });
  return true;
}
#define MINNOW_SUM(Name, T, N)                                                        \
  void Name(const T* const* rows, const N* weight, int64_t taps, N* dst, int64_t n) { \
    SumTo(rows, weight, taps, dst, n);                                                \
  }
MINNOW_SUM(SumInts, int32_t, int32_t)
MINNOW_SUM(SumFloats, float, float)
MINNOW_SUM(SumDoubles, double, double)
#undef MINNOW_SUM
#define MINNOW_SHORT_SUM(Name, T)                                                                   \
  void Name(const T* const* rows, const uint16_t* weight, int64_t taps, uint16_t* dst, int64_t n) { \
    if (taps > 1 && SumFew(rows, weight, taps, dst, n)) return;                                     \
    SumTo(rows, weight, taps, dst, n);                                                              \
  }
MINNOW_SHORT_SUM(SumBytes, uint8_t)
MINNOW_SHORT_SUM(SumShorts, uint16_t)
#undef MINNOW_SHORT_SUM

void MeanOfRows(const uint16_t* const* rows, const uint16_t* weight, int64_t taps, int bits, uint8_t* dst, int64_t n) {
  const hn::ScalableTag<int32_t> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const int32_t half = bits > 0 ? 1 << (bits - 1) : 0;
  SumOf(
      d, rows, weight, taps, half, n,
      [&](auto sum, int64_t i)
          HWY_ATTR { hn::StoreU(hn::DemoteTo(bytes, hn::ShiftRightSame(sum, bits)), bytes, dst + i); },
      [&](int32_t sum, int64_t i) HWY_ATTR { dst[i] = static_cast<uint8_t>(std::min(sum >> bits, 255)); });
}

// The compiler vectorizes these.
template <typename N>
HWY_INLINE void Slide(const N* HWY_RESTRICT added, const N* HWY_RESTRICT removed, N* HWY_RESTRICT dst, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] = static_cast<N>(dst[i] + added[i] - removed[i]);
}
void SlideShorts(const uint16_t* added, const uint16_t* removed, uint16_t* dst, int64_t n) {
  Slide(added, removed, dst, n);
}
void SlideInts(const int32_t* added, const int32_t* removed, int32_t* dst, int64_t n) { Slide(added, removed, dst, n); }

// Sums as above, and their quotients.
void SlideMeans(const uint16_t* added, const uint16_t* removed, uint16_t* sums, Quotient quotient, uint8_t* dst,
                int64_t n) {
  const hn::ScalableTag<uint16_t> d;
  const hn::RebindToSigned<decltype(d)> as_signed;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const auto offset = hn::Set(d, quotient.offset), factor = hn::Set(d, quotient.factor);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto sum = hn::Sub(hn::Add(hn::LoadU(d, sums + i), hn::LoadU(d, added + i)), hn::LoadU(d, removed + i));
    hn::StoreU(sum, d, sums + i);
    hn::StoreU(hn::DemoteTo(bytes, hn::BitCast(as_signed, hn::MulHigh(hn::Add(sum, offset), factor))), bytes, dst + i);
  }
  for (; i < n; ++i) {
    sums[i] = static_cast<uint16_t>(sums[i] + added[i] - removed[i]);
    dst[i] = static_cast<uint8_t>((static_cast<uint32_t>(sums[i]) + quotient.offset) * quotient.factor >> 16);
  }
}

template <typename T, typename N>
HWY_INLINE void Widen(const T* HWY_RESTRICT src, N* HWY_RESTRICT dst, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] = static_cast<N>(src[i]);
}
void WidenU8(const uint8_t* src, float* dst, int64_t n) { Widen(src, dst, n); }
void WidenU16(const uint16_t* src, float* dst, int64_t n) { Widen(src, dst, n); }
void WidenI16(const int16_t* src, float* dst, int64_t n) { Widen(src, dst, n); }
void WidenInts(const uint8_t* src, int32_t* dst, int64_t n) { Widen(src, dst, n); }

void NarrowRow(const uint16_t* src, int bits, uint8_t* dst, int64_t n) {
  const hn::ScalableTag<uint16_t> d;
  const hn::RebindToSigned<decltype(d)> as_signed;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const auto half = static_cast<uint16_t>(bits > 0 ? 1 << (bits - 1) : 0);
  const auto halves = hn::Set(d, half);
  const auto block = [&](int64_t i) HWY_ATTR {
    const auto sums = hn::ShiftRightSame(hn::Add(hn::LoadU(d, src + i), halves), bits);
    hn::StoreU(hn::DemoteTo(bytes, hn::BitCast(as_signed, sums)), bytes, dst + i);
  };
  const auto rest = [&](int64_t i) HWY_ATTR {
    const int shifted = static_cast<uint16_t>(src[i] + half) >> bits;
    dst[i] = static_cast<uint8_t>(std::min(shifted, 255));
  };
  InBlocks(n, static_cast<int64_t>(hn::Lanes(d)), block, rest);
}

// As `saturated` of picture.h.
template <typename T, class D, class V>
HWY_INLINE void StoreRounded(D d, V v, T* dst) {
  if constexpr (std::is_same_v<T, float>) {
    hn::StoreU(v, d, dst);
  } else {
    const auto low = hn::Set(d, static_cast<float>(std::numeric_limits<T>::min()));
    const auto high = hn::Set(d, static_cast<float>(std::numeric_limits<T>::max()));
    v = hn::IfThenElse(hn::Gt(v, low), v, low);  // NaN, too
    v = hn::IfThenElse(hn::Lt(v, high), v, high);
    const hn::Rebind<T, D> to;
    hn::StoreU(hn::DemoteTo(to, hn::NearestInt(v)), to, dst);
  }
}
template <typename T>
HWY_INLINE void RoundTo(const float* src, T* dst, int64_t n) {
  const hn::ScalableTag<float> d;
  InBlocks(
      n, static_cast<int64_t>(hn::Lanes(d)),
      [&](int64_t i) HWY_ATTR { StoreRounded(d, hn::LoadU(d, src + i), dst + i); },
      [&](int64_t i) HWY_ATTR { dst[i] = saturated<T>(src[i]); });
}
void RoundU8(const float* src, uint8_t* dst, int64_t n) { RoundTo(src, dst, n); }
void RoundU16(const float* src, uint16_t* dst, int64_t n) { RoundTo(src, dst, n); }
void RoundI16(const float* src, int16_t* dst, int64_t n) { RoundTo(src, dst, n); }

template <typename S, typename T>
HWY_INLINE void ScaleTo(const S* src, float factor, T* dst, int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> ints;
  const auto factors = hn::Set(d, factor);
  const auto block = [&](int64_t i) HWY_ATTR {
    const auto load = [&]() HWY_ATTR {
      if constexpr (sizeof(S) == 4) {
        return hn::LoadU(ints, src + i);
      } else {
        return hn::PromoteTo(ints, hn::LoadU(hn::Rebind<S, decltype(d)>(), src + i));
      }
    };
    StoreRounded(d, hn::Mul(hn::ConvertTo(d, load()), factors), dst + i);
  };
  const auto rest = [&](int64_t i) HWY_ATTR { dst[i] = saturated<T>(static_cast<float>(src[i]) * factor); };
  InBlocks(n, static_cast<int64_t>(hn::Lanes(d)), block, rest);
}
#define MINNOW_SCALE(Name, S, T) \
  void Name(const S* src, float factor, void* dst, int64_t n) { ScaleTo(src, factor, static_cast<T*>(dst), n); }
MINNOW_SCALE(ScaleShortsU8, uint16_t, uint8_t)
MINNOW_SCALE(ScaleShortsU16, uint16_t, uint16_t)
MINNOW_SCALE(ScaleShortsI16, uint16_t, int16_t)
MINNOW_SCALE(ScaleShortsF32, uint16_t, float)
MINNOW_SCALE(ScaleIntsU8, int32_t, uint8_t)
MINNOW_SCALE(ScaleIntsU16, int32_t, uint16_t)
MINNOW_SCALE(ScaleIntsI16, int32_t, int16_t)
MINNOW_SCALE(ScaleIntsF32, int32_t, float)
#undef MINNOW_SCALE

void ShortsToBytes(const int16_t* src, uint8_t* dst, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] = static_cast<uint8_t>(src[i] < 0 ? 0 : src[i] > 255 ? 255 : src[i]);
}

}  // namespace minnow::vision::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow::vision {

HWY_EXPORT(SumInts);
HWY_EXPORT(SumFloats);
HWY_EXPORT(SumDoubles);
HWY_EXPORT(SumBytes);
HWY_EXPORT(SumShorts);
HWY_EXPORT(MeanOfRows);
HWY_EXPORT(SlideShorts);
HWY_EXPORT(SlideInts);
HWY_EXPORT(SlideMeans);
HWY_EXPORT(WidenU8);
HWY_EXPORT(WidenU16);
HWY_EXPORT(WidenI16);
HWY_EXPORT(WidenInts);
HWY_EXPORT(NarrowRow);
HWY_EXPORT(RoundU8);
HWY_EXPORT(RoundU16);
HWY_EXPORT(RoundI16);
HWY_EXPORT(ScaleShortsU8);
HWY_EXPORT(ScaleShortsU16);
HWY_EXPORT(ScaleShortsI16);
HWY_EXPORT(ScaleShortsF32);
HWY_EXPORT(ScaleIntsU8);
HWY_EXPORT(ScaleIntsU16);
HWY_EXPORT(ScaleIntsI16);
HWY_EXPORT(ScaleIntsF32);
HWY_EXPORT(ShortsToBytes);

void sum_rows(const int32_t* const* rows, const int32_t* weight, int64_t taps, int32_t* dst, int64_t n) {
  HWY_DYNAMIC_DISPATCH(SumInts)(rows, weight, taps, dst, n);
}
void sum_rows(const float* const* rows, const float* weight, int64_t taps, float* dst, int64_t n) {
  HWY_DYNAMIC_DISPATCH(SumFloats)(rows, weight, taps, dst, n);
}
void sum_rows(const double* const* rows, const double* weight, int64_t taps, double* dst, int64_t n) {
  HWY_DYNAMIC_DISPATCH(SumDoubles)(rows, weight, taps, dst, n);
}
void sum_rows(const uint8_t* const* rows, const uint16_t* weight, int64_t taps, uint16_t* dst, int64_t n) {
  HWY_DYNAMIC_DISPATCH(SumBytes)(rows, weight, taps, dst, n);
}
void sum_rows(const uint16_t* const* rows, const uint16_t* weight, int64_t taps, uint16_t* dst, int64_t n) {
  HWY_DYNAMIC_DISPATCH(SumShorts)(rows, weight, taps, dst, n);
}
void mean_of_rows(const uint16_t* const* rows, const uint16_t* weight, int64_t taps, int bits, uint8_t* dst,
                  int64_t n) {
  HWY_DYNAMIC_DISPATCH(MeanOfRows)(rows, weight, taps, bits, dst, n);
}

void slide_rows(const uint16_t* added, const uint16_t* removed, uint16_t* dst, int64_t n) {
  HWY_DYNAMIC_DISPATCH(SlideShorts)(added, removed, dst, n);
}
void slide_rows(const int32_t* added, const int32_t* removed, int32_t* dst, int64_t n) {
  HWY_DYNAMIC_DISPATCH(SlideInts)(added, removed, dst, n);
}

void slide_means(const uint16_t* added, const uint16_t* removed, uint16_t* sums, Quotient quotient, uint8_t* dst,
                 int64_t n) {
  HWY_DYNAMIC_DISPATCH(SlideMeans)(added, removed, sums, quotient, dst, n);
}

void narrow_row(const uint16_t* src, int bits, uint8_t* dst, int64_t n) {
  HWY_DYNAMIC_DISPATCH(NarrowRow)(src, bits, dst, n);
}
void scale_row(const uint16_t* src, float factor, DType dtype, void* dst, int64_t n) {
  switch (dtype) {
    case DType::kU8:
      return HWY_DYNAMIC_DISPATCH(ScaleShortsU8)(src, factor, dst, n);
    case DType::kU16:
      return HWY_DYNAMIC_DISPATCH(ScaleShortsU16)(src, factor, dst, n);
    case DType::kI16:
      return HWY_DYNAMIC_DISPATCH(ScaleShortsI16)(src, factor, dst, n);
    default:
      return HWY_DYNAMIC_DISPATCH(ScaleShortsF32)(src, factor, dst, n);
  }
}
void scale_row(const int32_t* src, float factor, DType dtype, void* dst, int64_t n) {
  switch (dtype) {
    case DType::kU8:
      return HWY_DYNAMIC_DISPATCH(ScaleIntsU8)(src, factor, dst, n);
    case DType::kU16:
      return HWY_DYNAMIC_DISPATCH(ScaleIntsU16)(src, factor, dst, n);
    case DType::kI16:
      return HWY_DYNAMIC_DISPATCH(ScaleIntsI16)(src, factor, dst, n);
    default:
      return HWY_DYNAMIC_DISPATCH(ScaleIntsF32)(src, factor, dst, n);
  }
}
void convert_row(const int16_t* src, DType dtype, void* dst, int64_t n) {
  if (dtype == DType::kU8) {
    HWY_DYNAMIC_DISPATCH(ShortsToBytes)(src, static_cast<uint8_t*>(dst), n);
  } else {
    HWY_DYNAMIC_DISPATCH(WidenI16)(src, static_cast<float*>(dst), n);
  }
}

void widen_row(const uint8_t* src, float* dst, int64_t n) { HWY_DYNAMIC_DISPATCH(WidenU8)(src, dst, n); }
void widen_row(const uint16_t* src, float* dst, int64_t n) { HWY_DYNAMIC_DISPATCH(WidenU16)(src, dst, n); }
void widen_row(const int16_t* src, float* dst, int64_t n) { HWY_DYNAMIC_DISPATCH(WidenI16)(src, dst, n); }
void widen_row(const uint8_t* src, int32_t* dst, int64_t n) { HWY_DYNAMIC_DISPATCH(WidenInts)(src, dst, n); }
void round_row(const float* src, uint8_t* dst, int64_t n) { HWY_DYNAMIC_DISPATCH(RoundU8)(src, dst, n); }
void round_row(const float* src, uint16_t* dst, int64_t n) { HWY_DYNAMIC_DISPATCH(RoundU16)(src, dst, n); }
void round_row(const float* src, int16_t* dst, int64_t n) { HWY_DYNAMIC_DISPATCH(RoundI16)(src, dst, n); }

}  // namespace minnow::vision
#endif
