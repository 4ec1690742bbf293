// Weighted sums of neighbors.
#include "kernels/vision/filter.h"

#include <cmath>
#include <optional>

#include "kernels/vision/filter_rows.h"
#include "kernels/vision/row_sum.h"

namespace minnow::vision {
namespace {

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
  Ring(int64_t rows, int64_t elements)
      : rows_(rows), elements_((elements + kLine - 1) / kLine * kLine), memory_(size(rows * elements_ + kLine)) {
    const auto begin = reinterpret_cast<uintptr_t>(memory_.data());
    first_ = memory_.data() + (64 - begin % 64) % 64 / sizeof(Number);
  }
  Number* at(int64_t v) {
    int64_t slot = v % rows_;
    if (slot < 0) slot += rows_;
    return first_ + slot * elements_;
  }

 private:
  static constexpr int64_t kLine = 64 / sizeof(Number);  // rows begin with a line of the cache
  static size_t size(int64_t n) { return static_cast<size_t>(n); }
  int64_t rows_, elements_;
  std::vector<Number> memory_;
  Number* first_;
};

// Rows of a task: more than one task for each thread, but each begins with the rows of a window.
int64_t rows_of_task(const Picture& dst, int64_t window_height, const ThreadPool& pool) {
  return std::max(rows_per_task(dst, window_height), dst.height / (4 * pool.threads()));
}

// Sums of bytes with whole weights that fit 16 bits: most filters of photos.
struct ShortWeights {
  std::vector<uint16_t> across, down;
  int bits = -1;      // unsigned: rounded and divided by a power of 2; below 0: signed
  bool wide = false;  // what is summed over rows takes 32 bits
};

// The sums of the positive and the negative weights. False where one is no small whole number.
bool whole_sums(const std::vector<double>& weights, double* plus, double* minus) {
  *plus = *minus = 0;
  for (const double w : weights) {
    if (w != std::floor(w) || std::fabs(w) > 32767) return false;
    (w > 0 ? *plus : *minus) += std::fabs(w);
  }
  return true;
}

// Divides weights by 2 while that leaves whole numbers.
int halved(std::vector<double>* weights, int bits) {
  for (; bits > 0; --bits) {
    if (std::any_of(weights->begin(), weights->end(), [](double w) { return std::fmod(w, 2) != 0; })) return bits;
    for (double& w : *weights) w /= 2;
  }
  return bits;
}

bool short_weights(const Picture& src, const Picture& dst, std::vector<double> across, std::vector<double> down,
                   double delta, int bits, ShortWeights* found) {
  const bool fits = src.dtype == DType::kU8 && delta == 0 &&
                    (dst.dtype == DType::kU8 || (bits < 0 && (dst.dtype == DType::kI16 || dst.dtype == DType::kF32)));
  double plus_x, minus_x, plus_y, minus_y;
  if (!fits || !whole_sums(across, &plus_x, &minus_x) || !whole_sums(down, &plus_y, &minus_y)) return false;
  if (bits < 0) {
    if (255 * std::max(plus_x * plus_y + minus_x * minus_y, plus_x * minus_y + minus_x * plus_y) > 32767) return false;
  } else {
    if (minus_x + minus_y > 0 || plus_x * plus_y > std::ldexp(1, bits)) return false;
    bits = halved(&down, halved(&across, bits));
    whole_sums(across, &plus_x, &minus_x);
    whole_sums(down, &plus_y, &minus_y);
    found->wide = 255 * plus_x * plus_y + (bits > 0 ? std::ldexp(1, bits - 1) : 0) > 65535;
    if (found->wide && (255 * plus_x > 65535 || plus_y > 32767)) return false;
  }
  found->bits = bits;
  for (const double w : across) found->across.push_back(static_cast<uint16_t>(static_cast<int>(w)));
  for (const double w : down) found->down.push_back(static_cast<uint16_t>(static_cast<int>(w)));
  return true;
}

// Where a row of sums goes: those that can go to the result itself are written there.
class ShortResult {
 public:
  ShortResult(const Picture& dst, int bits)
      : dst_(dst), bits_(bits), sums_(dst.dtype == DType::kI16 ? 0 : static_cast<size_t>(dst.row_elements())) {}
  uint16_t* row(int64_t y) { return sums_.empty() ? dst_.mutable_row<uint16_t>(y) : sums_.data(); }
  void done(int64_t y) {
    if (sums_.empty()) return;
    if (bits_ >= 0) {
      narrow_row(sums_.data(), bits_, dst_.mutable_row<uint8_t>(y), dst_.row_elements());
    } else {
      convert_row(reinterpret_cast<const int16_t*>(sums_.data()), dst_.dtype, dst_.mutable_row<void>(y),
                  dst_.row_elements());
    }
  }

