// Video: luma, and chroma of a lower resolution. Coefficients of 20 bits.
#include <algorithm>

#include "kernels/vision/color.h"
#include "kernels/vision/color_block.h"

#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::vision::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Two pixels, the lower and the upper byte of a word, share their chroma. u and v stand apart (step 1) or in pairs (2).
void YuvBlock(const YuvCoefficients& k, const uint8_t* y, const uint8_t* u, const uint8_t* v, int64_t step, uint8_t* r,
              uint8_t* g, uint8_t* b) {
  const hn::CappedTag<int32_t, kYuvBlock / 2> d;
  const hn::Rebind<uint16_t, decltype(d)> words;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const hn::Repartition<uint8_t, decltype(words)> pixels;
  const hn::Repartition<int16_t, decltype(d)> shorts;
  const hn::Repartition<uint8_t, decltype(d)> wide;
  const hn::Repartition<uint64_t, decltype(d)> eights;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto low = hn::Set(d, 255);
  // For the compiler, bytes that are written may be weights.
  const auto luma = hn::Set(d, k.luma), least = hn::Set(d, k.black * k.luma), u_to_blue = hn::Set(d, k.u_to_blue);
  const auto v_to_red = hn::Set(d, k.v_to_red), v_to_green = hn::Set(d, k.v_to_green);
  const auto u_to_green = hn::Set(d, k.u_to_green);
  const int32_t start = k.half - k.black * k.luma;
  const auto to_red = hn::Set(d, start - 128 * k.v_to_red), to_blue = hn::Set(d, start - 128 * k.u_to_blue);
  const auto to_green = hn::Set(d, start - 128 * (k.v_to_green + k.u_to_green));
  alignas(16) static constexpr uint8_t kOrder[16] = {0, 8, 2, 10, 4, 12, 6, 14, 1, 9, 3, 11, 5, 13, 7, 15};
  const auto order = hn::LoadDup128(wide, kOrder);
  const auto word = [&](const uint8_t* p)
                        HWY_ATTR { return hn::PromoteTo(d, hn::BitCast(words, hn::LoadU(pixels, p))); };
  for (int64_t i = 0; i < kYuvBlock / 2; i += lanes) {
    hn::Vec<decltype(d)> cu, cv;
    if (step == 2) {
      const auto both = word(std::min(u, v) + 2 * i), first = hn::And(both, low), second = hn::ShiftRight<8>(both);
      cu = u < v ? first : second;
      cv = u < v ? second : first;
    } else {
      cu = hn::PromoteTo(d, hn::LoadU(bytes, u + i));
      cv = hn::PromoteTo(d, hn::LoadU(bytes, v + i));
    }
    const auto both = word(y + 2 * i);
    const auto first = hn::Max(hn::Mul(hn::And(both, low), luma), least);
    const auto second = hn::Max(hn::Mul(hn::ShiftRight<8>(both), luma), least);
    const auto sums = [&](auto chroma) HWY_ATTR {  // of four first pixels, then of the four second ones
      const auto both_sums = hn::ReorderDemote2To(shorts, hn::ShiftRight<kYuvBits>(hn::Add(first, chroma)),
                                                  hn::ShiftRight<kYuvBits>(hn::Add(second, chroma)));
      return hn::Min(hn::Max(both_sums, hn::Zero(shorts)), hn::Set(shorts, 255));
    };
    const auto red = sums(hn::Add(hn::Mul(cv, v_to_red), to_red)),
               blue = sums(hn::Add(hn::Mul(cu, u_to_blue), to_blue));
    const auto green = sums(hn::Add(hn::Add(hn::Mul(cv, v_to_green), hn::Mul(cu, u_to_green)), to_green));
    const auto in_order = [&](auto v) HWY_ATTR {  // the lower bytes of eight pixels, then the upper ones
      return hn::BitCast(eights, hn::TableLookupBytes(hn::BitCast(wide, v), order));
    };
    const auto two = in_order(hn::Or(red, hn::ShiftLeft<8>(green))), third = in_order(blue);
    const auto store = [&](auto plane, uint8_t* to)
                           HWY_ATTR { hn::StoreU(hn::LowerHalf(hn::BitCast(wide, plane)), pixels, to + 2 * i); };
    store(hn::ConcatEven(eights, two, two), r);
    store(hn::ConcatOdd(eights, two, two), g);
    store(hn::ConcatEven(eights, third, third), b);
  }
}

}  // namespace minnow::vision::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow::vision {

HWY_EXPORT(YuvBlock);

void yuv_row(const YuvCoefficients& k, const uint8_t* y, int64_t y_step, const uint8_t* u, const uint8_t* v,
             int64_t step, uint8_t* dst, int64_t n, int64_t channels, bool red_first) {
  uint8_t luma[kYuvBlock] = {}, cu[kYuvBlock / 2] = {}, cv[kYuvBlock / 2] = {}, r[kYuvBlock], g[kYuvBlock],
          b[kYuvBlock];
  for (int64_t at = 0; at < n; at += kYuvBlock) {
    const int64_t m = std::min<int64_t>(kYuvBlock, n - at);
    const uint8_t *py = y + at * y_step, *pu = u + at / 2 * step, *pv = v + at / 2 * step;
    if (m == kYuvBlock && y_step == 1 && step <= 2) {
      HWY_DYNAMIC_DISPATCH(YuvBlock)(k, py, pu, pv, step, r, g, b);
    } else {
      for (int64_t i = 0; i < m; ++i) luma[i] = py[i * y_step];
      for (int64_t i = 0; i < (m + 1) / 2; ++i) cu[i] = pu[i * step], cv[i] = pv[i * step];
      HWY_DYNAMIC_DISPATCH(YuvBlock)(k, luma, cu, cv, 1, r, g, b);
    }
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
  uint8_t luma[kColorBlock], cu[kColorBlock / 2], cv[kColorBlock / 2];
  for (int64_t row = 0; row < src.height; ++row) {
    const uint8_t* p = src.row<uint8_t>(row);
    const bool has_chroma = row % 2 == 0;
    for (int64_t at = 0; at < src.width; at += kColorBlock) {
      const int64_t m = std::min<int64_t>(kColorBlock, src.width - at);
      video_block(p + at * src.channels, src.channels, red_first, m, luma, has_chroma ? cu : nullptr, cv);
      y = std::copy(luma, luma + m, y);
      if (!has_chroma) continue;
      u = std::copy(cu, cu + m / 2, u);
      v = std::copy(cv, cv + m / 2, v);
    }
  }
}

}  // namespace minnow::vision
#endif
