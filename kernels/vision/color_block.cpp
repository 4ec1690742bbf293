#include "kernels/vision/color_block.h"

#include <cmath>
#include <cstring>

#include "kernels/vision/color_pixel.h"

#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::vision::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void SplitBlock(const uint8_t* src, int64_t channels, uint8_t* a, uint8_t* b, uint8_t* c) {
  const hn::CappedTag<uint8_t, kColorBlock> d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  for (int i = 0; i < kColorBlock; i += lanes, src += channels * lanes) {
    hn::Vec<decltype(d)> x, y, z, alpha;
    if (channels == 3) {
      hn::LoadInterleaved3(d, src, x, y, z);
    } else {
      hn::LoadInterleaved4(d, src, x, y, z, alpha);
    }
    hn::StoreU(x, d, a + i);
    hn::StoreU(y, d, b + i);
    hn::StoreU(z, d, c + i);
  }
}

void JoinBlock(const uint8_t* a, const uint8_t* b, const uint8_t* c, uint8_t* dst, int64_t channels) {
  const hn::CappedTag<uint8_t, kColorBlock> d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  for (int i = 0; i < kColorBlock; i += lanes, dst += channels * lanes) {
    const auto x = hn::LoadU(d, a + i), y = hn::LoadU(d, b + i), z = hn::LoadU(d, c + i);
    if (channels == 3) {
      hn::StoreInterleaved3(x, y, z, d, dst);
    } else {
      hn::StoreInterleaved4(x, y, z, hn::Set(d, uint8_t{255}), d, dst);
    }
  }
}

HWY_INLINE uint8_t Byte(int32_t x) { return static_cast<uint8_t>(x < 0 ? 0 : x > 255 ? 255 : x); }
// To the nearest: the fraction is lost in the sum.
HWY_INLINE int32_t Nearest(float x) {
  constexpr float kLarge = 12582912.0f;
  return static_cast<int32_t>((x + kLarge) - kLarge);
}
// Blue, green and red to 16 bits: 5, 6 or 5, and 5 of them.
void PackBlock(const ColorPlanes& p, bool six, uint16_t* dst) {
  if (six) {
    for (int i = 0; i < kColorBlock; ++i)
      dst[i] = static_cast<uint16_t>(p.a[i] >> 3 | (p.b[i] & ~3) << 3 | (p.c[i] & ~7) << 8);
  } else {
    for (int i = 0; i < kColorBlock; ++i)
      dst[i] = static_cast<uint16_t>(p.a[i] >> 3 | (p.b[i] & ~7) << 2 | (p.c[i] & ~7) << 7);
  }
}

// Blue, green and red to video: luma, and chroma of each second pixel. Weights of 20 bits.
constexpr int kVideoBits = 20;
constexpr int32_t kVideoHalf = 1 << 19;
using VideoTag = hn::CappedTag<int32_t, kColorBlock / 2>;
template <class V>
HWY_INLINE void StoreVideo(V blue, V green, V red, const int32_t (&weights)[3], int32_t start, uint8_t* dst) {
  const VideoTag d;
  const hn::Rebind<uint8_t, VideoTag> bytes;
  const auto sum =
      hn::Add(hn::Add(hn::Mul(blue, hn::Set(d, weights[0])), hn::Mul(green, hn::Set(d, weights[1]))),
              hn::Add(hn::Mul(red, hn::Set(d, weights[2])), hn::Set(d, (start << kVideoBits) + kVideoHalf)));
  hn::StoreU(hn::DemoteTo(bytes, hn::ShiftRight<kVideoBits>(sum)), bytes, dst);
}
void VideoLuma(const ColorPlanes& p, uint8_t* y) {
  const VideoTag d;
  const hn::Rebind<uint8_t, VideoTag> bytes;
  const auto load = [&](const uint8_t* from) HWY_ATTR { return hn::PromoteTo(d, hn::LoadU(bytes, from)); };
  for (int i = 0; i < kColorBlock; i += static_cast<int>(hn::Lanes(d)))
    StoreVideo(load(p.a + i), load(p.b + i), load(p.c + i), {102760, 528482, 269484}, 16, y + i);
}
void VideoChroma(const ColorPlanes& p, uint8_t* u, uint8_t* v) {
  const VideoTag d;
  const hn::Rebind<uint16_t, VideoTag> words;
  const hn::Repartition<uint8_t, decltype(words)> bytes;
  // The lower byte of a word is the first of two pixels.
  const auto load = [&](const uint8_t* from) HWY_ATTR {
    return hn::And(hn::PromoteTo(d, hn::BitCast(words, hn::LoadU(bytes, from))), hn::Set(d, 255));
  };
  for (int i = 0; i < kColorBlock / 2; i += static_cast<int>(hn::Lanes(d))) {
    const auto b = load(p.a + 2 * i), g = load(p.b + 2 * i), r = load(p.c + 2 * i);
    StoreVideo(b, g, r, {460324, -305135, -155188}, 128, u + i);
    StoreVideo(b, g, r, {-74448, -385875, 460324}, 128, v + i);
  }
}

