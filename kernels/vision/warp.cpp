#include "kernels/vision/warp.h"

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/vision/interpolation_weights.h"
#include "kernels/vision/warp_row.h"

namespace minnow::vision {
namespace {

constexpr int kCoordinateBits = 10;
constexpr int64_t kWarpedPixelsPerTask = 1 << 13;
constexpr int64_t kFarthest = int64_t{1} << 30;

// OpenCV has places of 16 bits. Those further away are at the limit, from where borders reflect other pixels.
constexpr int64_t kFarthestPlace = std::numeric_limits<int16_t>::max();

// The places of a row of the result in the source: whole pixels and the index of the fraction.
struct Places {
  std::vector<int32_t> x, y;
  std::vector<uint16_t> fraction;
  int64_t farthest;

  // Pictures that OpenCV does not take, as they are too large, have places of 32 bits.
  Places(int64_t n, const Picture& src)
      : x(static_cast<size_t>(n)),
        y(static_cast<size_t>(n)),
        fraction(static_cast<size_t>(n)),
        farthest(std::max(src.width, src.height) <= kFarthestPlace ? kFarthestPlace
                                                                   : std::numeric_limits<int32_t>::max()) {}
  int32_t limited(int64_t whole) const { return static_cast<int32_t>(std::clamp(whole, -farthest - 1, farthest)); }
  void set(int64_t i, int64_t fixed_x, int64_t fixed_y) {
    x[static_cast<size_t>(i)] = limited(fixed_x >> kFractionBits);
    y[static_cast<size_t>(i)] = limited(fixed_y >> kFractionBits);
    fraction[static_cast<size_t>(i)] =
        static_cast<uint16_t>((fixed_y & (kFractions - 1)) * kFractions + (fixed_x & (kFractions - 1)));
  }
  void set_whole(int64_t i, int64_t whole_x, int64_t whole_y) {
    x[static_cast<size_t>(i)] = limited(whole_x);
    y[static_cast<size_t>(i)] = limited(whole_y);
  }
};

int64_t fixed(double v) { return saturated<int32_t>(v); }

// Weights of kTaps x kTaps pixels for each of the fractions.
template <int kTaps>
struct Weights {
  float single[kFractions * kFractions][kTaps * kTaps];
  int16_t bytes[kFractions * kFractions][kTaps * kTaps];  // of 15 bits

  Weights() {
    float axis[kFractions][kTaps];
    for (int i = 0; i < kFractions; ++i) {
      const float x = static_cast<float>(i) / kFractions;
      if constexpr (kTaps == 4) cubic_weights(x, axis[i]);
      if constexpr (kTaps == 8) lanczos_weights(x, axis[i]);
    }
    for (int i = 0; i < kFractions * kFractions; ++i) {
      int sum = 0;
      for (int k = 0; k < kTaps * kTaps; ++k) {
        single[i][k] = axis[i / kFractions][k / kTaps] * axis[i % kFractions][k % kTaps];
        sum += bytes[i][k] = saturated<int16_t>(single[i][k] * 32768);
      }
      // What is missing from 1 goes to the largest of the weights in the middle, what is too much to the smallest.
      const int difference = sum - 32768;
      if (difference == 0) continue;
      constexpr int kMiddle = kTaps / 2;
      int least = kMiddle * kTaps + kMiddle, most = least;
      for (int a = kMiddle; a < kMiddle + 2; ++a)
        for (int b = kMiddle; b < kMiddle + 2; ++b) {
          const int at = a * kTaps + b;
          if (bytes[i][at] < bytes[i][least]) least = at;
          if (bytes[i][at] > bytes[i][most]) most = at;
        }
      int16_t& corrected = bytes[i][difference < 0 ? most : least];
      corrected = static_cast<int16_t>(corrected - difference);
    }
  }
};

template <int kTaps>
const Weights<kTaps>& weights() {
  static const auto* const table = new Weights<kTaps>;  // in use until the process ends
  return *table;
}

// Samples one pixel after the other.
template <typename T>
class Sampler {
 public:
  Sampler(const Picture& src, const WarpSettings& settings) : src_(src), border_(settings.border) {
    value_.resize(static_cast<size_t>(src.channels));
    for (size_t c = 0; c < value_.size(); ++c) value_[c] = saturated<T>(settings.value[c % 4]);
  }

