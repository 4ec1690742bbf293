#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include <algorithm>

#include "kernels/cpu/pool/bytes.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The greatest of each column of some rows, of all planes of a window.
template <class D8, typename T>
HWY_INLINE void max_of_columns(D8 d, const T* in, const ByteColumns& c, T* out) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  // The last vector of a row overlaps the one before it.
  for (int64_t i = 0; i < c.n; i += lanes) {
    const int64_t at = std::min(i, c.n - lanes);
    auto most = hn::Set(d, hwy::LowestValue<T>());
    for (int64_t z = 0; z < c.planes; ++z)
      for (int64_t y = 0; y < c.rows; ++y) most = hn::Max(most, hn::LoadU(d, in + z * c.plane + y * c.row + at));
    hn::StoreU(most, d, out + at);
  }
}

#if HWY_TARGET <= HWY_AVX3
// The same of fewer columns than a vector has lanes: loads and stores leave the others out at no cost.
template <class D8, typename T>
HWY_INLINE void max_of_few_columns(D8 d, const T* in, const ByteColumns& c, T* out) {
  const auto some = hn::FirstN(d, static_cast<size_t>(c.n));
  auto most = hn::Set(d, hwy::LowestValue<T>());
  for (int64_t z = 0; z < c.planes; ++z)
    for (int64_t y = 0; y < c.rows; ++y) most = hn::Max(most, hn::MaskedLoad(some, d, in + z * c.plane + y * c.row));
  hn::BlendedStore(most, some, d, out);
}
#endif

template <typename T>
HWY_INLINE void max_of_columns(const T* in, const ByteColumns& c, T* out) {
  const hn::ScalableTag<T> d;
  if (c.n >= static_cast<int64_t>(hn::Lanes(d))) return max_of_columns(d, in, c, out);
#if HWY_TARGET <= HWY_AVX3
  max_of_few_columns(d, in, c, out);
#else
  const hn::CappedTag<T, 16> small;
  if (c.n >= static_cast<int64_t>(hn::Lanes(small))) return max_of_columns(small, in, c, out);
  max_of_columns(hn::CappedTag<T, 1>(), in, c, out);
#endif
}

void columns_of_bytes(const uint8_t* in, const ByteColumns& c, bool is_signed, uint8_t* out) {
  is_signed ? max_of_columns(reinterpret_cast<const int8_t*>(in), c, reinterpret_cast<int8_t*>(out))
            : max_of_columns(in, c, out);
}

// Of as many windows as a vector has lanes, whose begins are `stride` apart, 1 or 2.
template <class D8, typename T>
HWY_INLINE hn::Vec<D8> max_of_windows(D8 d, const T* in, int64_t taps, int64_t step, int64_t stride) {
  const size_t lanes = hn::Lanes(d);
  auto most = hn::LoadU(d, in);
  for (int64_t k = 1; k < taps; ++k) most = hn::Max(most, hn::LoadU(d, in + k * step));
  if (stride == 1) return most;
  auto more = hn::LoadU(d, in + lanes);
  for (int64_t k = 1; k < taps; ++k) more = hn::Max(more, hn::LoadU(d, in + lanes + k * step));
  return hn::ConcatEven(d, more, most);
}

template <class D8, typename T>
HWY_INLINE void max_of_row(D8 d, const T* in, int64_t taps, int64_t step, int64_t stride, int64_t n, T* out) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t at = std::min(i, n - lanes);
    hn::StoreU(max_of_windows(d, in + at * stride, taps, step, stride), d, out + at);
  }
}

template <typename T>
HWY_INLINE void max_of_row(const T* in, int64_t taps, int64_t step, int64_t stride, int64_t n, T* out) {
  const hn::ScalableTag<T> d;
  if (stride <= 2 && n >= static_cast<int64_t>(hn::Lanes(d))) return max_of_row(d, in, taps, step, stride, n, out);
#if HWY_TARGET <= HWY_AVX3
  if (stride <= 2) {
    const auto some = hn::FirstN(d, static_cast<size_t>(n));
    return hn::BlendedStore(max_of_windows(d, in, taps, step, stride), some, d, out);
  }
#else
  const hn::CappedTag<T, 16> small;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(small));
  if (stride <= 2 && n >= lanes) return max_of_row(small, in, taps, step, stride, n, out);
#endif
  for (int64_t i = 0; i < n; ++i) {
    T most = in[i * stride];
    for (int64_t k = 1; k < taps; ++k) most = std::max(most, in[i * stride + k * step]);
    out[i] = most;
  }
}

void windows_of_bytes(const uint8_t* in, int64_t taps, int64_t step, int64_t stride, int64_t n, bool is_signed,
                      uint8_t* out) {
  is_signed ? max_of_row(reinterpret_cast<const int8_t*>(in), taps, step, stride, n, reinterpret_cast<int8_t*>(out))
            : max_of_row(in, taps, step, stride, n, out);
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow {

HWY_EXPORT(columns_of_bytes);
HWY_EXPORT(windows_of_bytes);

void max_columns(const uint8_t* in, const ByteColumns& c, bool is_signed, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(columns_of_bytes)(in, c, is_signed, out);
}

void max_windows(const uint8_t* in, int64_t taps, int64_t step, int64_t stride, int64_t n, bool is_signed,
                 uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(windows_of_bytes)(in, taps, step, stride, n, is_signed, out);
}

}  // namespace minnow
#endif  // HWY_ONCE
