#include "kernels/vision/resize_picture.h"

#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::vision::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Horizontal passes: the sum of `taps` neighbors of each pixel, at offsets in elements, with weights. Loops over the
// channels of a pixel with a constant end are unrolled.
template <int kChannels, int kTaps, typename T, typename W, typename Sum>
HWY_INLINE void Across(const T* src, const int32_t* offset, const W* weight, int64_t width, int64_t taps,
                       int64_t channels, Sum* dst) {
  if constexpr (kChannels > 0) channels = kChannels;
  if constexpr (kTaps > 0) taps = kTaps;
  for (int64_t x = 0; x < width; ++x, offset += taps, weight += taps, dst += channels) {
    for (int64_t c = 0; c < channels; ++c) {
      Sum sum = 0;
      for (int64_t k = 0; k < taps; ++k) sum += static_cast<Sum>(src[offset[k] + c]) * static_cast<Sum>(weight[k]);
      dst[c] = sum;
    }
  }
}

// The frequent case, whose sums are kept in 16 bits as OpenCV does: two neighbors.
template <int kChannels>
HWY_INLINE void AcrossTwo(const uint8_t* src, const int32_t* offset, const int16_t* weight, int64_t width,
                          int64_t channels, int16_t* dst) {
  if constexpr (kChannels > 0) channels = kChannels;
  for (int64_t x = 0; x < width; ++x, dst += channels) {
    const uint8_t *p = src + offset[2 * x], *q = src + offset[2 * x + 1];
    const int32_t a = weight[2 * x], b = weight[2 * x + 1];
    for (int64_t c = 0; c < channels; ++c) dst[c] = static_cast<int16_t>((p[c] * a + q[c] * b) >> 4);
  }
}

#if HWY_ARCH_X86
// Three or four channels with one product of pairs for each pixel. `row_bytes` may be read, and a row of sums has room
// for two more. Returns how many pixels are done.
template <int kChannels>
HWY_INLINE int64_t AcrossPairs(const uint8_t* src, int64_t row_bytes, const int32_t* offset, const int16_t* weight,
                               int64_t width, int16_t* dst) {
  // Each channel of a pixel and the same of the next one, as numbers of 16 bits.
  const __m128i pairs = kChannels == 3 ? _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1)
                                       : _mm_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1);
  int64_t x = 0;
  for (; x < width && offset[2 * x] + 8 <= row_bytes; ++x) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(src + offset[2 * x]));
    int32_t both;
    __builtin_memcpy(&both, weight + 2 * x, 4);
    const __m128i sums = _mm_madd_epi16(_mm_shuffle_epi8(bytes, pairs), _mm_set1_epi32(both));
    const __m128i shifted = _mm_srai_epi32(sums, 4);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(dst + kChannels * x), _mm_packs_epi32(shifted, shifted));
  }
  return x;
}
#else
template <int kChannels>
HWY_INLINE int64_t AcrossPairs(const uint8_t*, int64_t, const int32_t*, const int16_t*, int64_t, int16_t*) {
  return 0;
}
#endif

void AcrossTwoBytes(const uint8_t* src, int64_t row_bytes, const int32_t* offset, const int16_t* weight, int64_t width,
                    int64_t channels, int16_t* dst) {
  int64_t x = 0;
  switch (channels) {
    case 1:
      return AcrossTwo<1>(src, offset, weight, width, 1, dst);
    case 3:
      x = AcrossPairs<3>(src, row_bytes, offset, weight, width, dst);
      return AcrossTwo<3>(src, offset + 2 * x, weight + 2 * x, width - x, 3, dst + 3 * x);
    case 4:
      x = AcrossPairs<4>(src, row_bytes, offset, weight, width, dst);
      return AcrossTwo<4>(src, offset + 2 * x, weight + 2 * x, width - x, 4, dst + 4 * x);
    default:
      return AcrossTwo<0>(src, offset, weight, width, channels, dst);
  }
}