  void nearest(const Places& places, int64_t n, T* dst) const {
    const int64_t channels = src_.channels;
    for (int64_t i = 0; i < n; ++i, dst += channels) {
      const T* p = at(places.x[static_cast<size_t>(i)], places.y[static_cast<size_t>(i)]);
      for (int64_t c = 0; c < channels; ++c) dst[c] = p[c];
    }
  }

  template <int kChannels>
  void linear(const Places& places, int64_t n, T* dst) const {
    const int64_t channels = kChannels > 0 ? kChannels : src_.channels;
    T* const start = dst;
    const PlaceRow row{places.x.data(), places.y.data(), places.fraction.data()};
    // After a pixel at an edge, those that follow are tried again, of one channel whole blocks.
    int64_t again = 0;
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<T, uint8_t>) {
        if (i >= again) {
          const int64_t end = linear_inside(src_, row, i, n, start);
          again = end + (channels == 1 ? 16 : 4);
          i = end;
          if (i == n) break;
        }
      }
      dst = start + i * channels;
      const int64_t x = places.x[static_cast<size_t>(i)], y = places.y[static_cast<size_t>(i)];
      if (is_outside(places, i, 1)) {
        for (; i < n && is_outside(places, i, 1); ++i, dst += channels)
          for (int64_t c = 0; c < channels; ++c) dst[c] = value_[static_cast<size_t>(c)];
        again = i--;
        continue;
      }
      const T *p00, *p01, *p10, *p11;
      if (x >= 0 && x < src_.width - 1 && y >= 0 && y < src_.height - 1) {
        p00 = src_.row<T>(y) + x * channels;
        p10 = src_.row<T>(y + 1) + x * channels;
        p01 = p00 + channels;
        p11 = p10 + channels;
      } else {
        p00 = at(x, y);
        p01 = at(x + 1, y);
        p10 = at(x, y + 1);
        p11 = at(x + 1, y + 1);
      }
      const int f = places.fraction[static_cast<size_t>(i)], fx = f % kFractions, fy = f / kFractions;
      const int w00 = (kFractions - fx) * (kFractions - fy), w01 = fx * (kFractions - fy);
      const int w10 = (kFractions - fx) * fy, w11 = fx * fy;
      for (int64_t c = 0; c < channels; ++c) {
        if constexpr (std::is_same_v<T, uint8_t>) {
          dst[c] = static_cast<T>((p00[c] * w00 + p01[c] * w01 + p10[c] * w10 + p11[c] * w11 + 512) >> 10);
        } else {
          using F = std::conditional_t<std::is_same_v<T, double>, double, float>;
          constexpr F kUnit = F{1} / (kFractions * kFractions);
          const F sum = static_cast<F>(p00[c]) * (static_cast<F>(w00) * kUnit) +
                        static_cast<F>(p01[c]) * (static_cast<F>(w01) * kUnit) +
                        static_cast<F>(p10[c]) * (static_cast<F>(w10) * kUnit) +
                        static_cast<F>(p11[c]) * (static_cast<F>(w11) * kUnit);
          dst[c] = saturated<T>(sum);
        }
      }
    }
  }

