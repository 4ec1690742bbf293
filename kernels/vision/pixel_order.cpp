// Pixels, and their channels, in another order.
#include <cstring>

#include "kernels/vision/pixel.h"

#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::vision::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Highway reverses pairs of bytes.
template <class D, class V>
HWY_INLINE V Reversed(D d, V v) {
  const hn::RepartitionToWide<D> pairs;
  const auto p = hn::BitCast(pairs, v);
  return hn::BitCast(d, hn::Reverse(pairs, hn::Or(hn::ShiftLeft<8>(p), hn::ShiftRight<8>(p))));
}

void MirrorBytes(const uint8_t* src, uint8_t* dst, int64_t n) {
  const hn::ScalableTag<uint8_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(Reversed(d, hn::LoadU(d, src + n - i - lanes)), d, dst + i);
  for (; i < n; ++i) dst[i] = src[n - 1 - i];
}
void MirrorThrees(const uint8_t* src, uint8_t* dst, int64_t n) {
  const hn::ScalableTag<uint8_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> a, b, c;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::LoadInterleaved3(d, src + 3 * (n - i - lanes), a, b, c);
    hn::StoreInterleaved3(Reversed(d, a), Reversed(d, b), Reversed(d, c), d, dst + 3 * i);
  }
  for (; i < n; ++i) std::memcpy(dst + 3 * i, src + 3 * (n - 1 - i), 3);
}

// Squares of pixels of 1, 3 or 4 bytes, one beside the other in the result: pixel k of row j is pixel j of row k of the
// source, whose rows are `step` bytes apart. Of pixels of 3 bytes, 4 more are read and written in each row.
template <int kPixel>
HWY_INLINE void TurnSquares(const uint8_t* src, int64_t step, uint8_t* dst, int64_t dst_step, int64_t count) {
  using T = std::conditional_t<kPixel == 1, uint8_t, uint32_t>;
  constexpr int kSide = 16 / sizeof(T), kHalf = kSide / 2;
  const hn::FixedTag<uint8_t, 16> bytes;
  const hn::FixedTag<T, kSide> d;
  alignas(16) static constexpr uint8_t kSpread[16] = {0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 8, 9, 10, 11, 11};
  alignas(16) static constexpr uint8_t kPack[16] = {0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 15, 15, 15, 15};
  const auto spread = hn::Load(bytes, kSpread), pack = hn::Load(bytes, kPack);
  for (int64_t i = 0; i < count; ++i, src += kSide * step, dst += kSide * kPixel) {
    hn::Vec<decltype(d)> v[kSide], w[kSide];
    for (int k = 0; k < kSide; ++k) {
      auto row = hn::LoadU(bytes, src + k * step);
      if (kPixel == 3) row = hn::TableLookupBytes(row, spread);
      v[k] = hn::BitCast(d, row);
    }
    for (int width = 1; width < kSide;
         width *= 2) {  // each round interleaves the first half of the rows with the second
      for (int k = 0; k < kHalf; ++k) {
        w[2 * k] = hn::InterleaveLower(d, v[k], v[k + kHalf]);
        w[2 * k + 1] = hn::InterleaveUpper(d, v[k], v[k + kHalf]);
      }
      for (int k = 0; k < kSide; ++k) v[k] = w[k];
    }
    for (int k = 0; k < kSide; ++k) {
      auto row = hn::BitCast(bytes, v[k]);
      if (kPixel == 3) row = hn::TableLookupBytes(row, pack);
      hn::StoreU(row, bytes, dst + k * dst_step);
    }
  }
}
void TurnOnes(const uint8_t* src, int64_t step, uint8_t* dst, int64_t dst_step, int64_t count) {
  TurnSquares<1>(src, step, dst, dst_step, count);
}
void TurnThrees(const uint8_t* src, int64_t step, uint8_t* dst, int64_t dst_step, int64_t count) {
  TurnSquares<3>(src, step, dst, dst_step, count);
}
void TurnFours(const uint8_t* src, int64_t step, uint8_t* dst, int64_t dst_step, int64_t count) {
  TurnSquares<4>(src, step, dst, dst_step, count);
}

// Calls block(i) for each vector of [0, n), the last of them overlapping the one before. Returns false where n is less.
template <typename Block>
HWY_INLINE bool InVectors(int64_t lanes, int64_t n, Block block) {
  if (n < lanes) return false;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) block(i);
  if (i < n) block(n - lanes);
  return true;
}

