// Pictures of half and of twice the size, blurred: u8 and f32.
#include <cstring>

#include "kernels/vision/filter.h"
#include "kernels/vision/filter_rows.h"
#include "kernels/vision/row_sum.h"

namespace minnow::vision {
namespace {

// The pixels at even places of a row, and those at odd ones.
template <typename N>
void split_pixels(const N* row, int64_t pixels, int64_t channels, N* even, N* odd) {
  const auto split = [&](int64_t width) {
    int64_t x = 0;
    for (; x + 2 <= pixels; x += 2, row += 2 * width, even += width, odd += width) {
      std::memcpy(even, row, static_cast<size_t>(width) * sizeof(N));
      std::memcpy(odd, row + width, static_cast<size_t>(width) * sizeof(N));
    }
    if (x < pixels) std::memcpy(even, row, static_cast<size_t>(width) * sizeof(N));
  };
  channels == 1 ? split(1) : channels == 3 ? split(3) : channels == 4 ? split(4) : split(channels);
}

// The reverse, of `pixels` pixels.
template <typename T>
void join_pixels(const T* even, const T* odd, int64_t pixels, int64_t channels, T* row) {
  const auto join = [&](int64_t width) {
    int64_t x = 0;
    for (; x + 2 <= pixels; x += 2, row += 2 * width, even += width, odd += width) {
      std::memcpy(row, even, static_cast<size_t>(width) * sizeof(T));
      std::memcpy(row + width, odd, static_cast<size_t>(width) * sizeof(T));
    }
    if (x < pixels) std::memcpy(row, even, static_cast<size_t>(width) * sizeof(T));
  };
  channels == 1 ? join(1) : channels == 3 ? join(3) : channels == 4 ? join(4) : join(channels);
}

// Sums of bytes fit 16 bits. `kShare`: what floats are multiplied by, twice.
template <typename N>
void finish_pyramid(const uint16_t* sums, int bits, N*, uint8_t* to, int64_t n) {
  narrow_row(sums, bits, to, n);
}
void finish_pyramid(const float* sums, int, float*, float* to, int64_t n) {
  std::memcpy(to, sums, static_cast<size_t>(n) * sizeof(float));
}

template <typename T, typename N>
Status halve(const Picture& src, const Picture& dst, Border border, ThreadPool& pool) {
  const N share = std::is_same_v<N, float> ? static_cast<N>(1.0f / 16) : N{1};
  const N weight[5] = {share, static_cast<N>(4 * share), static_cast<N>(6 * share), static_cast<N>(4 * share), share};
  const int64_t channels = src.channels, taken = dst.width * 2 + 3;  // pixels of an extended row
  const Extension extension(src, 2, std::max<int64_t>(0, taken - 2 - src.width), border);
  const int64_t n = taken * channels, m = dst.row_elements();
  const std::vector<T> outside(static_cast<size_t>(channels), 0);
  return over_rows(
      pool, dst.height, std::max<int64_t>(8, dst.height / (4 * pool.threads())), [&](int64_t begin, int64_t end) {
        const auto size = [](int64_t count) { return static_cast<size_t>(count); };
        std::vector<T> ring(size(5 * extension.pixels() * channels));
        const auto slot = [&](int64_t v) { return ring.data() + (v + 5) % 5 * extension.pixels() * channels; };
        std::vector<N> down(size(n)), even(size(n + channels)), odd(size(n + channels)), sums(size(m));
        int64_t next = 2 * begin - 2;
        for (int64_t y = begin; y < end; ++y) {
          for (; next <= 2 * y + 2; ++next) extension.fill<T>(next, slot(next), outside.data());
          const T* rows[5];
          for (int64_t k = 0; k < 5; ++k) rows[k] = slot(2 * y - 2 + k);
          sum_rows(rows, weight, 5, down.data(), n);
          split_pixels(down.data(), taken, channels, even.data(), odd.data());
          const N* across[5] = {even.data(), odd.data(), even.data() + channels, odd.data() + channels,
                                even.data() + 2 * channels};
          sum_rows(across, weight, 5, sums.data(), m);
          finish_pyramid(sums.data(), 8, sums.data(), dst.mutable_row<T>(y), m);
        }
      });
}

// Each pixel and each place between two. Behind the last pixel, the last again; before the first, the second.
template <typename T, typename N>
Status twice(const Picture& src, const Picture& dst, ThreadPool& pool) {
  const N share = std::is_same_v<N, float> ? static_cast<N>(1.0f / 8) : N{1};
  const N at_pixel[3] = {share, static_cast<N>(6 * share), share};
  const N between[2] = {static_cast<N>(4 * share), static_cast<N>(4 * share)};
  const int64_t channels = src.channels, n = (src.width + 2) * channels, m = src.row_elements();
  const int64_t last_row = src.height - 1;
  const auto row_at = [&](int64_t y) { return y < 0 ? std::min<int64_t>(1, last_row) : std::min(y, last_row); };
  return over_rows(pool, (dst.height + 1) / 2, std::max<int64_t>(4, src.height / (4 * pool.threads())),
                   [&](int64_t begin, int64_t end) {
                     const auto size = [](int64_t count) { return static_cast<size_t>(count); };
                     std::vector<N> down(size(n)), sums(size(m));
                     std::vector<T> even(size(m + channels)), odd(size(m + channels));
                     const auto write = [&](const T* const* rows, const N* weight, int64_t taps, int64_t y) {
                       N* inner = down.data() + channels;
                       sum_rows(rows, weight, taps, inner, m);
                       const int64_t second = std::min<int64_t>(1, src.width - 1);
                       std::copy(inner + second * channels, inner + (second + 1) * channels, down.data());
                       std::copy(inner + m - channels, inner + m, inner + m);
                       const N* across[3] = {down.data(), inner, inner + channels};
                       sum_rows(across, at_pixel, 3, sums.data(), m);
                       finish_pyramid(sums.data(), 6, sums.data(), even.data(), m);
                       sum_rows(across + 1, between, 2, sums.data(), m);
                       finish_pyramid(sums.data(), 6, sums.data(), odd.data(), m);
                       T* to = dst.mutable_row<T>(y);
                       join_pixels(even.data(), odd.data(), std::min(dst.width, 2 * src.width), channels, to);
                       if (dst.width > 2 * src.width)  // one more of what is last
                         std::copy(to + (dst.width - 2) * channels, to + (dst.width - 1) * channels,
                                   to + (dst.width - 1) * channels);
                     };
                     for (int64_t y = begin; y < end; ++y) {
                       if (y > last_row) {  // one more of what is last
                         const T* last[2] = {src.row<T>(last_row), src.row<T>(last_row)};
                         write(last, between, 2, 2 * y);
                         continue;
                       }
                       const T* rows[3] = {src.row<T>(row_at(y - 1)), src.row<T>(y), src.row<T>(row_at(y + 1))};
                       write(rows, at_pixel, 3, 2 * y);
                       if (2 * y + 1 < dst.height) write(rows + 1, between, 2, 2 * y + 1);
                     }
                   });
}

}  // namespace

Status halve_picture(const Picture& src, const Picture& dst, Border border, ThreadPool& pool) {
  if (src.dtype == DType::kU8) return halve<uint8_t, uint16_t>(src, dst, border, pool);
  if (src.dtype == DType::kF32) return halve<float, float>(src, dst, border, pool);
  return fail(Code::kInternal, "no pyramid of %s", dtype_name(src.dtype));
}

Status double_picture(const Picture& src, const Picture& dst, ThreadPool& pool) {
  if (src.dtype == DType::kU8) return twice<uint8_t, uint16_t>(src, dst, pool);
  if (src.dtype == DType::kF32) return twice<float, float>(src, dst, pool);
  return fail(Code::kInternal, "no pyramid of %s", dtype_name(src.dtype));
}

}  // namespace minnow::vision