  template <int kTaps>
  void wide(const Places& places, int64_t n, T* dst) const {
    const Weights<kTaps>& table = weights<kTaps>();
    const int64_t channels = src_.channels;
    T* const start = dst;
    const PlaceRow row{places.x.data(), places.y.data(), places.fraction.data()};
    int64_t again = 0;  // as for linear interpolation
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<T, uint8_t>) {
        if (i >= again) {
          i = wide_inside(src_, row, kTaps, table.bytes[0], i, n, start);
          again = i + 4;
          if (i == n) break;
        }
      }
      dst = start + i * channels;
      const int64_t x = places.x[static_cast<size_t>(i)] - (kTaps / 2 - 1);
      const int64_t y = places.y[static_cast<size_t>(i)] - (kTaps / 2 - 1);
      const T* pixels[kTaps * kTaps];
      const bool inside = x >= 0 && y >= 0 && x + kTaps <= src_.width && y + kTaps <= src_.height;
      if (!inside && is_outside(places, i, kTaps / 2)) {
        for (int64_t c = 0; c < channels; ++c) dst[c] = value_[static_cast<size_t>(c)];
        again = i + 1;
        continue;
      }
      for (int k = 0; k < kTaps * kTaps; ++k)
        pixels[k] = inside ? src_.row<T>(y + k / kTaps) + (x + k % kTaps) * channels : at(x + k % kTaps, y + k / kTaps);
      const size_t f = places.fraction[static_cast<size_t>(i)];
      for (int64_t c = 0; c < channels; ++c) {
        if constexpr (std::is_same_v<T, uint8_t>) {
          int sum = 1 << 14;
          for (int k = 0; k < kTaps * kTaps; ++k) sum += pixels[k][c] * table.bytes[f][k];
          dst[c] = saturated<T>(sum >> 15);
        } else {
          using F = std::conditional_t<std::is_same_v<T, double>, double, float>;
          F sum = 0;
          for (int k = 0; k < kTaps * kTaps; ++k)
            sum += static_cast<F>(pixels[k][c]) * static_cast<F>(table.single[f][k]);
          dst[c] = saturated<T>(sum);
        }
      }
    }
  }

  void row(Interpolation how, const Places& places, int64_t n, T* dst) const {
    switch (how) {
      case Interpolation::kNearest:
        return nearest(places, n, dst);
      case Interpolation::kCubic:
        return wide<4>(places, n, dst);
      case Interpolation::kLanczos:
        return wide<8>(places, n, dst);
      default:
        if (src_.channels == 1) return linear<1>(places, n, dst);
        if (src_.channels == 3) return linear<3>(places, n, dst);
        if (src_.channels == 4) return linear<4>(places, n, dst);
        return linear<0>(places, n, dst);
    }
  }

 private:
  // Whether the border is constant and all neighbors lie there: `reach` before and after a place.
  bool is_outside(const Places& places, int64_t i, int64_t reach) const {
    const int64_t x = places.x[static_cast<size_t>(i)], y = places.y[static_cast<size_t>(i)];
    return border_ == Border::kConstant &&
           (x < -reach || y < -reach || x >= src_.width + reach - 1 || y >= src_.height + reach - 1);
  }
  const T* at(int64_t x, int64_t y) const {
    x = border_index(x, src_.width, border_);
    y = border_index(y, src_.height, border_);
    return x < 0 || y < 0 ? value_.data() : src_.row<T>(y) + x * src_.channels;
  }

  const Picture& src_;
  Border border_;
  std::vector<T> value_;
};

// Calls place(y, places) for each row of the result, and samples there.
template <typename T, typename Place>
Status warp_typed(const Picture& src, const Picture& dst, const WarpSettings& settings, const Finish* finish,
                  ThreadPool& pool, Place place) {
  const int64_t grain = std::max<int64_t>(1, kWarpedPixelsPerTask / std::max<int64_t>(1, dst.width));
  return over_rows(pool, dst.height, grain, [&](int64_t begin, int64_t end) {
    const Sampler<T> sampler(src, settings);
    Places places(dst.width, src);
    std::vector<T> row(finish == nullptr ? 0 : static_cast<size_t>(dst.width * src.channels));
    std::vector<uint8_t> scratch(finish == nullptr ? 0 : static_cast<size_t>(dst.width * 4));
    for (int64_t y = begin; y < end; ++y) {
      place(y, &places);
      sampler.row(settings.interpolation, places, dst.width, finish == nullptr ? dst.mutable_row<T>(y) : row.data());
      if constexpr (std::is_same_v<T, uint8_t>) {
        if (finish != nullptr) finish_row(*finish, row.data(), dst.width, scratch.data(), dst.mutable_row<char>(y));
      }
    }
  });
}

