#include "kernels/vision/pixel.h"

#include <cmath>
#include <cstring>
#include <utility>

#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::vision::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T, class D>
HWY_INLINE hn::Vec<D> LoadFloats(D d, const T* p) {
  if constexpr (std::is_same_v<T, float>) {
    return hn::LoadU(d, p);
  } else {
    return hn::ConvertTo(d, hn::PromoteTo(hn::RebindToSigned<D>(), hn::LoadU(hn::Rebind<T, D>(), p)));
  }
}
template <typename T, class D, class V>
HWY_INLINE void StoreFloats(D d, V v, T* p) {
  if constexpr (std::is_same_v<T, float>) {
    hn::StoreU(v, d, p);
  } else {
    const auto low = hn::Zero(d), high = hn::Set(d, 255.0f);
    v = hn::IfThenElse(hn::Gt(v, low), v, low);  // NaN, too
    v = hn::IfThenElse(hn::Lt(v, high), v, high);
    const hn::Rebind<T, D> to;
    hn::StoreU(hn::DemoteTo(to, hn::NearestInt(v)), to, p);
  }
}

// b may be null.
template <typename S, typename T>
HWY_INLINE void Weigh(const S* a, const S* b, float alpha, float beta, float gamma, T* dst, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto first = hn::Set(d, alpha), second = hn::Set(d, beta), shift = hn::Set(d, gamma);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto sum = hn::Mul(LoadFloats(d, a + i), first);
    if (b != nullptr) sum = hn::Add(sum, hn::Mul(LoadFloats(d, b + i), second));
    StoreFloats(d, hn::Add(sum, shift), dst + i);
  }
  for (; i < n; ++i) {
    float sum = static_cast<float>(a[i]) * alpha;
    if (b != nullptr) sum += static_cast<float>(b[i]) * beta;
    dst[i] = saturated<T>(sum + gamma);
  }
}
#define MINNOW_WEIGH(Name, S, T)                                                                            \
  void Name(const void* a, const void* b, float alpha, float beta, float gamma, void* dst, int64_t n) {     \
    Weigh(static_cast<const S*>(a), static_cast<const S*>(b), alpha, beta, gamma, static_cast<T*>(dst), n); \
  }
MINNOW_WEIGH(WeighBytes, uint8_t, uint8_t)
MINNOW_WEIGH(WeighBytesToFloats, uint8_t, float)
MINNOW_WEIGH(WeighFloats, float, float)
MINNOW_WEIGH(WeighFloatsToBytes, float, uint8_t)
#undef MINNOW_WEIGH

// The compiler vectorizes these loops.
template <typename T>
HWY_INLINE void Compare(const T* HWY_RESTRICT src, const Step& step, T* HWY_RESTRICT dst, int64_t n) {
  const T bound = static_cast<T>(step.bound), above = static_cast<T>(step.above), below = static_cast<T>(step.below);
  if (step.has_above && step.has_below) {
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i] > bound ? above : below;
  } else if (step.has_above) {
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i] > bound ? above : src[i];
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i] > bound ? src[i] : below;
  }
}
#define MINNOW_COMPARE(Name, T)                                         \
  void Name(const void* src, const Step& step, void* dst, int64_t n) {  \
    Compare(static_cast<const T*>(src), step, static_cast<T*>(dst), n); \
  }
MINNOW_COMPARE(CompareU8, uint8_t)
MINNOW_COMPARE(CompareU16, uint16_t)
MINNOW_COMPARE(CompareI16, int16_t)
MINNOW_COMPARE(CompareF32, float)
MINNOW_COMPARE(CompareF64, double)
#undef MINNOW_COMPARE

template <typename T>
HWY_INLINE void Where(const T* HWY_RESTRICT src, const uint8_t* HWY_RESTRICT mask, T* HWY_RESTRICT dst, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] = mask[i] != 0 ? src[i] : dst[i];
}
void WhereBytes(const uint8_t* src, const uint8_t* mask, uint8_t* dst, int64_t n) { Where(src, mask, dst, n); }
void WhereWords(const uint32_t* src, const uint8_t* mask, uint32_t* dst, int64_t n) { Where(src, mask, dst, n); }

// The mask of three bytes for each pixel.
void ThreeTimes(const uint8_t* mask, uint8_t* dst, int64_t n) {
  const hn::ScalableTag<uint8_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto m = hn::LoadU(d, mask + i);
    hn::StoreInterleaved3(m, m, m, d, dst + 3 * i);
  }
  for (; i < n; ++i) dst[3 * i] = dst[3 * i + 1] = dst[3 * i + 2] = mask[i];
}