HWY_INLINE uint8_t Byte(float x) {
  x = x < 0 ? 0 : x;
  return static_cast<uint8_t>(Nearest(x > 255 ? 255 : x));
}
HWY_INLINE float Least(float a, float b) { return a < b ? a : b; }
HWY_INLINE float Most(float a, float b) { return a < b ? b : a; }
HWY_INLINE float Unit(float x) { return Least(Most(x, 0.0f), 1.0f); }
HWY_INLINE int32_t Rounded(int32_t x, int bits) { return (x + (1 << (bits - 1))) >> bits; }

// The constants are copied: for the compiler, bytes that are written may be a part of them.

// Blocks of blue, green and red to another space, and back; k.whole has the weights. Differences of two channels from
// luma, first that of the third channel.
void ToDifferences(const BlockConstants& given, ColorPlanes* p) {
  const BlockConstants k = given;
  for (int i = 0; i < kColorBlock; ++i) {
    const int32_t a = p->a[i], g = p->b[i], c = p->c[i];
    const int32_t y = Rounded(a * k.whole[2] + g * 9617 + c * k.whole[3], 14);
    p->a[i] = Byte(y);
    p->b[i] = Byte(Rounded((c - y) * k.whole[0] + (128 << 14), 14));
    p->c[i] = Byte(Rounded((a - y) * k.whole[1] + (128 << 14), 14));
  }
}
void FromDifferences(const BlockConstants& given, ColorPlanes* p) {
  const BlockConstants k = given;
  for (int i = 0; i < kColorBlock; ++i) {
    const int32_t y = p->a[i], first = p->b[i] - 128, second = p->c[i] - 128;
    p->a[i] = Byte(y + Rounded(second * k.whole[3], 14));
    p->b[i] = Byte(y + Rounded(second * k.whole[2] + first * k.whole[1], 14));
    p->c[i] = Byte(y + Rounded(first * k.whole[0], 14));
  }
}
void Matrix(const BlockConstants& given, ColorPlanes* p) {
  const BlockConstants k = given;
  for (int i = 0; i < kColorBlock; ++i) {
    const int32_t x = p->a[i], y = p->b[i], z = p->c[i];
    p->a[i] = Byte(Rounded(x * k.whole[0] + y * k.whole[1] + z * k.whole[2], 12));
    p->b[i] = Byte(Rounded(x * k.whole[3] + y * k.whole[4] + z * k.whole[5], 12));
    p->c[i] = Byte(Rounded(x * k.whole[6] + y * k.whole[7] + z * k.whole[8], 12));
  }
}

// Where the hue of pixels lies: third 0, 1 or 2 of the circle, for that channel is the largest, and the difference of
// the other two.
struct HueBlock {
  uint8_t most[kColorBlock], least[kColorBlock], plus[kColorBlock], minus[kColorBlock], third[kColorBlock];
};
HWY_INLINE void FindHues(const ColorPlanes& p, HueBlock* to) {
  const hn::CappedTag<uint8_t, kColorBlock> d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  for (int i = 0; i < kColorBlock; i += lanes) {
    const auto b = hn::LoadU(d, p.a + i), g = hn::LoadU(d, p.b + i), r = hn::LoadU(d, p.c + i);
    const auto most = hn::Max(hn::Max(b, g), r);
    const auto red = hn::Eq(most, r), green = hn::Eq(most, g);
    hn::StoreU(most, d, to->most + i);
    hn::StoreU(hn::Min(hn::Min(b, g), r), d, to->least + i);
    hn::StoreU(hn::IfThenElse(red, g, hn::IfThenElse(green, b, r)), d, to->plus + i);
    hn::StoreU(hn::IfThenElse(red, b, hn::IfThenElse(green, r, g)), d, to->minus + i);
    hn::StoreU(hn::IfThenZeroElse(red, hn::IfThenElse(green, hn::Set(d, uint8_t{1}), hn::Set(d, uint8_t{2}))), d,
               to->third + i);
  }
}