#if HWY_ARCH_X86
// Four neighbors of bytes: their products with two pairs of weights. Returns how many pixels are done: up to the first
// whose neighbors are not side by side, as at an edge.
template <int kChannels>
HWY_INLINE int64_t AcrossFour(const uint8_t* src, int64_t row_bytes, const int32_t* offset, const int16_t* weight,
                              int64_t width, int32_t* dst) {
  const __m128i first = kChannels == 3 ? _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1)
                                       : _mm_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1);
  const __m128i second = _mm_add_epi8(first, _mm_set1_epi16(2 * kChannels));
  int64_t x = 0;
  for (; x < width; ++x, offset += 4, weight += 4) {
    if (offset[3] - offset[0] != 3 * kChannels || offset[1] - offset[0] != kChannels || offset[0] + 16 > row_bytes)
      return x;
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + offset[0]));
    int32_t pair[2];
    __builtin_memcpy(pair, weight, 8);
    const __m128i sum = _mm_add_epi32(_mm_madd_epi16(_mm_shuffle_epi8(bytes, first), _mm_set1_epi32(pair[0])),
                                      _mm_madd_epi16(_mm_shuffle_epi8(bytes, second), _mm_set1_epi32(pair[1])));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + kChannels * x), sum);
  }
  return x;
}
#endif

template <int kTaps, typename T, typename W, typename Sum>
HWY_INLINE void AcrossChannels(const T* src, const int32_t* offset, const W* weight, int64_t width, int64_t taps,
                               int64_t channels, Sum* dst) {
  if (channels == 1) return Across<1, kTaps>(src, offset, weight, width, taps, 1, dst);
  if (channels == 3) return Across<3, kTaps>(src, offset, weight, width, taps, 3, dst);
  if (channels == 4) return Across<4, kTaps>(src, offset, weight, width, taps, 4, dst);
  Across<0, kTaps>(src, offset, weight, width, taps, channels, dst);
}

template <typename T, typename W, typename Sum>
void AcrossAny(const void* src, const int32_t* offset, const W* weight, int64_t width, int64_t taps, int64_t channels,
               Sum* dst) {
  const T* row = static_cast<const T*>(src);
  if (taps == 2) return AcrossChannels<2>(row, offset, weight, width, taps, channels, dst);
  if (taps == 4) return AcrossChannels<4>(row, offset, weight, width, taps, channels, dst);
  AcrossChannels<0>(row, offset, weight, width, taps, channels, dst);
}
// `row_bytes` may be read, and a row of sums has room for two more.
void AcrossBytes(const void* src, [[maybe_unused]] int64_t row_bytes, const int32_t* offset, const int16_t* weight,
                 int64_t width, int64_t taps, int64_t channels, int32_t* dst) {
#if HWY_ARCH_X86
  if (taps == 4 && (channels == 3 || channels == 4)) {
    const uint8_t* row = static_cast<const uint8_t*>(src);
    for (int64_t x = 0; x < width;) {
      const int64_t rest = width - x;
      const int64_t done = channels == 3
                               ? AcrossFour<3>(row, row_bytes, offset + 4 * x, weight + 4 * x, rest, dst + 3 * x)
                               : AcrossFour<4>(row, row_bytes, offset + 4 * x, weight + 4 * x, rest, dst + 4 * x);
      x += done;
      if (x == width) return;
      AcrossAny<uint8_t>(src, offset + 4 * x, weight + 4 * x, 1, taps, channels, dst + channels * x);
      ++x;
    }
    return;
  }
#endif
  AcrossAny<uint8_t>(src, offset, weight, width, taps, channels, dst);
}
#define MINNOW_ACROSS(Name, T, Sum)                                                                                   \
  void Name(const void* src, const int32_t* offset, const Sum* weight, int64_t width, int64_t taps, int64_t channels, \
            Sum* dst) {                                                                                               \
    AcrossAny<T>(src, offset, weight, width, taps, channels, dst);                                                    \
  }
MINNOW_ACROSS(AcrossU8, uint8_t, float)
MINNOW_ACROSS(AcrossU16, uint16_t, float)
MINNOW_ACROSS(AcrossI16, int16_t, float)
MINNOW_ACROSS(AcrossF32, float, float)
MINNOW_ACROSS(AcrossF64, double, double)
#undef MINNOW_ACROSS

