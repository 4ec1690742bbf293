#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include <algorithm>

#include "kernels/cpu/image/double_bytes.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A row of at least a vector. The last vector overlaps the one before it.
template <class D8>
HWY_INLINE void double_row(D8 d, const uint8_t* x, int64_t n, int64_t next, uint8_t* y) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t at = std::min(i, n - lanes);
    const auto v = hn::LoadU(d, x + at);
    hn::StoreInterleaved2(v, v, d, y + 2 * at);
    if (next > 0) hn::StoreInterleaved2(v, v, d, y + 2 * at + next);
  }
}

void double_rows(const uint8_t* x, int64_t rows, int64_t n, int64_t next, uint8_t* y) {
  const hn::ScalableTag<uint8_t> d;
  const hn::CappedTag<uint8_t, 16> small;
  const hn::CappedTag<uint8_t, 8> least;
  for (int64_t r = 0; r < rows; ++r, x += n, y += 2 * n + next) {
    if (n >= static_cast<int64_t>(hn::Lanes(d))) {
      double_row(d, x, n, next, y);
    } else if (n >= static_cast<int64_t>(hn::Lanes(small))) {
      double_row(small, x, n, next, y);
    } else if (n >= static_cast<int64_t>(hn::Lanes(least))) {
      double_row(least, x, n, next, y);
    } else {
      for (int64_t i = 0; i < n; ++i) y[2 * i] = y[2 * i + 1] = y[2 * i + next] = y[2 * i + 1 + next] = x[i];
    }
  }
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow {

HWY_EXPORT(double_rows);

void double_bytes(const char* src, int64_t rows, int64_t n, bool twice, char* dst) {
  // Rows of their own that are not repeated are one long row.
  const int64_t together = twice ? 1 : rows;
  HWY_DYNAMIC_DISPATCH(double_rows)
  (reinterpret_cast<const uint8_t*>(src), rows / std::max<int64_t>(1, together), n * together, twice ? 2 * n : 0,
   reinterpret_cast<uint8_t*>(dst));
}

}  // namespace minnow
#endif  // HWY_ONCE