void ToHsv(const BlockConstants& given, ColorPlanes* p) {
  const BlockConstants k = given;
  HueBlock hue;
  FindHues(*p, &hue);
  const float whole = static_cast<float>(k.circle << 12) / 6;
  for (int i = 0; i < kColorBlock; ++i) {
    const int32_t most = hue.most[i], range = most - hue.least[i];
    // Quotients of 12 bits, of which OpenCV has tables.
    const int32_t per_range = Nearest(whole / static_cast<float>(range < 1 ? 1 : range));
    const int32_t per_most = Nearest(static_cast<float>(255 << 12) / static_cast<float>(most < 1 ? 1 : most));
    const int32_t h = Rounded((hue.plus[i] - hue.minus[i] + 2 * range * hue.third[i]) * per_range, 12);
    p->a[i] = Byte(h < 0 ? h + k.circle : h);
    p->b[i] = static_cast<uint8_t>(Rounded(range * per_most, 12));
    p->c[i] = hue.most[i];
  }
}

void ToHls(const BlockConstants& given, ColorPlanes* p) {
  const BlockConstants k = given;
  HueBlock hue;
  FindHues(*p, &hue);
  for (int i = 0; i < kColorBlock; ++i) {
    constexpr float kUnit = 1 / 255.0f;
    const float most = hue.most[i] * kUnit, least = hue.least[i] * kUnit, sum = most + least, range = most - least;
    // Without color the numerators are 0, whatever the divisors.
    const float saturation = range / Most(Least(sum, 2 - sum), 1e-6f), turn = 60.0f / Most(range, 1e-6f);
    const float h = (hue.plus[i] * kUnit - hue.minus[i] * kUnit) * turn + static_cast<float>(hue.third[i]) * 120;
    p->a[i] = Byte((h < 0 ? h + 360 : h) * k.hue);
    p->b[i] = Byte(sum * (0.5f * 255));
    p->c[i] = Byte(saturation * 255);
  }
}

// Each channel is a function of the distance to its own hue.
void FromHsv(const BlockConstants& given, ColorPlanes* p) {
  const BlockConstants k = given;
  for (int i = 0; i < kColorBlock; ++i) {
    float h = p->a[i] * k.hue;
    h = h >= 6 ? h - 6 : h;
    const float v = p->c[i], part = v * (p->b[i] * (1 / 255.0f));
    const auto channel = [&](float start) HWY_ATTR {
      float at = h + start;
      at = at >= 6 ? at - 6 : at;
      return Byte(v - part * Unit(Least(at, 4 - at)));
    };
    p->a[i] = channel(1);
    p->b[i] = channel(3);
    p->c[i] = channel(5);
  }
}
void FromHls(const BlockConstants& given, ColorPlanes* p) {
  const BlockConstants k = given;
  for (int i = 0; i < kColorBlock; ++i) {
    float h = p->a[i] * (2 * k.hue);
    h = h >= 12 ? h - 12 : h;
    const float light = p->b[i], part = p->c[i] * (1 / 255.0f) * Least(light, 255 - light);
    const auto channel = [&](float start) HWY_ATTR {
      float at = h + start;
      at = at >= 12 ? at - 12 : at;
      return Byte(light - part * Most(-1.0f, Least(Least(at - 3, 9 - at), 1.0f)));
    };
    p->a[i] = channel(4);
    p->b[i] = channel(8);
    p->c[i] = channel(0);
  }
}