// Vertical passes: the sum of rows with weights, as elements.
void DownTwoBytes(const int16_t* a, const int16_t* b, const int16_t* weight, uint8_t* dst, int64_t n) {
  const hn::ScalableTag<int16_t> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto u = hn::Set(d, weight[0]), v = hn::Set(d, weight[1]), two = hn::Set(d, int16_t{2});
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto sum = hn::Add(hn::MulHigh(hn::LoadU(d, a + i), u), hn::MulHigh(hn::LoadU(d, b + i), v));
    hn::StoreU(hn::DemoteTo(bytes, hn::ShiftRight<2>(hn::Add(sum, two))), bytes, dst + i);
  }
  for (; i < n; ++i) {
    const int32_t sum = (((a[i] * weight[0]) >> 16) + ((b[i] * weight[1]) >> 16) + 2) >> 2;
    dst[i] = static_cast<uint8_t>(sum < 255 ? sum : 255);
  }
}
template <int kTaps>
HWY_INLINE void DownWhole(const int32_t* const* rows, const int16_t* weight, uint8_t* dst, int64_t n) {
  const hn::ScalableTag<int32_t> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto half = hn::Set(d, 1 << 21);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto sum = half;
    for (int k = 0; k < kTaps; ++k) sum = hn::Add(sum, hn::Mul(hn::LoadU(d, rows[k] + i), hn::Set(d, weight[k])));
    hn::StoreU(hn::DemoteTo(bytes, hn::ShiftRight<22>(sum)), bytes, dst + i);
  }
  for (; i < n; ++i) {
    int32_t sum = 1 << 21;
    for (int k = 0; k < kTaps; ++k) sum += rows[k][i] * weight[k];
    dst[i] = saturated<uint8_t>(sum >> 22);
  }
}
void DownBytes(const int32_t* const* rows, const int16_t* weight, int64_t taps, void* dst, int64_t n) {
  uint8_t* bytes = static_cast<uint8_t*>(dst);
  if (taps == 2) return DownWhole<2>(rows, weight, bytes, n);
  if (taps == 4) return DownWhole<4>(rows, weight, bytes, n);
  DownWhole<8>(rows, weight, bytes, n);
}

// Half the size: the mean of four pixels of bytes. Returns how many pixels of the row are done.
int64_t HalfRow(const uint8_t* a, const uint8_t* b, int64_t channels, uint8_t* dst, int64_t n) {
  const hn::ScalableTag<uint8_t> d;
  const hn::RepartitionToWide<decltype(d)> shorts;
  const hn::Half<decltype(d)> half;
  const auto lanes = static_cast<int64_t>(hn::Lanes(half));
  const auto low = hn::Set(shorts, uint16_t{255}), two = hn::Set(shorts, uint16_t{2});
  const auto mean = [&](auto u, auto v) HWY_ATTR {  // of neighbors in both
    const auto p = hn::BitCast(shorts, u), q = hn::BitCast(shorts, v);
    const auto even = hn::Add(hn::And(p, low), hn::And(q, low));
    const auto odd = hn::Add(hn::ShiftRight<8>(p), hn::ShiftRight<8>(q));
    const auto sum = hn::ShiftRight<2>(hn::Add(hn::Add(even, odd), two));
    return hn::DemoteTo(half, hn::BitCast(hn::RebindToSigned<decltype(shorts)>(), sum));
  };
  hn::Vec<decltype(d)> a0, a1, a2, a3, b0, b1, b2, b3;
  int64_t x = 0;
  for (; x + lanes <= n; x += lanes) {
    const uint8_t *p = a + 2 * channels * x, *q = b + 2 * channels * x;
    uint8_t* to = dst + channels * x;
    if (channels == 1) {
      hn::StoreU(mean(hn::LoadU(d, p), hn::LoadU(d, q)), half, to);
    } else if (channels == 3) {
      hn::LoadInterleaved3(d, p, a0, a1, a2);
      hn::LoadInterleaved3(d, q, b0, b1, b2);
      hn::StoreInterleaved3(mean(a0, b0), mean(a1, b1), mean(a2, b2), half, to);
    } else if (channels == 4) {
      hn::LoadInterleaved4(d, p, a0, a1, a2, a3);
      hn::LoadInterleaved4(d, q, b0, b1, b2, b3);
      hn::StoreInterleaved4(mean(a0, b0), mean(a1, b1), mean(a2, b2), mean(a3, b3), half, to);
    } else {
      break;
    }
  }
  return x;
}