template <typename T>
HWY_INLINE void BlendOf(const T* a, const T* b, const float* u, const float* v, T* dst, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto small = hn::Set(d, 1e-5f);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto p = hn::LoadU(d, u + i), q = hn::LoadU(d, v + i);
    const auto sum = hn::Add(hn::Mul(LoadFloats(d, a + i), p), hn::Mul(LoadFloats(d, b + i), q));
    StoreFloats(d, hn::Div(sum, hn::Add(hn::Add(p, q), small)), dst + i);
  }
  for (; i < n; ++i)
    dst[i] = saturated<T>((static_cast<float>(a[i]) * u[i] + static_cast<float>(b[i]) * v[i]) / (u[i] + v[i] + 1e-5f));
}
void BlendBytes(const void* a, const void* b, const float* u, const float* v, void* dst, int64_t n) {
  BlendOf(static_cast<const uint8_t*>(a), static_cast<const uint8_t*>(b), u, v, static_cast<uint8_t*>(dst), n);
}
void BlendFloats(const void* a, const void* b, const float* u, const float* v, void* dst, int64_t n) {
  BlendOf(static_cast<const float*>(a), static_cast<const float*>(b), u, v, static_cast<float*>(dst), n);
}

void RangeOfBytes(const uint8_t* src, int64_t n, uint8_t* least, uint8_t* most) {
  const hn::ScalableTag<uint8_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto low = hn::Set(d, *least), high = hn::Set(d, *most);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, src + i);
    low = hn::Min(low, v);
    high = hn::Max(high, v);
  }
  HWY_ALIGN uint8_t found[2 * hn::MaxLanes(d)];
  hn::Store(low, d, found);
  hn::Store(high, d, found + lanes);
  const auto add = [&](uint8_t least_of, uint8_t most_of) {
    *least = std::min(*least, least_of);
    *most = std::max(*most, most_of);
  };
  for (int64_t k = 0; k < lanes; ++k) add(found[k], found[lanes + k]);
  for (; i < n; ++i) add(src[i], src[i]);
}

// The sum of squares, of at most 2^15 bytes.
uint32_t SquareSum(const uint8_t* src, int64_t n) {
  const hn::ScalableTag<int16_t> shorts;
  const hn::Rebind<uint8_t, decltype(shorts)> bytes;
  const hn::RepartitionToWide<decltype(shorts)> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(shorts));
  auto first = hn::Zero(d), second = first;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::PromoteTo(shorts, hn::LoadU(bytes, src + i));
    first = hn::ReorderWidenMulAccumulate(d, v, v, first, second);
  }
  auto sum = static_cast<uint32_t>(hn::GetLane(hn::SumOfLanes(d, hn::Add(first, second))));
  for (; i < n; ++i) sum += static_cast<uint32_t>(src[i] * src[i]);
  return sum;
}

// sums[i] += src[i].
void AddBytes(const uint8_t* HWY_RESTRICT src, uint16_t* HWY_RESTRICT sums, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sums[i] = static_cast<uint16_t>(sums[i] + src[i]);
}

}  // namespace minnow::vision::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow::vision {

HWY_EXPORT(WeighBytes);
HWY_EXPORT(WeighBytesToFloats);
HWY_EXPORT(WeighFloats);
HWY_EXPORT(WeighFloatsToBytes);
HWY_EXPORT(CompareU8);
HWY_EXPORT(CompareU16);
HWY_EXPORT(CompareI16);
HWY_EXPORT(CompareF32);
HWY_EXPORT(CompareF64);
HWY_EXPORT(WhereBytes);
HWY_EXPORT(WhereWords);
HWY_EXPORT(ThreeTimes);
HWY_EXPORT(BlendBytes);
HWY_EXPORT(BlendFloats);
HWY_EXPORT(AddBytes);
HWY_EXPORT(RangeOfBytes);
HWY_EXPORT(SquareSum);

Status weigh(const Picture& a, const Picture* b, float alpha, float beta, float gamma, const Picture& dst,
             ThreadPool& pool) {
  const bool from = a.dtype == DType::kU8, to = dst.dtype == DType::kU8;
  if (from && to && b == nullptr && alpha == 1 && gamma == 0) return mirror(a, dst, false, false, pool);
  const auto row = from && to ? HWY_DYNAMIC_DISPATCH(WeighBytes)
                   : from     ? HWY_DYNAMIC_DISPATCH(WeighBytesToFloats)
                   : to       ? HWY_DYNAMIC_DISPATCH(WeighFloatsToBytes)
                              : HWY_DYNAMIC_DISPATCH(WeighFloats);
  return over_rows(pool, dst.height, rows_for_thread(dst), [&](int64_t begin, int64_t end) {
    for (int64_t y = begin; y < end; ++y)
      row(a.row<void>(y), b == nullptr ? nullptr : b->row<void>(y), alpha, beta, gamma, dst.mutable_row<void>(y),
          dst.row_elements());
  });
}

