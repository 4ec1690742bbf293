// Video: luma, and chroma of a lower resolution. Coefficients of 20 bits.
#include <algorithm>

#include "kernels/vision/color.h"

namespace minnow::vision {
namespace {

constexpr int kBits = 20, kHalf = 1 << 19;
constexpr int kLuma = 1220542, kUToBlue = 2116026, kUToGreen = -409993, kVToGreen = -852492, kVToRed = 1673527;

uint8_t to_byte(int v) { return saturated<uint8_t>(v >> kBits); }

}  // namespace

void yuv_row(const uint8_t* y, int64_t y_step, const uint8_t* u, const uint8_t* v, int64_t step, uint8_t* dst,
             int64_t n, int64_t channels, bool red_first) {
  const int64_t red = red_first ? 0 : 2;
  for (int64_t x = 0; x < n; ++x, dst += channels) {
    const int64_t at = x / 2 * step;
    const int cu = u[at] - 128, cv = v[at] - 128, luma = std::max(0, y[x * y_step] - 16) * kLuma + kHalf;
    dst[red] = to_byte(luma + kVToRed * cv);
    dst[1] = to_byte(luma + kVToGreen * cv + kUToGreen * cu);
    dst[2 - red] = to_byte(luma + kUToBlue * cu);
    if (channels == 4) dst[3] = 255;
  }
}

Status from_yuv(const YuvPlanes& src, const Picture& dst, bool red_first, ThreadPool& pool) {
  return over_rows(pool, dst.height, 16, [&](int64_t begin, int64_t end) {
    for (int64_t y = begin; y < end; ++y) {
      const int64_t chroma = (src.half_rows ? y / 2 : y) * src.chroma_stride;
      yuv_row(src.y + y * src.y_stride, src.y_step, src.u + chroma, src.v + chroma, src.step,
              dst.mutable_row<uint8_t>(y), dst.width, dst.channels, red_first);
    }
  });
}

void to_yuv(const Picture& src, uint8_t* y, uint8_t* u, uint8_t* v, bool red_first) {
  const int64_t red = red_first ? 0 : 2;
  for (int64_t row = 0; row < src.height; ++row) {
    const uint8_t* p = src.row<uint8_t>(row);
    for (int64_t x = 0; x < src.width; ++x, p += src.channels) {
      const int r = p[red], g = p[1], b = p[2 - red];
      *y++ = to_byte(269484 * r + 528482 * g + 102760 * b + kHalf + (16 << kBits));
      if (row % 2 != 0 || x % 2 != 0) continue;
      *u++ = to_byte(-155188 * r - 305135 * g + 460324 * b + kHalf + (128 << kBits));
      *v++ = to_byte(460324 * r - 385875 * g - 74448 * b + kHalf + (128 << kBits));
    }
  }
}

}  // namespace minnow::vision