template <typename T, typename Sum>
HWY_INLINE void DownAny(const Sum* const* rows, const Sum* weight, int64_t taps, void* dst, int64_t n) {
  constexpr int64_t kBlock = 64;
  T* out = static_cast<T*>(dst);
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t m = std::min(kBlock, n - at);
    Sum sum[kBlock] = {};
    for (int64_t k = 0; k < taps; ++k) {
      const Sum w = weight[k];
      const Sum* row = rows[k] + at;
      for (int64_t i = 0; i < m; ++i) sum[i] += w * row[i];
    }
    for (int64_t i = 0; i < m; ++i) out[at + i] = saturated<T>(sum[i]);
  }
}
#define MINNOW_DOWN(Name, T, Sum)                                                            \
  void Name(const Sum* const* rows, const Sum* weight, int64_t taps, void* dst, int64_t n) { \
    DownAny<T, Sum>(rows, weight, taps, dst, n);                                             \
  }
MINNOW_DOWN(DownU8, uint8_t, float)
MINNOW_DOWN(DownU16, uint16_t, float)
MINNOW_DOWN(DownI16, int16_t, float)
MINNOW_DOWN(DownF32, float, float)
MINNOW_DOWN(DownF64, double, double)
#undef MINNOW_DOWN

}  // namespace minnow::vision::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/vision/interpolation_weights.h"

namespace minnow::vision {

HWY_EXPORT(AcrossTwoBytes);
HWY_EXPORT(AcrossBytes);
HWY_EXPORT(AcrossU8);
HWY_EXPORT(AcrossU16);
HWY_EXPORT(AcrossI16);
HWY_EXPORT(AcrossF32);
HWY_EXPORT(AcrossF64);
HWY_EXPORT(DownTwoBytes);
HWY_EXPORT(DownBytes);
HWY_EXPORT(HalfRow);
HWY_EXPORT(DownU8);
HWY_EXPORT(DownU16);
HWY_EXPORT(DownI16);
HWY_EXPORT(DownF32);
HWY_EXPORT(DownF64);

namespace {

constexpr int64_t kRowsPerTask = 8;

// One axis: for each place of the result `taps` places of the source, with weights.
struct Axis {
  int64_t taps = 0;
  std::vector<int32_t> index;
  std::vector<float> weight;
  std::vector<int16_t> fixed;  // of 11 bits
  std::vector<double> wide;