// The cube root of a number from 0.008 to 1: a guess that divides the exponent, and three steps of Newton's method.
HWY_INLINE float Root(float x) {
  int32_t bits;
  std::memcpy(&bits, &x, 4);
  bits = static_cast<int32_t>(static_cast<float>(bits) * (1 / 3.0f)) + 709921077;
  float y;
  std::memcpy(&y, &bits, 4);
  for (int step = 0; step < 3; ++step) y = y * (2 / 3.0f) + x * (1 / 3.0f) / (y * y);
  return y;
}

constexpr float kWhiteX = 0.950456f, kWhiteZ = 1.088754f;
constexpr float kPlaceU = 4 * kWhiteX / (kWhiteX + 15 + 3 * kWhiteZ), kPlaceV = 9.0f / (kWhiteX + 15 + 3 * kWhiteZ);

void ToLuv(const BlockConstants& given, ColorPlanes* p) {
  const BlockConstants k = given;
  float red[kColorBlock], green[kColorBlock], blue[kColorBlock];
  for (int i = 0; i < kColorBlock; ++i) {
    blue[i] = k.linear[p->a[i]];
    green[i] = k.linear[p->b[i]];
    red[i] = k.linear[p->c[i]];
  }
  for (int i = 0; i < kColorBlock; ++i) {
    const float r = red[i], g = green[i], b = blue[i];
    const float x = kRgbToXyz[0][0] * r + kRgbToXyz[0][1] * g + kRgbToXyz[0][2] * b;
    const float y = kRgbToXyz[1][0] * r + kRgbToXyz[1][1] * g + kRgbToXyz[1][2] * b;
    const float z = kRgbToXyz[2][0] * r + kRgbToXyz[2][1] * g + kRgbToXyz[2][2] * b;
    const float light = y > 0.008856f ? 116 * Root(Most(y, 0.008f)) - 16 : 903.3f * y;
    const float d = 1 / Most(x + 15 * y + 3 * z, 1.1920929e-7f);
    const float u = 13 * light * (4 * x * d - kPlaceU), v = 13 * light * (9 * y * d - kPlaceV);
    p->a[i] = Byte(light * 2.55f);
    p->b[i] = Byte((u + 134) * (255.0f / 354));
    p->c[i] = Byte((v + 140) * (255.0f / 262));
  }
}

// XYZ in steps of 2^-14 to linear values of 12 bits, and these to bytes by a table.
HWY_INLINE void FromXyz(const BlockConstants& k, const int32_t* x, const int32_t* y, const int32_t* z, ColorPlanes* p) {
  int32_t at[3][kColorBlock];
  for (int c = 0; c < 3; ++c) {
    const int32_t *weight = k.whole + 3 * c, of_x = weight[0], of_y = weight[1], of_z = weight[2];
    for (int i = 0; i < kColorBlock; ++i) {
      const int32_t sum = Rounded(of_x * x[i] + of_y * y[i] + of_z * z[i], 14);
      at[c][i] = sum < 0 ? 0 : sum > 4095 ? 4095 : sum;
    }
  }
  for (int i = 0; i < kColorBlock; ++i) {
    p->a[i] = k.gamma[at[0][i]];
    p->b[i] = k.gamma[at[1][i]];
    p->c[i] = k.gamma[at[2][i]];
  }
}

// The cube of a root in steps of 2^-14, or the line below 6 / 29; rounded after each step, as OpenCV does.
HWY_INLINE int32_t Cubed(int32_t root) {
  const int32_t line = static_cast<int32_t>(static_cast<float>(root * 108) / 841) - 290;
  return root <= 3390 ? line : ((root * root >> 14) * root) >> 14;
}

void FromLab(const BlockConstants& given, ColorPlanes* p) {
  const BlockConstants k = given;
  int32_t x[kColorBlock], y[kColorBlock], z[kColorBlock], root[kColorBlock];
  for (int i = 0; i < kColorBlock; ++i) {
    y[i] = k.light[p->a[i]];
    root[i] = k.light[256 + p->a[i]];
  }
  for (int i = 0; i < kColorBlock; ++i) {
    x[i] = Cubed(root[i] + ((5 * 53687 * p->b[i] + 128) >> 13) - 4194);
    z[i] = Cubed(root[i] - ((41943 * p->c[i] + 16) >> 9) + 10484);
  }
  FromXyz(k, x, y, z, p);
}