template <int kChannels>
HWY_INLINE bool MergeVectors(const uint8_t* const* planes, uint8_t* dst, int64_t n) {
  const hn::ScalableTag<uint8_t> d;
  const uint8_t *a = planes[0], *b = planes[1], *c = kChannels > 2 ? planes[2] : a, *e = kChannels > 3 ? planes[3] : a;
  return InVectors(static_cast<int64_t>(hn::Lanes(d)), n, [&](int64_t i) HWY_ATTR {
    const auto x = hn::LoadU(d, a + i), y = hn::LoadU(d, b + i), z = hn::LoadU(d, c + i);
    if constexpr (kChannels == 2) hn::StoreInterleaved2(x, y, d, dst + 2 * i);
    if constexpr (kChannels == 3) hn::StoreInterleaved3(x, y, z, d, dst + 3 * i);
    if constexpr (kChannels == 4) hn::StoreInterleaved4(x, y, z, hn::LoadU(d, e + i), d, dst + 4 * i);
  });
}
void MergeBytes(const uint8_t* const* planes, int64_t channels, uint8_t* dst, int64_t n) {
  if (channels == 2 && MergeVectors<2>(planes, dst, n)) return;
  if (channels == 3 && MergeVectors<3>(planes, dst, n)) return;
  if (channels == 4 && MergeVectors<4>(planes, dst, n)) return;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < channels; ++c) dst[i * channels + c] = planes[c][i];
}

template <int kChannels>
HWY_INLINE bool SplitVectors(const uint8_t* src, uint8_t* const* planes, int64_t n) {
  const hn::ScalableTag<uint8_t> d;
  uint8_t *a = planes[0], *b = planes[1], *c = kChannels > 2 ? planes[2] : a, *e = kChannels > 3 ? planes[3] : a;
  return InVectors(static_cast<int64_t>(hn::Lanes(d)), n, [&](int64_t i) HWY_ATTR {
    hn::Vec<decltype(d)> x, y, z, w;
    if constexpr (kChannels == 2) hn::LoadInterleaved2(d, src + 2 * i, x, y);
    if constexpr (kChannels == 3) hn::LoadInterleaved3(d, src + 3 * i, x, y, z);
    if constexpr (kChannels == 4) hn::LoadInterleaved4(d, src + 4 * i, x, y, z, w);
    hn::StoreU(x, d, a + i);
    hn::StoreU(y, d, b + i);
    if constexpr (kChannels > 2) hn::StoreU(z, d, c + i);
    if constexpr (kChannels > 3) hn::StoreU(w, d, e + i);
  });
}
void SplitBytes(const uint8_t* src, int64_t channels, uint8_t* const* planes, int64_t n) {
  if (channels == 2 && SplitVectors<2>(src, planes, n)) return;
  if (channels == 3 && SplitVectors<3>(src, planes, n)) return;
  if (channels == 4 && SplitVectors<4>(src, planes, n)) return;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < channels; ++c) planes[c][i] = src[i * channels + c];
}

}  // namespace minnow::vision::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow::vision {

HWY_EXPORT(MirrorBytes);
HWY_EXPORT(MirrorThrees);
HWY_EXPORT(TurnOnes);
HWY_EXPORT(TurnThrees);
HWY_EXPORT(TurnFours);
HWY_EXPORT(MergeBytes);
HWY_EXPORT(SplitBytes);

namespace {

void mirror_row(const char* src, char* dst, int64_t width, int64_t pixel) {
  if (pixel == 1 || pixel == 3) {
    const auto* from = reinterpret_cast<const uint8_t*>(src);
    auto* to = reinterpret_cast<uint8_t*>(dst);
    return pixel == 1 ? HWY_DYNAMIC_DISPATCH(MirrorBytes)(from, to, width)
                      : HWY_DYNAMIC_DISPATCH(MirrorThrees)(from, to, width);
  }
  for_pixel_size(pixel, [&](auto size) {
    for (int64_t x = 0; x < width; ++x)
      std::memcpy(dst + x * size, src + (width - 1 - x) * size, static_cast<size_t>(int64_t{size}));
  });
}

}  // namespace

