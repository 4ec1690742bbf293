// Weighted sums of neighbors.
#include "kernels/vision/filter.h"

#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::vision::HWY_NAMESPACE {

// dst[i] = sum of weight[k] * rows[k][i]. In blocks that stay in registers or the nearest cache.
template <typename Number>
HWY_INLINE void SumRows(const Number* const* rows, const Number* weight, int64_t taps, Number* dst, int64_t n) {
  constexpr int64_t kBlock = 64;
  int64_t at = 0;
  for (; at + kBlock <= n; at += kBlock) {
    Number sum[kBlock] = {};
    for (int64_t k = 0; k < taps; ++k) {
      const Number w = weight[k];
      const Number* row = rows[k] + at;
      for (int64_t i = 0; i < kBlock; ++i) sum[i] += w * row[i];
    }
    std::copy(sum, sum + kBlock, dst + at);
  }
  for (; at < n; ++at) {
    Number sum = 0;
    for (int64_t k = 0; k < taps; ++k) sum += weight[k] * rows[k][at];
    dst[at] = sum;
  }
}
void SumInts(const int32_t* const* rows, const int32_t* weight, int64_t taps, int32_t* dst, int64_t n) {
  SumRows(rows, weight, taps, dst, n);
}
void SumFloats(const float* const* rows, const float* weight, int64_t taps, float* dst, int64_t n) {
  SumRows(rows, weight, taps, dst, n);
}
void SumDoubles(const double* const* rows, const double* weight, int64_t taps, double* dst, int64_t n) {
  SumRows(rows, weight, taps, dst, n);
}

}  // namespace minnow::vision::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/vision/filter_rows.h"

namespace minnow::vision {

HWY_EXPORT(SumInts);
HWY_EXPORT(SumFloats);
HWY_EXPORT(SumDoubles);

namespace {

void sum_rows(const int32_t* const* rows, const int32_t* weight, int64_t taps, int32_t* dst, int64_t n) {
  HWY_DYNAMIC_DISPATCH(SumInts)(rows, weight, taps, dst, n);
}
void sum_rows(const float* const* rows, const float* weight, int64_t taps, float* dst, int64_t n) {
  HWY_DYNAMIC_DISPATCH(SumFloats)(rows, weight, taps, dst, n);
}
void sum_rows(const double* const* rows, const double* weight, int64_t taps, double* dst, int64_t n) {
  HWY_DYNAMIC_DISPATCH(SumDoubles)(rows, weight, taps, dst, n);
}

// What is added to sums, and their division by a power of 2.
template <typename Number>
void finish_sums(Number* sums, int64_t n, double delta, int bits) {
  if constexpr (std::is_integral_v<Number>) {
    const Number offset = saturated<Number>(delta);
    const Number half = bits > 0 ? Number{1} << (bits - 1) : 0;
    for (int64_t i = 0; i < n; ++i) sums[i] = ((sums[i] + half) >> bits) + offset;
  } else if (delta != 0) {
    for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<Number>(delta);
  }
}

// A window over virtual rows: row v of it is computed once, when it is first needed.
template <typename Number>
class Ring {
 public:
  Ring(int64_t rows, int64_t elements) : rows_(rows), elements_(elements), memory_(size(rows * elements)) {}
  Number* at(int64_t v) {
    int64_t slot = v % rows_;
    if (slot < 0) slot += rows_;
    return memory_.data() + slot * elements_;
  }

