// The largest and the smallest of neighbors.
#include <vector>

#include "kernels/vision/filter.h"

#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::vision::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// dst[i] = the largest or smallest of two.
template <typename T>
HWY_INLINE void Choose(bool largest, const T* a, const T* b, T* dst, int64_t n) {
  if (largest) {
    for (int64_t i = 0; i < n; ++i) dst[i] = a[i] < b[i] ? b[i] : a[i];
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i] = b[i] < a[i] ? b[i] : a[i];
  }
}
#define MINNOW_CHOOSE(Name, T) \
  void Name(bool largest, const T* a, const T* b, T* dst, int64_t n) { Choose(largest, a, b, dst, n); }
MINNOW_CHOOSE(ChooseU8, uint8_t)
MINNOW_CHOOSE(ChooseU16, uint16_t)
MINNOW_CHOOSE(ChooseI16, int16_t)
MINNOW_CHOOSE(ChooseF32, float)
MINNOW_CHOOSE(ChooseF64, double)
#undef MINNOW_CHOOSE

// The same of any number of rows of bytes; four vectors at a time, which stay in registers.
template <class Best>
HWY_INLINE void BestOf(const uint8_t* const* rows, int64_t count, uint8_t* dst, int64_t n, Best best) {
  const hn::ScalableTag<uint8_t> d;
  const hn::CappedTag<uint8_t, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const uint8_t* p = rows[0] + i;
    auto a = hn::LoadU(d, p), b = hn::LoadU(d, p + lanes), c = hn::LoadU(d, p + 2 * lanes),
         e = hn::LoadU(d, p + 3 * lanes);
    for (int64_t k = 1; k < count; ++k) {
      p = rows[k] + i;
      a = best(a, hn::LoadU(d, p));
      b = best(b, hn::LoadU(d, p + lanes));
      c = best(c, hn::LoadU(d, p + 2 * lanes));
      e = best(e, hn::LoadU(d, p + 3 * lanes));
    }
    hn::StoreU(a, d, dst + i);
    hn::StoreU(b, d, dst + i + lanes);
    hn::StoreU(c, d, dst + i + 2 * lanes);
    hn::StoreU(e, d, dst + i + 3 * lanes);
  }
  const auto rest = [&](auto tag, int64_t at) HWY_ATTR {
    auto v = hn::LoadU(tag, rows[0] + at);
    for (int64_t k = 1; k < count; ++k) v = best(v, hn::LoadU(tag, rows[k] + at));
    hn::StoreU(v, tag, dst + at);
  };
  for (; i + lanes <= n; i += lanes) rest(d, i);
  if (i < n && n >= lanes) return rest(d, n - lanes);
  for (; i < n; ++i) rest(one, i);
}
void BestOfRows(bool largest, const uint8_t* const* rows, int64_t count, uint8_t* dst, int64_t n) {
  if (largest) {
    BestOf(rows, count, dst, n, [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); });
  } else {
    BestOf(rows, count, dst, n, [](auto a, auto b) HWY_ATTR { return hn::Min(a, b); });
  }
}

}  // namespace minnow::vision::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/vision/filter_rows.h"