Status compare_pixels(const Picture& src, const Step& step, const Picture& dst, ThreadPool& pool) {
  void (*row)(const void*, const Step&, void*, int64_t) = nullptr;
  switch (src.dtype) {
    case DType::kU8:
      row = HWY_DYNAMIC_DISPATCH(CompareU8);
      break;
    case DType::kU16:
      row = HWY_DYNAMIC_DISPATCH(CompareU16);
      break;
    case DType::kI16:
      row = HWY_DYNAMIC_DISPATCH(CompareI16);
      break;
    case DType::kF32:
      row = HWY_DYNAMIC_DISPATCH(CompareF32);
      break;
    default:
      row = HWY_DYNAMIC_DISPATCH(CompareF64);
  }
  return over_rows(pool, dst.height, rows_for_thread(dst), [&](int64_t begin, int64_t end) {
    for (int64_t y = begin; y < end; ++y) row(src.row<void>(y), step, dst.mutable_row<void>(y), src.row_elements());
  });
}

Status copy_where(const Picture& src, const Picture& mask, const Picture& dst, ThreadPool& pool) {
  const int64_t pixel = src.pixel_bytes(), width = src.width;
  return over_rows(pool, dst.height, rows_for_thread(dst), [&](int64_t begin, int64_t end) {
    std::vector<uint8_t> wide(pixel == 3 ? static_cast<size_t>(3 * width) : 0);
    for (int64_t y = begin; y < end; ++y) {
      const auto* m = mask.row<uint8_t>(y);
      if (pixel == 1) {
        HWY_DYNAMIC_DISPATCH(WhereBytes)(src.row<uint8_t>(y), m, dst.mutable_row<uint8_t>(y), width);
      } else if (pixel == 3) {
        HWY_DYNAMIC_DISPATCH(ThreeTimes)(m, wide.data(), width);
        HWY_DYNAMIC_DISPATCH(WhereBytes)(src.row<uint8_t>(y), wide.data(), dst.mutable_row<uint8_t>(y), 3 * width);
      } else if (pixel == 4) {
        HWY_DYNAMIC_DISPATCH(WhereWords)(src.row<uint32_t>(y), m, dst.mutable_row<uint32_t>(y), width);
      } else {
        const char* from = src.row<char>(y);
        char* to = dst.mutable_row<char>(y);
        for_pixel_size(pixel, [&](auto size) {
          for (int64_t x = 0; x < width; ++x)
            if (m[x] != 0) std::memcpy(to + x * size, from + x * size, static_cast<size_t>(int64_t{size}));
        });
      }
    }
  });
}

Status blend(const Picture& a, const Picture& b, const Picture& u, const Picture& v, const Picture& dst,
             ThreadPool& pool) {
  const auto row = a.dtype == DType::kU8 ? HWY_DYNAMIC_DISPATCH(BlendBytes) : HWY_DYNAMIC_DISPATCH(BlendFloats);
  const int64_t channels = a.channels, n = a.row_elements();
  return over_rows(pool, dst.height, rows_for_thread(dst), [&](int64_t begin, int64_t end) {
    std::vector<float> first(channels == 1 ? 0 : static_cast<size_t>(n)), second(first.size());
    for (int64_t y = begin; y < end; ++y) {
      const float *p = u.row<float>(y), *q = v.row<float>(y);
      if (channels > 1) {
        for_pixel_size(channels, [&](auto count) {
          for (int64_t x = 0; x < a.width; ++x)
            for (int64_t c = 0; c < count; ++c) {
              first[static_cast<size_t>(x * count + c)] = p[x];
              second[static_cast<size_t>(x * count + c)] = q[x];
            }
        });
        p = first.data();
        q = second.data();
      }
      row(a.row<void>(y), b.row<void>(y), p, q, dst.mutable_row<void>(y), n);
    }
  });
}

