// The largest and the smallest of neighbors.
#include <vector>

#include "kernels/vision/filter.h"

#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::vision::HWY_NAMESPACE {

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
      T* to = dst.mutable_row<T>(y);
      const auto row = [&](int64_t k) { return slot(y - window.y + k); };
      if (is_rectangle) {
        std::copy(row(0), row(0) + n, to);
        for (int64_t k = 1; k < window.height; ++k) choose(largest, to, row(k), to, n);
        continue;
      }
      const T* first = row(at_row[0]) + at_column[0];
      std::copy(first, first + n, to);
      for (size_t k = 1; k < at_row.size(); ++k) choose(largest, to, row(at_row[k]) + at_column[k], to, n);
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