  const int32_t* at(int64_t i) const { return index.data() + i * taps; }
};

void finish_axis(Axis* axis) {
  axis->fixed.resize(axis->weight.size());
  axis->wide.assign(axis->weight.begin(), axis->weight.end());
  for (size_t i = 0; i < axis->fixed.size(); ++i) axis->fixed[i] = saturated<int16_t>(axis->weight[i] * 2048);
}

Axis interpolating_axis(int64_t in, int64_t out, double scale, Interpolation how) {
  Axis axis;
  axis.taps = how == Interpolation::kCubic ? 4 : how == Interpolation::kLanczos ? 8 : 2;
  const size_t n = static_cast<size_t>(out * axis.taps);
  axis.index.resize(n);
  axis.weight.resize(n);
  for (int64_t x = 0; x < out; ++x) {
    float fraction;
    int64_t at;
    if (how == Interpolation::kArea) {  // of an enlarged picture
      at = static_cast<int64_t>(std::floor(static_cast<double>(x) * scale));
      fraction = static_cast<float>(static_cast<double>(x + 1) - static_cast<double>(at + 1) / scale);
      fraction = fraction <= 0 ? 0 : fraction - std::floor(fraction);
    } else {
      fraction = static_cast<float>((static_cast<double>(x) + 0.5) * scale - 0.5);
      at = static_cast<int64_t>(std::floor(fraction));
      fraction -= static_cast<float>(at);
    }
    float* w = axis.weight.data() + x * axis.taps;
    if (axis.taps == 2) {
      if (at < 0) at = 0, fraction = 0;
      if (at >= in - 1) at = in - 1, fraction = 0;
      w[0] = 1 - fraction;
      w[1] = fraction;
    } else if (axis.taps == 4) {
      cubic_weights(fraction, w);
    } else {
      lanczos_weights(fraction, w);
    }
    for (int64_t k = 0; k < axis.taps; ++k)
      axis.index[static_cast<size_t>(x * axis.taps + k)] =
          static_cast<int32_t>(std::clamp(at + k - (axis.taps / 2 - 1), int64_t{0}, in - 1));
  }
  finish_axis(&axis);
  return axis;
}

// Shares of the source's pixels in those of a smaller result.
Axis area_axis(int64_t in, int64_t out, double scale) {
  Axis axis;
  axis.taps = static_cast<int64_t>(std::ceil(scale)) + 2;
  axis.index.assign(static_cast<size_t>(out * axis.taps), 0);
  axis.weight.assign(axis.index.size(), 0);
  int64_t most = 1;
  for (int64_t x = 0; x < out; ++x) {
    const double from = static_cast<double>(x) * scale, to = from + scale;
    const double cell = std::min(scale, static_cast<double>(in) - from);
    const int64_t first = std::min(static_cast<int64_t>(std::ceil(from)), in);
    const int64_t last = std::min(static_cast<int64_t>(std::floor(to)), in - 1);
    int64_t k = 0;
    const auto add = [&](int64_t index, double weight) {
      if (k >= axis.taps) return;
      axis.index[static_cast<size_t>(x * axis.taps + k)] = static_cast<int32_t>(std::clamp<int64_t>(index, 0, in - 1));
      axis.weight[static_cast<size_t>(x * axis.taps + k)] = static_cast<float>(weight);
      ++k;
    };
    const int64_t start = std::min(first, last);
    if (static_cast<double>(start) - from > 1e-3) add(start - 1, (static_cast<double>(start) - from) / cell);
    for (int64_t i = start; i < last; ++i) add(i, 1.0 / cell);
    if (to - static_cast<double>(last) > 1e-3) add(last, std::min({to - static_cast<double>(last), 1.0, cell}) / cell);
    most = std::max(most, k);
    for (int64_t rest = k; rest < axis.taps && k > 0; ++rest)  // of no weight
      axis.index[static_cast<size_t>(x * axis.taps + rest)] = axis.index[static_cast<size_t>(x * axis.taps + k - 1)];
  }
  if (most < axis.taps) {
    for (int64_t x = 0; x < out; ++x)
      for (int64_t k = 0; k < most; ++k) {
        axis.index[static_cast<size_t>(x * most + k)] = axis.index[static_cast<size_t>(x * axis.taps + k)];
        axis.weight[static_cast<size_t>(x * most + k)] = axis.weight[static_cast<size_t>(x * axis.taps + k)];
      }
    axis.taps = most;
    axis.index.resize(static_cast<size_t>(out * most));
    axis.weight.resize(axis.index.size());
  }
  finish_axis(&axis);
  return axis;
}

// Where rows of a result go: through the finish, if there is one.
class Output {
 public:
  Output(const Picture& dst, const Finish* finish, int64_t channels) : dst_(dst), finish_(finish) {
    if (finish_ == nullptr) return;
    row_.resize(static_cast<size_t>(dst.width * channels));
    scratch_.resize(static_cast<size_t>(dst.width * 4));
  }
  void* row(int64_t y) { return finish_ == nullptr ? dst_.mutable_row<char>(y) : static_cast<void*>(row_.data()); }
  void done(int64_t y) {
    if (finish_ != nullptr) finish_row(*finish_, row_.data(), dst_.width, scratch_.data(), dst_.mutable_row<char>(y));
  }

 private:
  const Picture& dst_;
  const Finish* finish_;
  std::vector<uint8_t> row_, scratch_;
};

// The rows of the source that have been passed horizontally, of which the next row of the result may need some again.
template <typename Sum>
class Rows {
 public:
  Rows(int64_t taps, int64_t elements)
      : elements_(static_cast<size_t>(elements) + 2),  // see AcrossPairs
        memory_(static_cast<size_t>(taps + 1) * elements_),
        held_(static_cast<size_t>(taps + 1), -1),
        result_(static_cast<size_t>(taps)) {}

  // Rows at these indices, which do not decrease.
  template <typename Pass>
  const Sum* const* get(const int32_t* index, int64_t taps, Pass pass) {
    for (int64_t k = 0; k < taps; ++k) {
      size_t slot = held_.size();
      for (size_t i = 0; i < held_.size(); ++i)
        if (held_[i] == index[k]) slot = i;
      if (slot == held_.size()) {
        // One that none of these taps needs.
        for (size_t i = 0; i < held_.size(); ++i)
          if (std::find(index, index + taps, held_[i]) == index + taps) slot = i;
        held_[slot] = index[k];
        pass(index[k], memory_.data() + slot * elements_);
      }
      result_[static_cast<size_t>(k)] = memory_.data() + slot * elements_;
    }
    return result_.data();
  }