std::array<int64_t, 256> count_bytes(const Picture& src, const Picture* mask) {
  // Four tables, so that equal neighbors need not wait for each other.
  uint32_t tables[4][256] = {};
  std::array<int64_t, 256> counts{};
  const auto flush = [&] {
    for (auto& table : tables)
      for (size_t i = 0; i < 256; ++i) counts[i] += table[i], table[i] = 0;
  };
  const int64_t n = src.row_elements(),
                rows_to_flush = std::max<int64_t>(1, (int64_t{1} << 31) / std::max<int64_t>(n, 1));
  for (int64_t y = 0; y < src.height; ++y) {
    const uint8_t* p = src.row<uint8_t>(y);
    if (mask != nullptr) {
      const uint8_t* m = mask->row<uint8_t>(y);
      for (int64_t i = 0; i < n; ++i) tables[0][p[i]] += m[i / src.channels] != 0 ? 1 : 0;
    } else {
      int64_t i = 0;
      for (; i + 4 <= n; i += 4)
        for (int64_t k = 0; k < 4; ++k) ++tables[k][p[i + k]];
      for (; i < n; ++i) ++tables[0][p[i]];
    }
    if ((y + 1) % rows_to_flush == 0) flush();
  }
  flush();
  return counts;
}

namespace {
// Rows without gaps between them are one.
Picture joined_rows(Picture p) {
  if (p.stride == p.row_elements()) p.width *= std::exchange(p.height, 1);
  return p;
}
}  // namespace

std::pair<int, int> range_of_bytes(const Picture& picture) {
  const Picture src = joined_rows(picture);
  constexpr int64_t kMost = 1 << 15;
  uint8_t least = 255, most = 0;
  for (int64_t y = 0; y < src.height; ++y)
    for (int64_t at = 0; at < src.row_elements() && (least > 0 || most < 255); at += kMost)
      HWY_DYNAMIC_DISPATCH(RangeOfBytes)
  (src.row<uint8_t>(y) + at, std::min(kMost, src.row_elements() - at), &least, &most);
  return {least, most};
}

double square_sum_of_bytes(const Picture& picture) {
  const Picture src = joined_rows(picture);
  constexpr int64_t kMost = 1 << 15;
  uint64_t sum = 0;
  for (int64_t y = 0; y < src.height; ++y)
    for (int64_t at = 0; at < src.row_elements(); at += kMost)
      sum += HWY_DYNAMIC_DISPATCH(SquareSum)(src.row<uint8_t>(y) + at, std::min(kMost, src.row_elements() - at));
  return static_cast<double>(sum);
}

int64_t otsu(const std::vector<int64_t>& counts) {
  constexpr double kLeast = std::numeric_limits<float>::epsilon();
  double total = 0, sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    total += static_cast<double>(counts[i]);
    sum += static_cast<double>(i) * static_cast<double>(counts[i]);
  }
  const double unit = 1.0 / total, mean = sum * unit;
  double below = 0, weight = 0, best = 0;
  int64_t found = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double share = static_cast<double>(counts[i]) * unit;
    below *= weight;
    weight += share;
    const double rest = 1.0 - weight;
    if (std::min(weight, rest) < kLeast || std::max(weight, rest) > 1 - kLeast) continue;
    below = (below + static_cast<double>(i) * share) / weight;
    const double above = (mean - weight * below) / rest;
    const double variance = weight * rest * (below - above) * (below - above);
    if (variance > best) {
      best = variance;
      found = static_cast<int64_t>(i);
    }
  }
  return found;
}

std::vector<double> channel_sums(const Picture& src, const Picture* mask) {
  const int64_t n = src.row_elements();
  const auto channels = static_cast<size_t>(src.channels);
  std::vector<int64_t> totals(channels, 0);
  std::vector<uint16_t> sums(static_cast<size_t>(n), 0);
  std::vector<uint8_t> wide(mask == nullptr ? 0 : static_cast<size_t>(n)), chosen(wide.size());
  for (int64_t y = 0; y < src.height; ++y) {
    const uint8_t* row = src.row<uint8_t>(y);
    if (mask != nullptr) {
      const uint8_t* m = mask->row<uint8_t>(y);
      if (channels == 3) {
        HWY_DYNAMIC_DISPATCH(ThreeTimes)(m, wide.data(), src.width);
        m = wide.data();
      } else if (channels > 1) {
        for (int64_t i = 0; i < n; ++i) wide[static_cast<size_t>(i)] = m[i / src.channels];
        m = wide.data();
      }
      std::fill(chosen.begin(), chosen.end(), uint8_t{0});
      HWY_DYNAMIC_DISPATCH(WhereBytes)(row, m, chosen.data(), n);
      row = chosen.data();
    }
    HWY_DYNAMIC_DISPATCH(AddBytes)(row, sums.data(), n);
    if (y % 256 == 255 || y == src.height - 1) {
      for (int64_t x = 0; x < src.width; ++x)
        for (size_t c = 0; c < channels; ++c) totals[c] += sums[static_cast<size_t>(x) * channels + c];
      std::fill(sums.begin(), sums.end(), uint16_t{0});
    }
  }
  return {totals.begin(), totals.end()};
}

}  // namespace minnow::vision
#endif