namespace minnow::vision {

HWY_EXPORT(ChooseU8);
HWY_EXPORT(ChooseU16);
HWY_EXPORT(ChooseI16);
HWY_EXPORT(ChooseF32);
HWY_EXPORT(ChooseF64);
HWY_EXPORT(BestOfRows);

namespace {

void choose(bool largest, const uint8_t* a, const uint8_t* b, uint8_t* dst, int64_t n) {
  HWY_DYNAMIC_DISPATCH(ChooseU8)(largest, a, b, dst, n);
}
void choose(bool largest, const uint16_t* a, const uint16_t* b, uint16_t* dst, int64_t n) {
  HWY_DYNAMIC_DISPATCH(ChooseU16)(largest, a, b, dst, n);
}
void choose(bool largest, const int16_t* a, const int16_t* b, int16_t* dst, int64_t n) {
  HWY_DYNAMIC_DISPATCH(ChooseI16)(largest, a, b, dst, n);
}
void choose(bool largest, const float* a, const float* b, float* dst, int64_t n) {
  HWY_DYNAMIC_DISPATCH(ChooseF32)(largest, a, b, dst, n);
}
void choose(bool largest, const double* a, const double* b, double* dst, int64_t n) {
  HWY_DYNAMIC_DISPATCH(ChooseF64)(largest, a, b, dst, n);
}

template <typename T>
void best_of_rows(bool largest, const std::vector<const T*>& rows, T* dst, int64_t n) {
  if constexpr (std::is_same_v<T, uint8_t>) {
    HWY_DYNAMIC_DISPATCH(BestOfRows)(largest, rows.data(), static_cast<int64_t>(rows.size()), dst, n);
  } else {
    std::copy(rows[0], rows[0] + n, dst);
    for (size_t k = 1; k < rows.size(); ++k) choose(largest, dst, rows[k], dst, n);
  }
}

// dst[i] = the largest or smallest of row[i], row[i + step], ..., `count` of them: windows of 2, 4, 8 elements, then
// two that overlap. `row` is overwritten. n: elements of dst; row has (count - 1) * step more.
template <typename T>
void choose_run(bool largest, T* row, int64_t count, int64_t step, int64_t n, T* dst) {
  int64_t width = 1;
  for (; width * 2 <= count; width *= 2) choose(largest, row, row + width * step, row, n + (count - 2 * width) * step);
  choose(largest, row, row + (count - width) * step, dst, n);
}

template <typename T>
Status morphology_of(const Picture& src, const Picture& dst, const std::vector<uint8_t>& shape, const Window& window,
                     bool largest, Border border, const double* given, ThreadPool& pool) {
  const Extension extension(src, window.x, window.width - 1 - window.x, border);
  const int64_t n = src.row_elements(), channels = src.channels, extended = extension.pixels() * channels;
  std::vector<T> outside(static_cast<size_t>(channels));
  for (size_t c = 0; c < outside.size(); ++c) {
    outside[c] = given != nullptr ? saturated<T>(given[c % 4])
                 : largest        ? std::numeric_limits<T>::lowest()
                                  : std::numeric_limits<T>::max();
  }
  std::vector<int64_t> at_row, at_column;
  for (int64_t k = 0; k < window.width * window.height; ++k) {
    if (shape[static_cast<size_t>(k)] == 0) continue;
    at_row.push_back(k / window.width);
    at_column.push_back(k % window.width * channels);
  }
  const bool is_rectangle = at_row.size() == shape.size();
  // The rows of a window: of rectangles they are passed horizontally before they are kept.
  const int64_t kept = is_rectangle ? n : extended;
  return over_rows(pool, dst.height, rows_per_task(dst, window.height), [&](int64_t begin, int64_t end) {
    std::vector<T> scratch(static_cast<size_t>(extended)), memory(static_cast<size_t>(kept * window.height));
    std::vector<const T*> from(is_rectangle ? static_cast<size_t>(window.height) : at_row.size());
    const auto slot = [&](int64_t v) { return memory.data() + (v + window.height) % window.height * kept; };
    int64_t next = begin - window.y;
    for (int64_t y = begin; y < end; ++y) {
      for (; next < y - window.y + window.height; ++next) {
        if (is_rectangle) {
          extension.fill<T>(next, scratch.data(), outside.data());
          choose_run(largest, scratch.data(), window.width, channels, n, slot(next));
        } else {
          extension.fill<T>(next, slot(next), outside.data());
        }
      }
      const auto row = [&](int64_t k) { return slot(y - window.y + k); };
      for (size_t k = 0; k < from.size(); ++k)
        from[k] = is_rectangle ? row(static_cast<int64_t>(k)) : row(at_row[k]) + at_column[k];
      best_of_rows(largest, from, dst.mutable_row<T>(y), n);
    }
  });
}

}  // namespace

Status morphology(const Picture& src, const Picture& dst, const std::vector<uint8_t>& shape, const Window& window,
                  bool largest, Border border, const double* outside, ThreadPool& pool) {
  if (std::find_if(shape.begin(), shape.end(), [](uint8_t v) { return v != 0; }) == shape.end())
    return fail(Code::kUsage, "the structuring element is empty");
  switch (src.dtype) {
    case DType::kU8:
      return morphology_of<uint8_t>(src, dst, shape, window, largest, border, outside, pool);
    case DType::kU16:
      return morphology_of<uint16_t>(src, dst, shape, window, largest, border, outside, pool);
    case DType::kI16:
      return morphology_of<int16_t>(src, dst, shape, window, largest, border, outside, pool);
    case DType::kF32:
      return morphology_of<float>(src, dst, shape, window, largest, border, outside, pool);
    case DType::kF64:
      return morphology_of<double>(src, dst, shape, window, largest, border, outside, pool);
    default:
      return fail(Code::kUsage, "no morphology of %s", dtype_name(src.dtype));
  }
}

}  // namespace minnow::vision
#endif