// The whole numbers are doubles, since products need more than 32 bits.
void FromLuv(const BlockConstants& given, ColorPlanes* p) {
  const BlockConstants k = given;
  constexpr double kStep = 1.0 / (1 << 14);
  int32_t x[kColorBlock], y[kColorBlock], z[kColorBlock], of_u[kColorBlock], of_v[kColorBlock];
  for (int i = 0; i < kColorBlock; ++i) {
    y[i] = k.light[p->a[i]];
    of_u[i] = k.chroma[p->a[i] * 256 + p->b[i]];
    of_v[i] = k.chroma[(256 + p->a[i]) * 256 + p->c[i]];
  }
  for (int i = 0; i < kColorBlock; ++i) {
    const double light = y[i], v = of_v[i], product = of_u[i] * v;
    const auto bounded = [](double value) HWY_ATTR {
      return static_cast<int32_t>(value < 0 ? 0 : value > (2 << 14) ? (2 << 14) : value);
    };
    x[i] = bounded(light * std::trunc(product * kStep) * kStep);
    const double height = v * p->a[i] * (12 * 13 * 100 * 16) - product * 85;
    const double depth = std::trunc(light * (std::trunc(height * kStep) - 5 * 255 * (1 << 14)) * kStep);
    z[i] = bounded(std::trunc(depth * (1.0 / 256)) + std::trunc(depth * (1.0 / 65536)));
  }
  FromXyz(k, x, y, z, p);
}

// Floats of 3 or 4 channels to gray, and in another order. Return how many pixels are done.
template <bool four, class D, class V>
HWY_INLINE void LoadColors(D d, const float* p, V& a, V& b, V& c, V& alpha) {
  if constexpr (four) {
    hn::LoadInterleaved4(d, p, a, b, c, alpha);
  } else {
    hn::LoadInterleaved3(d, p, a, b, c);
  }
}
template <bool four>
HWY_INLINE int64_t GrayOf(const float* src, bool swap, float* dst, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto first = hn::Set(d, swap ? 0.299f : 0.114f), second = hn::Set(d, 0.587f);
  const auto third = hn::Set(d, swap ? 0.114f : 0.299f);
  hn::Vec<decltype(d)> a, b, c, alpha;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    LoadColors<four>(d, src + (four ? 4 : 3) * i, a, b, c, alpha);
    hn::StoreU(hn::Add(hn::Add(hn::Mul(a, first), hn::Mul(b, second)), hn::Mul(c, third)), d, dst + i);
  }
  return i;
}
int64_t GrayFloats(const float* src, int64_t from, bool swap, float* dst, int64_t n) {
  return from == 4 ? GrayOf<true>(src, swap, dst, n) : GrayOf<false>(src, swap, dst, n);
}
int64_t SwapFloats(const float* src, float* dst, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> a, b, c;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::LoadInterleaved3(d, src + 3 * i, a, b, c);
    hn::StoreInterleaved3(c, b, a, d, dst + 3 * i);
  }
  return i;
}

}  // namespace minnow::vision::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <array>
#include <memory>