 private:
  const Picture& dst_;
  int bits_;
  std::vector<uint16_t> sums_;
};

Status separable_shorts(const Picture& src, const Picture& dst, const ShortWeights& w, int64_t anchor_x,
                        int64_t anchor_y, Border border, ThreadPool& pool) {
  const auto nx = static_cast<int64_t>(w.across.size()), ny = static_cast<int64_t>(w.down.size());
  const Extension extension(src, anchor_x, nx - 1 - anchor_x, border);
  const int64_t n = src.row_elements(), channels = src.channels;
  const std::vector<uint8_t> outside(static_cast<size_t>(channels), 0);
  // Only what has a weight.
  std::vector<uint16_t> wx, wy;
  std::vector<int64_t> column, line;
  for (int64_t k = 0; k < nx; ++k)
    if (w.across[static_cast<size_t>(k)] != 0) column.push_back(k), wx.push_back(w.across[static_cast<size_t>(k)]);
  for (int64_t k = 0; k < ny; ++k)
    if (w.down[static_cast<size_t>(k)] != 0) line.push_back(k), wy.push_back(w.down[static_cast<size_t>(k)]);
  return over_rows(pool, dst.height, rows_of_task(dst, ny, pool), [&](int64_t begin, int64_t end) {
    std::vector<uint8_t> extended(static_cast<size_t>(extension.pixels() * channels));
    std::vector<const uint8_t*> bytes(column.size());
    std::vector<const uint16_t*> rows(line.size());
    for (size_t k = 0; k < column.size(); ++k) bytes[k] = extended.data() + column[k] * channels;
    Ring<uint16_t> ring(ny, n);
    ShortResult result(dst, w.bits);
    int64_t next = begin - anchor_y;
    for (int64_t y = begin; y < end; ++y) {
      for (; next < y - anchor_y + ny; ++next) {
        extension.fill<uint8_t>(next, extended.data(), outside.data());
        sum_rows(bytes.data(), wx.data(), static_cast<int64_t>(wx.size()), ring.at(next), n);
      }
      for (size_t k = 0; k < line.size(); ++k) rows[k] = ring.at(y - anchor_y + line[k]);
      if (w.wide) {
        mean_of_rows(rows.data(), wy.data(), static_cast<int64_t>(wy.size()), w.bits, dst.mutable_row<uint8_t>(y), n);
        continue;
      }
      sum_rows(rows.data(), wy.data(), static_cast<int64_t>(wy.size()), result.row(y), n);
      result.done(y);
    }
  });
}

template <typename Number>
Status separable(const Picture& src, const Picture& dst, const std::vector<double>& across,
                 const std::vector<double>& down, int64_t anchor_x, int64_t anchor_y, double delta, int bits,
                 Border border, ThreadPool& pool) {
  const std::vector<Number> wx(across.begin(), across.end()), wy(down.begin(), down.end());
  const auto nx = static_cast<int64_t>(wx.size()), ny = static_cast<int64_t>(wy.size());
  const Extension extension(src, anchor_x, nx - 1 - anchor_x, border);
  const int64_t n = src.row_elements(), channels = src.channels;
  const std::vector<Number> outside(static_cast<size_t>(channels), 0);
  return over_rows(pool, dst.height, rows_of_task(dst, ny, pool), [&](int64_t begin, int64_t end) {
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
  return over_rows(pool, dst.height, rows_of_task(dst, window.height, pool), [&](int64_t begin, int64_t end) {
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

// The same with whole weights whose sums of bytes fit 16 bits.
Status windowed_shorts(const Picture& src, const Picture& dst, const std::vector<double>& weights, const Window& window,
                       Border border, ThreadPool& pool) {
  const Extension extension(src, window.x, window.width - 1 - window.x, border);
  const int64_t n = src.row_elements(), channels = src.channels, extended = extension.pixels() * channels;
  const std::vector<uint8_t> outside(static_cast<size_t>(channels), 0);
  std::vector<uint16_t> w;
  std::vector<int64_t> row, column;
  for (int64_t k = 0; k < window.width * window.height; ++k) {
    if (weights[static_cast<size_t>(k)] == 0) continue;
    w.push_back(static_cast<uint16_t>(static_cast<int>(weights[static_cast<size_t>(k)])));
    row.push_back(k / window.width);
    column.push_back(k % window.width * channels);
  }
  return over_rows(pool, dst.height, rows_of_task(dst, window.height, pool), [&](int64_t begin, int64_t end) {
    std::vector<const uint8_t*> from(w.size());
    Ring<uint8_t> ring(window.height, extended);
    ShortResult result(dst, -1);
    int64_t next = begin - window.y;
    for (int64_t y = begin; y < end; ++y) {
      for (; next < y - window.y + window.height; ++next) extension.fill<uint8_t>(next, ring.at(next), outside.data());
      for (size_t k = 0; k < w.size(); ++k) from[k] = ring.at(y - window.y + row[k]) + column[k];
      sum_rows(from.data(), w.data(), static_cast<int64_t>(w.size()), result.row(y), n);
      result.done(y);
    }
  });
}

// The sum of each window of a row, of `width` pixels: a few rows added, or what comes in and goes out.
template <typename Number, typename T>
void sums_across(const T* extended, int64_t width, int64_t channels, Number* to, int64_t n) {
  if constexpr (std::is_same_v<Number, uint16_t>) {
    constexpr int64_t kFew = 16;
    if (width <= kFew) {
      const uint8_t* from[kFew];
      uint16_t ones[kFew];
      for (int64_t k = 0; k < width; ++k) from[k] = extended + k * channels, ones[k] = 1;
      return sum_rows(from, ones, width, to, n);
    }
  }
  for (int64_t c = 0; c < channels; ++c) {
    Number sum = 0;
    for (int64_t k = 0; k < width; ++k) sum = static_cast<Number>(sum + extended[k * channels + c]);
    to[c] = sum;
  }
  const T *in = extended + (width - 1) * channels, *out = extended - channels;
  for (int64_t i = channels; i < n; ++i) to[i] = static_cast<Number>(to[i - channels] + in[i] - out[i]);
}

// For quotients of sums of `area` bytes, with halves rounded up; none where 16 bits are not enough for that.
std::optional<Quotient> quotient_by(int64_t area) {
  const auto below = static_cast<uint16_t>((1 << 16) / area);
  for (const bool up : {true, false}) {
    const Quotient q{static_cast<uint16_t>(area / 2 + (up ? 0 : 1)), static_cast<uint16_t>(below + (up ? 1 : 0))};
    const auto of = [&](int64_t sum) { return (sum + q.offset) * q.factor >> 16; };
    bool is_exact = true;
    for (int64_t k = 1; k <= 255; ++k) {
      const int64_t first = k * area - area / 2;  // of the sums with this quotient
      is_exact = is_exact && of(first - 1) == k - 1 && of(first) == k;
    }
    if (is_exact) return q;
  }
  return std::nullopt;
}

// T: of the extended rows.
template <typename Number, typename T>
Status box(const Picture& src, const Picture& dst, const Window& window, bool squares, double factor, Border border,
           ThreadPool& pool) {
  const Extension extension(src, window.x, window.width - 1 - window.x, border);
  const int64_t n = src.row_elements(), channels = src.channels;
  const std::vector<T> outside(static_cast<size_t>(channels), 0);
  // Sums of floats begin anew with each task: it should be long, but the same whatever the number of threads is.
  const int64_t grain = std::is_integral_v<Number> ? std::max(rows_of_task(dst, window.height, pool), 2 * window.height)
                                                   : std::max(rows_per_task(dst, window.height), 8 * window.height);
  const int64_t area = window.width * window.height;
  std::optional<Quotient> quotient;
  if (std::is_same_v<Number, uint16_t> && dst.dtype == DType::kU8 && area >= 2 && area <= 256 &&
      factor == 1 / static_cast<double>(area))
    quotient = quotient_by(area);
  return over_rows(pool, dst.height, grain, [&](int64_t begin, int64_t end) {
    std::vector<T> extended(static_cast<size_t>(extension.pixels() * channels));
    std::vector<Number> sums(static_cast<size_t>(n), 0);
    const std::vector<Number> zeros(static_cast<size_t>(n), 0);
    std::vector<double> scaled(std::is_integral_v<Number> ? 0 : static_cast<size_t>(n));
    Ring<Number> ring(window.height + 1, n);
    int64_t next = begin - window.y;
    for (int64_t y = begin; y < end; ++y) {
      for (; next < y - window.y + window.height; ++next) {
        fill_any(extension, src.dtype, next, extended.data(), outside.data());
        if (squares)
          for (T& v : extended) v = static_cast<T>(v * v);
        Number* to = ring.at(next);
        sums_across(extended.data(), window.width, channels, to, n);
        // What leaves the window goes with what comes in.
        const bool leaves = y > begin;
        const Number* first = leaves ? ring.at(y - 1 - window.y) : zeros.data();
        if constexpr (std::is_same_v<Number, uint16_t>) {
          if (quotient && next == y - window.y + window.height - 1) {
            slide_means(to, first, sums.data(), *quotient, dst.mutable_row<uint8_t>(y), n);
            continue;
          }
        }
        if constexpr (std::is_integral_v<Number>) {
          slide_rows(to, first, sums.data(), n);
        } else {
          for (int64_t i = 0; i < n; ++i) {
            if (leaves) sums[static_cast<size_t>(i)] -= first[i];
            sums[static_cast<size_t>(i)] += to[i];
          }
        }
      }
      if (quotient) continue;
      if constexpr (std::is_integral_v<Number>) {
        scale_row(sums.data(), static_cast<float>(factor), dst.dtype, dst.mutable_row<void>(y), n);
      } else {
        for (int64_t i = 0; i < n; ++i)
          scaled[static_cast<size_t>(i)] = static_cast<double>(sums[static_cast<size_t>(i)]) * factor;
        store_any(scaled.data(), dst.dtype, dst.mutable_row<void>(y), n);
      }
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
  ShortWeights shorts;
  if (short_weights(src, dst, across, down, delta, bits, &shorts))
    return separable_shorts(src, dst, shorts, anchor_x, anchor_y, border, pool);
  const auto run = is_double(src, dst) ? separable<double> : bits >= 0 ? separable<int32_t> : separable<float>;
  return run(src, dst, across, down, anchor_x, anchor_y, delta, bits, border, pool);
}

Status filter_window(const Picture& src, const Picture& dst, const std::vector<double>& weights, const Window& window,
                     double delta, Border border, ThreadPool& pool) {
  MINNOW_RETURN_IF_ERROR(check_types(src, dst));
  ShortWeights shorts;
  if (short_weights(src, dst, weights, {1.0}, delta, -1, &shorts))
    return windowed_shorts(src, dst, weights, window, border, pool);
  return (is_double(src, dst) ? windowed<double> : windowed<float>)(src, dst, weights, window, delta, border, pool);
}

Status filter_box(const Picture& src, const Picture& dst, const Window& window, bool squares, double factor,
                  Border border, ThreadPool& pool) {
  MINNOW_RETURN_IF_ERROR(check_types(src, dst));
  const int64_t area = window.width * window.height;
  const bool whole = src.dtype == DType::kU8 && !squares && dst.dtype != DType::kF64 && area < (1 << 16);
  const auto run = !whole ? box<double, double> : 255 * area <= 65535 ? box<uint16_t, uint8_t> : box<int32_t, uint8_t>;
  return run(src, dst, window, squares, factor, border, pool);
}

}  // namespace minnow::vision
