// Video: luma, and chroma of a lower resolution. Coefficients of 20 bits.
#include <algorithm>

#include "kernels/vision/color.h"

#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::vision::HWY_NAMESPACE {

// Loops over arrays, which the compiler vectorizes. u and v are those of each pixel.
void YuvBlock(const YuvCoefficients& k, const uint8_t* y, const uint8_t* u, const uint8_t* v, uint8_t* r, uint8_t* g,
              uint8_t* b) {
  const auto clipped = [&](int32_t x) HWY_ATTR {
    x >>= k.bits;
    x = x < 0 ? 0 : x;
    return static_cast<uint8_t>(x > 255 ? 255 : x);
  };
  for (int i = 0; i < kYuvBlock; ++i) {
    const int32_t below = y[i] - k.black, luma = (below < 0 ? 0 : below) * k.luma + k.half;
    const int32_t cu = u[i] - 128, cv = v[i] - 128;
    r[i] = clipped(luma + k.v_to_red * cv);
    g[i] = clipped(luma + k.v_to_green * cv + k.u_to_green * cu);
    b[i] = clipped(luma + k.u_to_blue * cu);
  }
}

}  // namespace minnow::vision::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow::vision {

HWY_EXPORT(YuvBlock);

namespace {

constexpr int kBits = 20, kHalf = 1 << 19;

uint8_t to_byte(int v) { return saturated<uint8_t>(v >> kBits); }

}  // namespace

void yuv_row(const YuvCoefficients& k, const uint8_t* y, int64_t y_step, const uint8_t* u, const uint8_t* v,
             int64_t step, uint8_t* dst, int64_t n, int64_t channels, bool red_first) {
  const int64_t red = red_first ? 0 : 2;
  uint8_t luma[kYuvBlock] = {}, cu[kYuvBlock] = {}, cv[kYuvBlock] = {}, r[kYuvBlock], g[kYuvBlock], b[kYuvBlock];
  for (int64_t at = 0; at < n; at += kYuvBlock) {
    const int64_t m = std::min<int64_t>(kYuvBlock, n - at);
    for (int64_t i = 0; i < m; ++i) luma[i] = y[(at + i) * y_step];
    for (int64_t i = 0; i < m; i += 2) {
      const int64_t pair = (at + i) / 2 * step;
      cu[i] = cu[i + 1] = u[pair];
      cv[i] = cv[i + 1] = v[pair];
    }
    HWY_DYNAMIC_DISPATCH(YuvBlock)(k, luma, cu, cv, r, g, b);
    for (int64_t i = 0; i < m; ++i, dst += channels) {
      dst[red] = r[i];
      dst[1] = g[i];
      dst[2 - red] = b[i];
      if (channels == 4) dst[3] = 255;
    }
  }
}

Status from_yuv(const YuvPlanes& src, const Picture& dst, bool red_first, ThreadPool& pool) {
  return over_rows(pool, dst.height, 16, [&](int64_t begin, int64_t end) {
    for (int64_t y = begin; y < end; ++y) {
      const int64_t chroma = (src.half_rows ? y / 2 : y) * src.chroma_stride;
      yuv_row(kStudioYuv, src.y + y * src.y_stride, src.y_step, src.u + chroma, src.v + chroma, src.step,
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
#endif
