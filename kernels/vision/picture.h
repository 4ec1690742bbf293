// Pictures in memory, and what lies beyond their edges.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <new>
#include <type_traits>

#include "kernels/core/dtype.h"
#include "kernels/core/status.h"
#include "kernels/core/thread_pool.h"

namespace minnow::vision {

// A view of rows of pixels; the channels of a pixel stand side by side.
struct Picture {
  void* data = nullptr;
  DType dtype = DType::kU8;
  int64_t height = 0, width = 0, channels = 1;
  int64_t stride = 0;  // bytes from one row to the next

  template <typename T>
  const T* row(int64_t y) const {
    return reinterpret_cast<const T*>(static_cast<const char*>(data) + y * stride);
  }
  template <typename T>
  T* mutable_row(int64_t y) const {
    return reinterpret_cast<T*>(static_cast<char*>(data) + y * stride);
  }
  int64_t pixel_bytes() const { return channels * static_cast<int64_t>(dtype_size(dtype)); }
  int64_t row_elements() const { return width * channels; }
};

constexpr int kMostChannels = 512;

// As OpenCV numbers them.
enum class Border { kConstant = 0, kReplicate = 1, kReflect = 2, kWrap = 3, kReflect101 = 4 };

// The index in [0, n) whose element stands at p; -1 for a constant.
inline int64_t border_index(int64_t p, int64_t n, Border border) {
  if (p >= 0 && p < n) return p;
  switch (border) {
    case Border::kReplicate:
      return p < 0 ? 0 : n - 1;
    case Border::kReflect:
    case Border::kReflect101: {
      if (n == 1) return 0;
      const int64_t delta = border == Border::kReflect101 ? 1 : 0;
      const int64_t period = 2 * (n - delta);
      int64_t q = p % period;
      if (q < 0) q += period;
      return q < n ? q : period - q - 1 + delta;
    }
    case Border::kWrap: {
      const int64_t q = p % n;
      return q < 0 ? q + n : q;
    }
    default:
      return -1;
  }
}

// Numbers to an element type as OpenCV does it: to the nearest, ties to even, and to the limits of the type.
template <typename T>
inline T saturated(double v) {
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(v);
  constexpr double kLow = static_cast<double>(std::numeric_limits<T>::min());
  constexpr double kHigh = static_cast<double>(std::numeric_limits<T>::max());
  v = v > kLow ? v : kLow;
  v = v < kHigh ? v : kHigh;
  return static_cast<T>(__builtin_lrint(v));
}
template <typename T>
inline T saturated(float v) {
  if constexpr (std::is_same_v<T, int32_t>) return saturated<T>(static_cast<double>(v));
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(v);
  constexpr float kLow = static_cast<float>(std::numeric_limits<T>::min());
  constexpr float kHigh = static_cast<float>(std::numeric_limits<T>::max());
  v = v > kLow ? v : kLow;  // NaN, too
  v = v < kHigh ? v : kHigh;
#ifdef __clang__  // which has no __builtin_irintf
  return static_cast<T>(__builtin_lrintf(v));
#else
  return static_cast<T>(__builtin_irintf(v));  // an instruction; rintf may be a call
#endif
}
template <typename T>
inline T saturated(int32_t v) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(v);
  } else {
    constexpr int32_t kLow = std::numeric_limits<T>::min(), kHigh = std::numeric_limits<T>::max();
    return static_cast<T>(v < kLow ? kLow : v > kHigh ? kHigh : v);
  }
}

// Rows of a task: enough to be worth a thread.
inline int64_t rows_for_thread(const Picture& p) {
  constexpr int64_t kBytes = 1 << 16;
  return std::max<int64_t>(1, kBytes / std::max<int64_t>(1, p.width * p.pixel_bytes()));
}

// Calls pixel(x) for pixels of a size that the compiler knows, where it is a usual one.
template <typename Body>
void for_pixel_size(int64_t bytes, Body body) {
  switch (bytes) {
    case 1:
      return body(std::integral_constant<int64_t, 1>());
    case 2:
      return body(std::integral_constant<int64_t, 2>());
    case 3:
      return body(std::integral_constant<int64_t, 3>());
    case 4:
      return body(std::integral_constant<int64_t, 4>());
    case 8:
      return body(std::integral_constant<int64_t, 8>());
    case 12:
      return body(std::integral_constant<int64_t, 12>());
    default:
      return body(bytes);
  }
}

// Calls body(begin, end) for ranges of rows, by the threads of the pool. The body may run out of memory.
template <typename Body>
Status over_rows(ThreadPool& pool, int64_t rows, int64_t grain, Body body) {
  std::atomic<bool> failed{false};
  pool.parallel_for(rows, grain, [&](int64_t begin, int64_t end, int) noexcept {
    try {
      body(begin, end);
    } catch (const std::bad_alloc&) {
      failed.store(true, std::memory_order_relaxed);
    }
  });
  return failed ? fail(Code::kUnsupported, "not enough memory") : ok();
}

}  // namespace minnow::vision