Status mirror(const Picture& src, const Picture& dst, bool rows, bool columns, ThreadPool& pool) {
  const int64_t pixel = src.pixel_bytes();
  return over_rows(pool, dst.height, rows_for_thread(dst), [&](int64_t begin, int64_t end) {
    for (int64_t y = begin; y < end; ++y) {
      const char* from = src.row<char>(rows ? src.height - 1 - y : y);
      if (columns) {
        mirror_row(from, dst.mutable_row<char>(y), src.width, pixel);
      } else {
        std::memcpy(dst.mutable_row<char>(y), from, static_cast<size_t>(src.width * pixel));
      }
    }
  });
}

Status turn(const Picture& src, const Picture& dst, bool clockwise, ThreadPool& pool) {
  const int64_t pixel = src.pixel_bytes(), side = pixel == 1 ? 16 : 4;
  const auto squares = pixel == 1   ? HWY_DYNAMIC_DISPATCH(TurnOnes)
                       : pixel == 3 ? HWY_DYNAMIC_DISPATCH(TurnThrees)
                       : pixel == 4 ? HWY_DYNAMIC_DISPATCH(TurnFours)
                                    : nullptr;
  // Parts whose rows, and those of the source, stay in the cache. From left to right: squares of pixels of 3 bytes
  // write more than their own.
  constexpr int64_t kRows = 32, kColumns = 64;
  const int64_t more = pixel == 3 ? 2 : 0;  // pixels of a row that are read and written beside those of a square
  return over_rows(pool, (dst.height + kRows - 1) / kRows, 1, [&](int64_t begin, int64_t end) {
    for_pixel_size(pixel, [&](auto size) {
      // Where the source has pixel x of row y.
      const auto at = [&](int64_t y, int64_t x) {
        return src.row<uint8_t>(clockwise ? src.height - 1 - x : x) + (clockwise ? y : src.width - 1 - y) * size;
      };
      for (int64_t top = begin * kRows; top < std::min(end * kRows, dst.height); top += kRows) {
        const int64_t bottom = std::min(top + kRows, dst.height);
        for (int64_t left = 0; left < dst.width; left += kColumns) {
          const int64_t right = std::min(left + kColumns, dst.width);
          for (int64_t y = top; y < bottom;) {
            int64_t x = left, rows = 1;
            const int64_t column = clockwise ? y : src.width - side - y;  // of the source
            if (squares != nullptr && y + side <= bottom && column >= 0 && column + side + more <= src.width) {
              const int64_t count = (std::min(right, dst.width - more) - left) / side;
              rows = side;
              if (count > 0) {
                const uint8_t* from = clockwise ? at(y, left) : at(y + side - 1, left);
                squares(from, clockwise ? -src.stride : src.stride,
                        dst.mutable_row<uint8_t>(clockwise ? y : y + side - 1) + left * size,
                        clockwise ? dst.stride : -dst.stride, count);
                x += count * side;
              }
            }
            for (int64_t k = 0; k < rows; ++k, ++y)
              for (int64_t i = x; i < right; ++i)
                std::memcpy(dst.mutable_row<uint8_t>(y) + i * size, at(y, i), static_cast<size_t>(int64_t{size}));
          }
        }
      }
    });
  });
}

Status merge_channels(const std::vector<Picture>& planes, const Picture& dst, ThreadPool& pool) {
  return over_rows(pool, dst.height, rows_for_thread(dst), [&](int64_t begin, int64_t end) {
    std::vector<const uint8_t*> from(planes.size());
    for (int64_t y = begin; y < end; ++y) {
      for (size_t c = 0; c < planes.size(); ++c) from[c] = planes[c].row<uint8_t>(y);
      HWY_DYNAMIC_DISPATCH(MergeBytes)(from.data(), dst.channels, dst.mutable_row<uint8_t>(y), dst.width);
    }
  });
}

Status split_channels(const Picture& src, const std::vector<Picture>& planes, ThreadPool& pool) {
  return over_rows(pool, src.height, rows_for_thread(src), [&](int64_t begin, int64_t end) {
    std::vector<uint8_t*> to(planes.size());
    for (int64_t y = begin; y < end; ++y) {
      for (size_t c = 0; c < planes.size(); ++c) to[c] = planes[c].mutable_row<uint8_t>(y);
      HWY_DYNAMIC_DISPATCH(SplitBytes)(src.row<uint8_t>(y), src.channels, to.data(), src.width);
    }
  });
}

}  // namespace minnow::vision
#endif