template <typename Place>
Status warp(const Picture& src, const Picture& dst, const WarpSettings& settings, const Finish* finish,
            ThreadPool& pool, Place place) {
  switch (src.dtype) {
    case DType::kU8:
      return warp_typed<uint8_t>(src, dst, settings, finish, pool, place);
    case DType::kU16:
      return warp_typed<uint16_t>(src, dst, settings, nullptr, pool, place);
    case DType::kI16:
      return warp_typed<int16_t>(src, dst, settings, nullptr, pool, place);
    case DType::kF32:
      return warp_typed<float>(src, dst, settings, nullptr, pool, place);
    case DType::kF64:
      return warp_typed<double>(src, dst, settings, nullptr, pool, place);
    default:
      return fail(Code::kUsage, "pictures of %s are not warped", dtype_name(src.dtype));
  }
}

}  // namespace

Status warp_affine(const Picture& src, const Picture& dst, const double* m, const WarpSettings& settings,
                   const Finish* finish, ThreadPool& pool) {
  const bool nearest = settings.interpolation == Interpolation::kNearest;
  constexpr int64_t kUnit = 1 << kCoordinateBits;
  const int64_t half = nearest ? kUnit / 2 : kUnit / kFractions / 2;
  std::vector<int32_t> dx(static_cast<size_t>(dst.width)), dy(dx.size());
  int64_t farthest = 0;
  for (size_t x = 0; x < dx.size(); ++x) {
    dx[x] = saturated<int32_t>(m[0] * static_cast<double>(x) * kUnit);
    dy[x] = saturated<int32_t>(m[3] * static_cast<double>(x) * kUnit);
    farthest = std::max({farthest, std::abs(int64_t{dx[x]}), std::abs(int64_t{dy[x]})});
  }
  return warp(src, dst, settings, finish, pool, [&](int64_t y, Places* places) {
    const int64_t x0 = fixed((m[1] * static_cast<double>(y) + m[2]) * kUnit) + half;
    const int64_t y0 = fixed((m[4] * static_cast<double>(y) + m[5]) * kUnit) + half;
    if (!nearest && std::max(std::abs(x0), std::abs(y0)) + farthest <= kFarthestPlace << kCoordinateBits)
      return affine_places(dx.data(), dy.data(), static_cast<int32_t>(x0), static_cast<int32_t>(y0), dst.width,
                           places->x.data(), places->y.data(), places->fraction.data());
    for (int64_t i = 0; i < dst.width; ++i) {
      const int64_t fx = x0 + dx[static_cast<size_t>(i)], fy = y0 + dy[static_cast<size_t>(i)];
      if (nearest) {
        places->set_whole(i, fx >> kCoordinateBits, fy >> kCoordinateBits);
      } else {
        places->set(i, fx >> (kCoordinateBits - kFractionBits), fy >> (kCoordinateBits - kFractionBits));
      }
    }
  });
}

Status warp_perspective(const Picture& src, const Picture& dst, const double* m, const WarpSettings& settings,
                        ThreadPool& pool) {
  const bool nearest = settings.interpolation == Interpolation::kNearest;
  return warp(src, dst, settings, nullptr, pool, [&](int64_t y, Places* places) {
    const double row = static_cast<double>(y);
    const double x0 = m[1] * row + m[2], y0 = m[4] * row + m[5], w0 = m[7] * row + m[8];
    for (int64_t i = 0; i < dst.width; ++i) {
      const double at = static_cast<double>(i), w = w0 + m[6] * at;
      const double scale = w != 0 ? (nearest ? 1 : kFractions) / w : 0;
      const int64_t fx = fixed((x0 + m[0] * at) * scale), fy = fixed((y0 + m[3] * at) * scale);
      if (nearest) {
        places->set_whole(i, fx, fy);
      } else {
        places->set(i, fx, fy);
      }
    }
  });
}

