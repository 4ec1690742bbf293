// Video: luma, and chroma of a lower resolution. Coefficients of 20 bits.
#include <algorithm>

#include "kernels/vision/color.h"
#include "kernels/vision/color_block.h"

#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::vision::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Loops over arrays, which the compiler vectorizes. u and v are those of each pixel.
void YuvBlock(const YuvCoefficients& given, const uint8_t* y, const uint8_t* u, const uint8_t* v,
              uint8_t* HWY_RESTRICT r, uint8_t* HWY_RESTRICT g, uint8_t* HWY_RESTRICT b) {
  const YuvCoefficients k = given;  // for the compiler, bytes that are written may be a part of it
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

// Chroma of a block: each value stands for two pixels. u and v apart, or in pairs, the first of which is at `pairs`.
void ChromaBlock(const uint8_t* first, const uint8_t* second, bool pairs, uint8_t* a, uint8_t* b) {
  const hn::CappedTag<uint8_t, kYuvBlock / 2> d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  for (int i = 0; i < kYuvBlock / 2; i += lanes) {
    hn::Vec<decltype(d)> x, y;
    if (pairs) {
      hn::LoadInterleaved2(d, first + 2 * i, x, y);
    } else {
      x = hn::LoadU(d, first + i);
      y = hn::LoadU(d, second + i);
    }
    hn::StoreInterleaved2(x, x, d, a + 2 * i);
    hn::StoreInterleaved2(y, y, d, b + 2 * i);
  }
}

}  // namespace minnow::vision::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow::vision {

HWY_EXPORT(YuvBlock);
HWY_EXPORT(ChromaBlock);

void yuv_row(const YuvCoefficients& k, const uint8_t* y, int64_t y_step, const uint8_t* u, const uint8_t* v,
             int64_t step, uint8_t* dst, int64_t n, int64_t channels, bool red_first) {
  uint8_t luma[kYuvBlock] = {}, cu[kYuvBlock] = {}, cv[kYuvBlock] = {}, r[kYuvBlock], g[kYuvBlock], b[kYuvBlock];
  for (int64_t at = 0; at < n; at += kYuvBlock) {
    const int64_t m = std::min<int64_t>(kYuvBlock, n - at);
    const bool whole = m == kYuvBlock && y_step == 1 && (step == 1 || step == 2);
    if (whole) {
      const uint8_t *pu = u + at / 2 * step, *pv = v + at / 2 * step;
      const bool v_first = step == 2 && pv < pu;
      HWY_DYNAMIC_DISPATCH(ChromaBlock)(v_first ? pv : pu, pv, step == 2, v_first ? cv : cu, v_first ? cu : cv);
    } else {
      for (int64_t i = 0; i < m; ++i) luma[i] = y[(at + i) * y_step];
      for (int64_t i = 0; i < m; i += 2) {
        const int64_t pair = (at + i) / 2 * step;
        cu[i] = cu[i + 1] = u[pair];
        cv[i] = cv[i + 1] = v[pair];
      }
    }
    HWY_DYNAMIC_DISPATCH(YuvBlock)(k, whole ? y + at : luma, cu, cv, r, g, b);
    join_planes(red_first ? r : b, g, red_first ? b : r, dst + at * channels, channels, m);
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
  uint8_t luma[kColorBlock], cu[kColorBlock], cv[kColorBlock];
  for (int64_t row = 0; row < src.height; ++row) {
    const uint8_t* p = src.row<uint8_t>(row);
    for (int64_t at = 0; at < src.width; at += kColorBlock) {
      const int64_t m = std::min<int64_t>(kColorBlock, src.width - at);
      video_block(p + at * src.channels, src.channels, red_first, m, luma, cu, cv);
      y = std::copy(luma, luma + m, y);
      if (row % 2 != 0) continue;
      for (int64_t i = 0; i < m; i += 2) {
        *u++ = cu[i];
        *v++ = cv[i];
      }
    }
  }
}

}  // namespace minnow::vision
#endif
