// Rows of pictures as numbers to compute with, continued beyond their edges.
#pragma once

#include <cstring>
#include <vector>

#include "kernels/vision/picture.h"
#include "kernels/vision/row_sum.h"

namespace minnow::vision {

// Elements as numbers to compute with.
template <typename T, typename Number>
void to_numbers(const T* from, Number* to, int64_t n) {
  constexpr bool kSmall = sizeof(T) < 4;
  if constexpr (std::is_same_v<T, Number>) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
  } else if constexpr (kSmall && (std::is_same_v<Number, float> ||
                                  (std::is_same_v<T, uint8_t> && std::is_same_v<Number, int32_t>))) {
    widen_row(from, to, n);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<Number>(from[i]);
  }
}

// Where the elements of an extended row come from: `before` pixels, the row, `after` pixels.
class Extension {
 public:
  Extension(const Picture& src, int64_t before, int64_t after, Border border)
      : src_(src), before_(before), after_(after), border_(border) {
    for (int64_t i = 0; i < before + after; ++i) {
      const int64_t x = i < before ? i - before : src.width + i - before;
      edge_.push_back(border_index(x, src.width, border));
    }
  }
  int64_t pixels() const { return before_ + src_.width + after_; }

  // Row y, which may lie outside, as numbers.
  template <typename T, typename Number>
  void fill(int64_t y, Number* to, const Number* outside) const {
    const int64_t n = src_.channels, row = border_index(y, src_.height, border_);
    if (row < 0) {
      for (int64_t i = 0; i < pixels() * n; ++i) to[i] = outside[i % n];
      return;
    }
    const T* from = src_.row<T>(row);
    Number* inner = to + before_ * n;
    to_numbers(from, inner, src_.width * n);
    for (int64_t i = 0; i < before_ + after_; ++i) {
      Number* pixel = to + (i < before_ ? i : i + src_.width) * n;
      const int64_t x = edge_[static_cast<size_t>(i)];
      for (int64_t c = 0; c < n; ++c) pixel[c] = x < 0 ? outside[c] : static_cast<Number>(from[x * n + c]);
    }
  }

 private:
  const Picture& src_;
  int64_t before_, after_;
  Border border_;
  std::vector<int64_t> edge_;
};

// The same for any type of elements; bytes stay bytes.
inline void fill_any(const Extension& extension, DType, int64_t y, uint8_t* to, const uint8_t* outside) {
  extension.fill<uint8_t>(y, to, outside);
}
template <typename Number>
void fill_any(const Extension& extension, DType dtype, int64_t y, Number* to, const Number* outside) {
  switch (dtype) {
    case DType::kU8:
      return extension.fill<uint8_t>(y, to, outside);
    case DType::kU16:
      return extension.fill<uint16_t>(y, to, outside);
    case DType::kI16:
      return extension.fill<int16_t>(y, to, outside);
    case DType::kF32:
      return extension.fill<float>(y, to, outside);
    default:
      return extension.fill<double>(y, to, outside);
  }
}

template <typename T, typename Number>
void store_as(const Number* from, void* to, int64_t n) {
  T* out = static_cast<T*>(to);
  if constexpr (std::is_same_v<Number, float> && std::is_same_v<T, float>) {
    std::memcpy(out, from, static_cast<size_t>(n) * sizeof(T));
  } else if constexpr (std::is_same_v<Number, float> && sizeof(T) < 4) {
    round_row(from, out, n);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = saturated<T>(from[i]);
  }
}
template <typename Number>
void store_any(const Number* from, DType dtype, void* to, int64_t n) {
  switch (dtype) {
    case DType::kU8:
      return store_as<uint8_t>(from, to, n);
    case DType::kU16:
      return store_as<uint16_t>(from, to, n);
    case DType::kI16:
      return store_as<int16_t>(from, to, n);
    case DType::kF32:
      return store_as<float>(from, to, n);
    default:
      return store_as<double>(from, to, n);
  }
}

inline bool is_picture_type(DType t) {
  return t == DType::kU8 || t == DType::kU16 || t == DType::kI16 || t == DType::kF32 || t == DType::kF64;
}

inline int64_t rows_per_task(const Picture& dst, int64_t window_height) {
  const int64_t pixels = std::max<int64_t>(1, (1 << 13) / std::max<int64_t>(1, dst.width));
  return std::max({int64_t{8}, pixels, 2 * window_height});  // each begins with the rows of a window
}

}  // namespace minnow::vision
