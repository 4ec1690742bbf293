#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include <algorithm>

#include "kernels/cpu/reduce/bytes.h"

#undef MINNOW_UNROLL
#define MINNOW_UNROLL _Pragma("GCC unroll 4")

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Columns from `i` on, as many at a time as `Width` vectors have, while there are so many; returns the next one.
template <int Width, class D8>
HWY_INLINE int64_t columns_of(D8 d, const uint8_t* x, int64_t rows, int64_t stride, int64_t i, int64_t n, uint8_t flip,
                              uint8_t* most) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto flips = hn::Set(d, flip);
  for (; i + Width * lanes <= n; i += Width * lanes) {
    hn::Vec<D8> v[Width];
    MINNOW_UNROLL
    for (int k = 0; k < Width; ++k) v[k] = hn::Xor(hn::LoadU(d, most + i + k * lanes), flips);
    for (int64_t r = 0; r < rows; ++r) {
      MINNOW_UNROLL
      for (int k = 0; k < Width; ++k)
        v[k] = hn::Max(v[k], hn::Xor(hn::LoadU(d, x + r * stride + i + k * lanes), flips));
    }
    MINNOW_UNROLL
    for (int k = 0; k < Width; ++k) hn::StoreU(hn::Xor(v[k], flips), d, most + i + k * lanes);
  }
  return i;
}

void bytes_of_columns(const uint8_t* x, int64_t rows, int64_t stride, int64_t n, uint8_t flip, uint8_t* most) {
  const hn::ScalableTag<uint8_t> d;
  const hn::CappedTag<uint8_t, 16> small;
  int64_t i = columns_of<4>(d, x, rows, stride, 0, n, flip, most);
  i = columns_of<1>(d, x, rows, stride, i, n, flip, most);
  i = columns_of<1>(small, x, rows, stride, i, n, flip, most);
  columns_of<1>(hn::CappedTag<uint8_t, 1>(), x, rows, stride, i, n, flip, most);
}

// The greatest of a row of at least a vector. The last vector overlaps the one before it.
template <class D8>
HWY_INLINE uint8_t greatest_of_row(D8 d, const uint8_t* x, int64_t n, uint8_t flip) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto flips = hn::Set(d, flip);
  auto a = hn::Xor(hn::LoadU(d, x + n - lanes), flips), b = a;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    a = hn::Max(a, hn::Xor(hn::LoadU(d, x + i), flips));
    b = hn::Max(b, hn::Xor(hn::LoadU(d, x + i + lanes), flips));
  }
  if (i + lanes <= n) a = hn::Max(a, hn::Xor(hn::LoadU(d, x + i), flips));
  // Pairs of bytes, then pairs of those.
  const hn::Repartition<uint16_t, D8> d16;
  const hn::Repartition<int32_t, D8> d32;
  const auto bytes = hn::BitCast(d16, hn::Max(a, b));
  const auto pairs = hn::BitCast(d32, hn::Max(hn::And(bytes, hn::Set(d16, 0xff)), hn::ShiftRight<8>(bytes)));
  const auto fours = hn::Max(hn::And(pairs, hn::Set(d32, 0xffff)), hn::ShiftRight<16>(pairs));
  return static_cast<uint8_t>(hn::GetLane(hn::MaxOfLanes(d32, fours)));
}

void bytes_of_rows(const uint8_t* x, int64_t rows, int64_t stride, int64_t n, uint8_t flip, uint8_t* most) {
  const hn::ScalableTag<uint8_t> d;
  const hn::CappedTag<uint8_t, 16> small;
  for (int64_t r = 0; r < rows; ++r, x += stride, ++most) {
    uint8_t found = *most ^ flip;
    if (n >= static_cast<int64_t>(hn::Lanes(d))) {
      found = std::max(found, greatest_of_row(d, x, n, flip));
    } else if (n >= static_cast<int64_t>(hn::Lanes(small))) {
      found = std::max(found, greatest_of_row(small, x, n, flip));
    } else {
      for (int64_t i = 0; i < n; ++i) found = std::max(found, static_cast<uint8_t>(x[i] ^ flip));
    }
    *most = found ^ flip;
  }
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow {

HWY_EXPORT(bytes_of_columns);
HWY_EXPORT(bytes_of_rows);

void greatest_of_columns(const uint8_t* x, int64_t rows, int64_t stride, int64_t n, uint8_t flip, uint8_t* most) {
  HWY_DYNAMIC_DISPATCH(bytes_of_columns)(x, rows, stride, n, flip, most);
}

void greatest_of_rows(const uint8_t* x, int64_t rows, int64_t stride, int64_t n, uint8_t flip, uint8_t* most) {
  HWY_DYNAMIC_DISPATCH(bytes_of_rows)(x, rows, stride, n, flip, most);
}

}  // namespace minnow
#endif  // HWY_ONCE