namespace minnow::vision {

HWY_EXPORT(SplitBlock);
HWY_EXPORT(JoinBlock);
HWY_EXPORT(ToDifferences);
HWY_EXPORT(FromDifferences);
HWY_EXPORT(Matrix);
HWY_EXPORT(ToHsv);
HWY_EXPORT(ToHls);
HWY_EXPORT(FromHsv);
HWY_EXPORT(FromHls);
HWY_EXPORT(ToLuv);
HWY_EXPORT(FromLab);
HWY_EXPORT(FromLuv);
HWY_EXPORT(PackBlock);
HWY_EXPORT(GrayFloats);
HWY_EXPORT(SwapFloats);
HWY_EXPORT(VideoLuma);
HWY_EXPORT(VideoChroma);

namespace {

template <size_t n>
void set_weights(const int32_t (&weights)[n], BlockConstants* k) {
  std::copy(weights, weights + n, k->whole);
}

// Bytes of linear values of 12 bits.
const uint8_t* gamma_table(bool linear) {
  static const auto tables = [] {
    std::array<std::array<uint8_t, 4096>, 2> made;
    for (size_t i = 0; i < 4096; ++i) {
      const float x = static_cast<float>(i) / 4096;
      made[0][i] = saturated<uint8_t>(255 * to_gamma(x));
      made[1][i] = static_cast<uint8_t>(255 * x);  // cut off, as in OpenCV
    }
    return made;
  }();
  return tables[linear ? 1 : 0].data();
}

// Any number of pixels up to a block.
void split_pixels_of(const uint8_t* src, int64_t channels, bool swap, int64_t n, ColorPlanes* p) {
  uint8_t padded[4 * kColorBlock];
  if (n < kColorBlock) {
    std::memset(padded, 0, sizeof padded);
    std::memcpy(padded, src, static_cast<size_t>(n * channels));
    src = padded;
  }
  HWY_DYNAMIC_DISPATCH(SplitBlock)(src, channels, swap ? p->c : p->a, p->b, swap ? p->a : p->c);
}

// Steps of 2^-14 by the lightness of bytes: Y, and then its root.
const int32_t* light_table() {
  static const auto table = [] {
    std::array<int32_t, 512> made;
    for (size_t i = 0; i < 256; ++i) {
      const double light = static_cast<double>(i) / 2.55, root = (light + 16) / 116;
      made[i] = saturated<int32_t>((1 << 14) * (i <= 20 ? light * (27 / 24389.0) : root * root * root));
      made[256 + i] = saturated<int32_t>((1 << 14) * root);
    }
    return made;
  }();
  return table.data();
}

// By lightness and u the ninefold numerator of X, in steps of 1 / 16; by lightness and v a fourth of the inverse of V,
// in steps of 2^-24.
const int32_t* chroma_table() {
  static const auto table = [] {
    auto made = std::make_unique<int32_t[]>(size_t{2} << 16);
    constexpr double kSum = 0.950456 + 15 + 3 * 1.088754;
    for (size_t i = 0; i < size_t{1} << 16; ++i) {
      const double light = static_cast<double>(i >> 8) / 2.55, byte = static_cast<double>(i & 255) / 255;
      made[i] = saturated<int32_t>(144 * (byte * 354 - 134 + light * (52 * 0.950456 / kSum)));
      const double divisor = byte * 262 - 140 + light * (117 / kSum);
      made[i + (size_t{1} << 16)] = saturated<int32_t>((1 << 24) * std::clamp(0.25 / divisor, -0.25, 0.25));
    }
    return made;
  }();
  return table.get();
}

// Of blue, green and red in XYZ, in steps of 2^-12.
void set_xyz_weights(double white_x, double white_z, BlockConstants* k) {
  for (size_t i = 0; i < 9; ++i) {
    const double white = i % 3 == 0 ? white_x : i % 3 == 2 ? white_z : 1;
    k->whole[i] = saturated<int32_t>(4096 * white * static_cast<double>(kXyzToRgb[2 - i / 3][i % 3]));
  }
}

const float* linear_table(bool linear) {
  static const auto tables = [] {
    std::array<std::array<float, 256>, 2> made;
    for (size_t i = 0; i < 256; ++i) {
      made[1][i] = static_cast<float>(i) / 255;
      made[0][i] = to_linear(made[1][i]);
    }
    return made;
  }();
  return tables[linear ? 1 : 0].data();
}

}  // namespace

ColorBlockFunction color_block(const ColorChange& change, BlockConstants* k) {
  const bool back = change.back;
  switch (change.space) {
    case ColorSpace::kYCrCb:
      back ? set_weights({22987, -11698, -5636, 29049}, k) : set_weights({11682, 9241, 1868, 4899}, k);
      return back ? HWY_DYNAMIC_DISPATCH(FromDifferences) : HWY_DYNAMIC_DISPATCH(ToDifferences);
    case ColorSpace::kYuv:  // the difference of blue comes first: of red, green and blue
      k->is_reversed = true;
      back ? set_weights({33292, -6472, -9519, 18678}, k) : set_weights({8061, 14369, 4899, 1868}, k);
      return back ? HWY_DYNAMIC_DISPATCH(FromDifferences) : HWY_DYNAMIC_DISPATCH(ToDifferences);
    case ColorSpace::kXyz:  // of blue, green and red
      back ? set_weights({228, -836, 4331, -3970, 7684, 170, 13273, -6296, -2042}, k)
           : set_weights({739, 1465, 1689, 296, 2929, 871, 3892, 488, 79}, k);
      return HWY_DYNAMIC_DISPATCH(Matrix);
    case ColorSpace::kHsv:
      k->circle = change.full ? 256 : 180;
      k->hue = 6.0f / (change.full ? 255 : 180);
      return back ? HWY_DYNAMIC_DISPATCH(FromHsv) : HWY_DYNAMIC_DISPATCH(ToHsv);
    case ColorSpace::kHls: {
      const float circle = change.full ? 255 : 180;
      k->hue = back ? 6 / circle : circle / 360;
      return back ? HWY_DYNAMIC_DISPATCH(FromHls) : HWY_DYNAMIC_DISPATCH(ToHls);
    }
    case ColorSpace::kLab:
      if (!back) return nullptr;
      k->gamma = gamma_table(change.linear);
      k->light = light_table();
      set_xyz_weights(0.950456, 1.088754, k);
      return HWY_DYNAMIC_DISPATCH(FromLab);
    case ColorSpace::kLuv:
      k->linear = linear_table(change.linear);
      if (!back) return HWY_DYNAMIC_DISPATCH(ToLuv);
      k->gamma = gamma_table(change.linear);
      k->light = light_table();
      k->chroma = chroma_table();
      set_xyz_weights(1, 1, k);
      return HWY_DYNAMIC_DISPATCH(FromLuv);
    default:
      return nullptr;
  }
}

void color_blocks(ColorBlockFunction function, const BlockConstants& constants, const uint8_t* src, int64_t from,
                  bool swap_in, uint8_t* dst, int64_t to, bool swap_out, int64_t n) {
  ColorPlanes planes;
  for (int64_t at = 0; at < n; at += kColorBlock, src += kColorBlock * from, dst += kColorBlock * to) {
    const int64_t m = std::min<int64_t>(kColorBlock, n - at);
    split_pixels_of(src, from, swap_in, m, &planes);
    function(constants, &planes);
    join_planes(swap_out ? planes.c : planes.a, planes.b, swap_out ? planes.a : planes.c, dst, to, m);
  }
}

int64_t gray_floats(const float* src, int64_t from, bool swap, float* dst, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(GrayFloats)(src, from, swap, dst, n);
}
int64_t swap_floats(const float* src, float* dst, int64_t n) { return HWY_DYNAMIC_DISPATCH(SwapFloats)(src, dst, n); }

void pack_colors(const uint8_t* src, int64_t from, bool swap, bool six, uint8_t* dst, int64_t n) {
  ColorPlanes planes;
  uint16_t words[kColorBlock];
  for (int64_t at = 0; at < n; at += kColorBlock) {
    const int64_t m = std::min<int64_t>(kColorBlock, n - at);
    split_pixels_of(src + at * from, from, swap, m, &planes);
    HWY_DYNAMIC_DISPATCH(PackBlock)(planes, six, words);
    std::memcpy(dst + 2 * at, words, static_cast<size_t>(2 * m));
  }
}

void video_block(const uint8_t* src, int64_t from, bool swap, int64_t n, uint8_t* y, uint8_t* u, uint8_t* v) {
  ColorPlanes planes;
  split_pixels_of(src, from, swap, n, &planes);
  HWY_DYNAMIC_DISPATCH(VideoLuma)(planes, y);
  if (u != nullptr) HWY_DYNAMIC_DISPATCH(VideoChroma)(planes, u, v);
}

void join_planes(const uint8_t* a, const uint8_t* b, const uint8_t* c, uint8_t* dst, int64_t channels, int64_t n) {
  if (n >= kColorBlock) return HWY_DYNAMIC_DISPATCH(JoinBlock)(a, b, c, dst, channels);
  uint8_t pixels[4 * kColorBlock];
  HWY_DYNAMIC_DISPATCH(JoinBlock)(a, b, c, pixels, channels);
  std::memcpy(dst, pixels, static_cast<size_t>(n * channels));
}

}  // namespace minnow::vision
#endif