 private:
  size_t elements_;
  std::vector<Sum> memory_;
  std::vector<int32_t> held_;
  std::vector<const Sum*> result_;
};

struct Passes {
  const Picture& src;
  const Picture& dst;
  const Axis& x;
  const Axis& y;
  const Finish* finish;
};

template <typename Sum, typename AcrossFn, typename DownFn, typename W>
void pass_rows(const Passes& p, const std::vector<W>& x_weight, const std::vector<W>& y_weight, AcrossFn across,
               DownFn down, int64_t begin, int64_t end) {
  const int64_t n = p.dst.width * p.src.channels;
  Rows<Sum> rows(p.y.taps, n);
  Output output(p.dst, p.finish, p.src.channels);
  for (int64_t y = begin; y < end; ++y) {
    const Sum* const* from = rows.get(p.y.at(y), p.y.taps, [&](int64_t row, Sum* to) {
      across(p.src.row<void>(row), p.x.index.data(), x_weight.data(), p.dst.width, p.x.taps, p.src.channels, to);
    });
    down(from, y_weight.data() + y * p.y.taps, p.y.taps, output.row(y), n);
    output.done(y);
  }
}

void linear_rows(const Passes& p, int64_t begin, int64_t end) {
  const int64_t row_bytes = p.src.row_elements();
  const auto across = [row_bytes](const void* src, const int32_t* offset, const int16_t* weight, int64_t width, int64_t,
                                  int64_t channels, int16_t* dst) {
    HWY_DYNAMIC_DISPATCH(AcrossTwoBytes)
    (static_cast<const uint8_t*>(src), row_bytes, offset, weight, width, channels, dst);
  };
  const auto down = [](const int16_t* const* rows, const int16_t* weight, int64_t, void* dst, int64_t n) {
    HWY_DYNAMIC_DISPATCH(DownTwoBytes)(rows[0], rows[1], weight, static_cast<uint8_t*>(dst), n);
  };
  pass_rows<int16_t>(p, p.x.fixed, p.y.fixed, across, down, begin, end);
}

void whole_rows(const Passes& p, int64_t begin, int64_t end) {
  const int64_t row_bytes = p.src.row_elements();
  const auto across = [row_bytes](const void* src, const int32_t* offset, const int16_t* weight, int64_t width,
                                  int64_t taps, int64_t channels, int32_t* dst) {
    HWY_DYNAMIC_DISPATCH(AcrossBytes)(src, row_bytes, offset, weight, width, taps, channels, dst);
  };
  pass_rows<int32_t>(p, p.x.fixed, p.y.fixed, across, HWY_DYNAMIC_DISPATCH(DownBytes), begin, end);
}

#define MINNOW_PASS(Across, Down, Sum, weights) \
  pass_rows<Sum>(p, p.x.weights, p.y.weights, HWY_DYNAMIC_DISPATCH(Across), HWY_DYNAMIC_DISPATCH(Down), begin, end)

void pass(const Passes& p, Interpolation how, bool is_area, int64_t begin, int64_t end) {
  switch (p.src.dtype) {
    case DType::kU8:
      if (is_area) return MINNOW_PASS(AcrossU8, DownU8, float, weight);
      if (how == Interpolation::kLinearExact || p.x.taps != 2) return whole_rows(p, begin, end);
      return linear_rows(p, begin, end);
    case DType::kU16:
      return MINNOW_PASS(AcrossU16, DownU16, float, weight);
    case DType::kI16:
      return MINNOW_PASS(AcrossI16, DownI16, float, weight);
    case DType::kF32:
      return MINNOW_PASS(AcrossF32, DownF32, float, weight);
    default:
      return MINNOW_PASS(AcrossF64, DownF64, double, wide);
  }
}
#undef MINNOW_PASS

// dst[x] = src[index[x]], of pixels of `bytes` bytes.
void pick(const char* src, const int32_t* index, int64_t width, int64_t bytes, char* dst) {
  switch (bytes) {
    case 1:
      for (int64_t x = 0; x < width; ++x) dst[x] = src[index[x]];
      return;
    case 3:
      for (int64_t x = 0; x < width; ++x) std::memcpy(dst + 3 * x, src + 3 * int64_t{index[x]}, 3);
      return;
    case 4:
      for (int64_t x = 0; x < width; ++x) std::memcpy(dst + 4 * x, src + 4 * int64_t{index[x]}, 4);
      return;
    default:
      for (int64_t x = 0; x < width; ++x)
        std::memcpy(dst + bytes * x, src + bytes * index[x], static_cast<size_t>(bytes));
  }
}

void half_rows(const Picture& src, const Picture& dst, const Finish* finish, int64_t begin, int64_t end) {
  const int64_t channels = src.channels;
  Output output(dst, finish, channels);
  for (int64_t y = begin; y < end; ++y) {
    const uint8_t *a = src.row<uint8_t>(2 * y), *b = src.row<uint8_t>(2 * y + 1);
    auto* to = static_cast<uint8_t*>(output.row(y));
    for (int64_t x = HWY_DYNAMIC_DISPATCH(HalfRow)(a, b, channels, to, dst.width); x < dst.width; ++x)
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t at = 2 * channels * x + c;
        to[channels * x + c] = static_cast<uint8_t>((a[at] + a[at + channels] + b[at] + b[at + channels] + 2) >> 2);
      }
    output.done(y);
  }
}

std::vector<int32_t> nearest_axis(int64_t in, int64_t out, double scale, bool exact) {
  std::vector<int32_t> index(static_cast<size_t>(out));
  const int64_t step = ((in << 16) + out / 2) / out, start = step / 2 - in % 2;
  for (int64_t x = 0; x < out; ++x) {
    const int64_t at =
        exact ? (step * x + start) >> 16 : static_cast<int64_t>(std::floor(static_cast<double>(x) * scale));
    index[static_cast<size_t>(x)] = static_cast<int32_t>(std::clamp(at, int64_t{0}, in - 1));
  }
  return index;
}

}  // namespace