Status remap(const Picture& src, const Picture& dst, const Picture& map, const Picture* second,
             const WarpSettings& settings, ThreadPool& pool) {
  const bool nearest = settings.interpolation == Interpolation::kNearest;
  const bool floats = map.dtype == DType::kF32;
  return warp(src, dst, settings, nullptr, pool, [&](int64_t y, Places* places) {
    for (int64_t i = 0; i < dst.width; ++i) {
      if (floats) {
        const bool split = second != nullptr;
        const float mx = map.row<float>(y)[split ? i : 2 * i];
        const float my = split ? second->row<float>(y)[i] : map.row<float>(y)[2 * i + 1];
        if (nearest) {
          places->set_whole(i, fixed(static_cast<double>(mx)), fixed(static_cast<double>(my)));
        } else {
          places->set(i, fixed(static_cast<double>(mx * kFractions)), fixed(static_cast<double>(my * kFractions)));
        }
      } else {
        const int16_t* at = map.row<int16_t>(y) + 2 * i;
        const int f = second == nullptr ? 0 : second->row<uint16_t>(y)[i] & (kFractions * kFractions - 1);
        const int half = nearest ? kFractions / 2 : kFractions;  // which goes to the next pixel
        places->set_whole(i, at[0] + (f % kFractions >= half ? 1 : 0), at[1] + (f / kFractions >= half ? 1 : 0));
        places->fraction[static_cast<size_t>(i)] = static_cast<uint16_t>(f);
      }
    }
  });
}

namespace {

template <typename From, typename To>
void sub_pixel(const Picture& src, const Picture& dst, float x, float y) {
  x -= static_cast<float>(dst.width - 1) * 0.5f;
  y -= static_cast<float>(dst.height - 1) * 0.5f;
  const float floor_x = std::floor(x), floor_y = std::floor(y), fx = x - floor_x, fy = y - floor_y;
  const auto start = [](float v) {
    return std::clamp<int64_t>(static_cast<int64_t>(std::clamp(v, -1e9f, 1e9f)), -kFarthest, kFarthest);
  };
  const int64_t left = start(floor_x), top = start(floor_y), n = src.channels;
  const float w00 = (1 - fx) * (1 - fy), w01 = fx * (1 - fy), w10 = (1 - fx) * fy, w11 = fx * fy;
  const auto inside = [](int64_t i, int64_t size) { return std::clamp<int64_t>(i, 0, size - 1); };
  for (int64_t row = 0; row < dst.height; ++row) {
    const From* a = src.row<From>(inside(top + row, src.height));
    const From* b = src.row<From>(inside(top + row + 1, src.height));
    To* to = dst.mutable_row<To>(row);
    for (int64_t column = 0; column < dst.width; ++column) {
      const int64_t p = inside(left + column, src.width) * n, q = inside(left + column + 1, src.width) * n;
      for (int64_t c = 0; c < n; ++c, ++to)
        *to = saturated<To>(static_cast<float>(a[p + c]) * w00 + static_cast<float>(a[q + c]) * w01 +
                            static_cast<float>(b[p + c]) * w10 + static_cast<float>(b[q + c]) * w11);
    }
  }
}

}  // namespace

Status rect_sub_pixel(const Picture& src, const Picture& dst, float x, float y) {
  if (src.dtype == DType::kF32) {
    sub_pixel<float, float>(src, dst, x, y);
  } else if (dst.dtype == DType::kF32) {
    sub_pixel<uint8_t, float>(src, dst, x, y);
  } else {
    sub_pixel<uint8_t, uint8_t>(src, dst, x, y);
  }
  return ok();
}

}  // namespace minnow::vision