 private:
  static size_t size(int64_t n) { return static_cast<size_t>(n); }
  int64_t rows_, elements_;
  std::vector<Number> memory_;
};

template <typename Number>
Status separable(const Picture& src, const Picture& dst, const std::vector<double>& across,
                 const std::vector<double>& down, int64_t anchor_x, int64_t anchor_y, double delta, int bits,
                 Border border, ThreadPool& pool) {
  const std::vector<Number> wx(across.begin(), across.end()), wy(down.begin(), down.end());
  const auto nx = static_cast<int64_t>(wx.size()), ny = static_cast<int64_t>(wy.size());
  const Extension extension(src, anchor_x, nx - 1 - anchor_x, border);
  const int64_t n = src.row_elements(), channels = src.channels;
  const std::vector<Number> outside(static_cast<size_t>(channels), 0);
  return over_rows(pool, dst.height, rows_per_task(dst, ny), [&](int64_t begin, int64_t end) {
    std::vector<Number> extended(static_cast<size_t>(extension.pixels() * channels)), sums(static_cast<size_t>(n));
    std::vector<const Number*> from(static_cast<size_t>(std::max(nx, ny)));
    Ring<Number> ring(ny, n);
    int64_t next = begin - anchor_y;
    for (int64_t y = begin; y < end; ++y) {
      for (; next < y - anchor_y + ny; ++next) {
        fill_any(extension, src.dtype, next, extended.data(), outside.data());
        for (int64_t k = 0; k < nx; ++k) from[static_cast<size_t>(k)] = extended.data() + k * channels;
        sum_rows(from.data(), wx.data(), nx, ring.at(next), n);
      }
      for (int64_t k = 0; k < ny; ++k) from[static_cast<size_t>(k)] = ring.at(y - anchor_y + k);
      sum_rows(from.data(), wy.data(), ny, sums.data(), n);
      finish_sums(sums.data(), n, delta, bits);
      store_any(sums.data(), dst.dtype, dst.mutable_row<void>(y), n);
    }
  });
}

template <typename Number>
Status windowed(const Picture& src, const Picture& dst, const std::vector<double>& weights, const Window& window,
                double delta, Border border, ThreadPool& pool) {
  const Extension extension(src, window.x, window.width - 1 - window.x, border);
  const int64_t n = src.row_elements(), channels = src.channels, extended = extension.pixels() * channels;
  const std::vector<Number> outside(static_cast<size_t>(channels), 0);
  // Only what has a weight.
  std::vector<Number> w;
  std::vector<int64_t> row, column;
  for (int64_t k = 0; k < window.width * window.height; ++k) {
    if (weights[static_cast<size_t>(k)] == 0) continue;
    w.push_back(static_cast<Number>(weights[static_cast<size_t>(k)]));
    row.push_back(k / window.width);
    column.push_back(k % window.width * channels);
  }
  return over_rows(pool, dst.height, rows_per_task(dst, window.height), [&](int64_t begin, int64_t end) {
    std::vector<Number> sums(static_cast<size_t>(n));
    std::vector<const Number*> from(w.size());
    Ring<Number> ring(window.height, extended);
    int64_t next = begin - window.y;
    for (int64_t y = begin; y < end; ++y) {
      for (; next < y - window.y + window.height; ++next)
        fill_any(extension, src.dtype, next, ring.at(next), outside.data());
      for (size_t k = 0; k < w.size(); ++k) from[k] = ring.at(y - window.y + row[k]) + column[k];
      sum_rows(from.data(), w.data(), static_cast<int64_t>(w.size()), sums.data(), n);
      finish_sums(sums.data(), n, delta, 0);
      store_any(sums.data(), dst.dtype, dst.mutable_row<void>(y), n);
    }
  });
}

template <typename Number>
Status box(const Picture& src, const Picture& dst, const Window& window, bool squares, double factor, Border border,
           ThreadPool& pool) {
  const Extension extension(src, window.x, window.width - 1 - window.x, border);
  const int64_t n = src.row_elements(), channels = src.channels;
  const std::vector<Number> outside(static_cast<size_t>(channels), 0);
  // Sums begin anew with each task: it should be long, but the same whatever the number of threads is.
  const int64_t grain = std::max(rows_per_task(dst, window.height), 8 * window.height);
  return over_rows(pool, dst.height, grain, [&](int64_t begin, int64_t end) {
    std::vector<Number> extended(static_cast<size_t>(extension.pixels() * channels)), sums(static_cast<size_t>(n), 0);
    std::vector<double> scaled(static_cast<size_t>(n));
    Ring<Number> ring(window.height, n);
    int64_t next = begin - window.y;
    for (int64_t y = begin; y < end; ++y) {
      if (y > begin) {
        const Number* first = ring.at(y - 1 - window.y);
        for (int64_t i = 0; i < n; ++i) sums[static_cast<size_t>(i)] -= first[i];
      }
      for (; next < y - window.y + window.height; ++next) {
        fill_any(extension, src.dtype, next, extended.data(), outside.data());
        if (squares)
          for (Number& v : extended) v *= v;
        Number* to = ring.at(next);
        for (int64_t c = 0; c < channels; ++c) {
          Number sum = 0;
          for (int64_t k = 0; k < window.width; ++k) sum += extended[static_cast<size_t>(k * channels + c)];
          to[c] = sum;
        }
        const int64_t width = window.width * channels;
        for (int64_t i = channels; i < n; ++i)
          to[i] = to[i - channels] + extended[static_cast<size_t>(i - channels + width)] -
                  extended[static_cast<size_t>(i - channels)];
        for (int64_t i = 0; i < n; ++i) sums[static_cast<size_t>(i)] += to[i];
      }
      for (int64_t i = 0; i < n; ++i)
        scaled[static_cast<size_t>(i)] = static_cast<double>(sums[static_cast<size_t>(i)]) * factor;
      store_any(scaled.data(), dst.dtype, dst.mutable_row<void>(y), n);
    }
  });
}

Status check_types(const Picture& src, const Picture& dst) {
  if (!is_picture_type(src.dtype) || !is_picture_type(dst.dtype))
    return fail(Code::kUsage, "no filter takes %s to %s", dtype_name(src.dtype), dtype_name(dst.dtype));
  if (src.width != dst.width || src.height != dst.height || src.channels != dst.channels)
    return fail(Code::kInternal, "pictures of different sizes");
  return ok();
}

bool is_double(const Picture& a, const Picture& b) { return a.dtype == DType::kF64 || b.dtype == DType::kF64; }

}  // namespace

Status filter_separable(const Picture& src, const Picture& dst, const std::vector<double>& across,
                        const std::vector<double>& down, int64_t anchor_x, int64_t anchor_y, double delta, int bits,
                        Border border, ThreadPool& pool) {
  MINNOW_RETURN_IF_ERROR(check_types(src, dst));
  const auto run = is_double(src, dst) ? separable<double> : bits >= 0 ? separable<int32_t> : separable<float>;
  return run(src, dst, across, down, anchor_x, anchor_y, delta, bits, border, pool);
}

Status filter_window(const Picture& src, const Picture& dst, const std::vector<double>& weights, const Window& window,
                     double delta, Border border, ThreadPool& pool) {
  MINNOW_RETURN_IF_ERROR(check_types(src, dst));
  return (is_double(src, dst) ? windowed<double> : windowed<float>)(src, dst, weights, window, delta, border, pool);
}

Status filter_box(const Picture& src, const Picture& dst, const Window& window, bool squares, double factor,
                  Border border, ThreadPool& pool) {
  MINNOW_RETURN_IF_ERROR(check_types(src, dst));
  const bool whole = src.dtype == DType::kU8 && !squares && window.width * window.height < (1 << 23);
  return (whole ? box<int32_t> : box<double>)(src, dst, window, squares, factor, border, pool);
}

}  // namespace minnow::vision
#endif