Status resize_picture(const Picture& src, const Picture& dst, Interpolation how, double scale_x, double scale_y,
                      const Finish* finish, ThreadPool& pool) {
  if (how == Interpolation::kNearest || how == Interpolation::kNearestExact) {
    const bool exact = how == Interpolation::kNearestExact;
    const std::vector<int32_t> columns = nearest_axis(src.width, dst.width, scale_x, exact);
    const std::vector<int32_t> rows = nearest_axis(src.height, dst.height, scale_y, exact);
    return over_rows(pool, dst.height, kRowsPerTask, [&](int64_t begin, int64_t end) {
      Output output(dst, finish, src.channels);
      for (int64_t y = begin; y < end; ++y) {
        pick(src.row<char>(rows[static_cast<size_t>(y)]), columns.data(), dst.width, src.pixel_bytes(),
             static_cast<char*>(output.row(y)));
        output.done(y);
      }
    });
  }
  // As in OpenCV, half the size is the mean of 4 pixels.
  const bool half = std::fabs(scale_x - 2) < 1e-15 && std::fabs(scale_y - 2) < 1e-15;
  if (how == Interpolation::kLinear && half) how = Interpolation::kArea;
  if (how == Interpolation::kArea && half && src.dtype == DType::kU8 && src.width == 2 * dst.width &&
      src.height == 2 * dst.height) {
    return over_rows(pool, dst.height, std::max<int64_t>(kRowsPerTask, dst.height / (4 * pool.threads())),
                     [&](int64_t begin, int64_t end) { half_rows(src, dst, finish, begin, end); });
  }
  const bool is_area = how == Interpolation::kArea && scale_x >= 1 && scale_y >= 1;
  Axis x = is_area ? area_axis(src.width, dst.width, scale_x) : interpolating_axis(src.width, dst.width, scale_x, how);
  const Axis y =
      is_area ? area_axis(src.height, dst.height, scale_y) : interpolating_axis(src.height, dst.height, scale_y, how);
  for (int32_t& index : x.index) index *= static_cast<int32_t>(src.channels);
  const Passes passes{src, dst, x, y, finish};
  const int64_t grain = std::max<int64_t>(kRowsPerTask, dst.height / (4 * pool.threads()));
  return over_rows(pool, dst.height, grain,
                   [&](int64_t begin, int64_t end) { pass(passes, how, is_area, begin, end); });
}

}  // namespace minnow::vision
#endif
