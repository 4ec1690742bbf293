// Hue, saturation and lightness, and the spaces where distances are those that people see.
#include <array>
#include <cmath>

#include "kernels/vision/color_pixel.h"

namespace minnow::vision {
namespace {

constexpr float kEpsilon = 1.1920929e-7f;
constexpr float kWhite[3] = {0.950456f, 1.0f, 1.088754f};
constexpr float kWhiteU = 4 * 0.950456f / (0.950456f + 15 + 3 * 1.088754f);
constexpr float kWhiteV = 9.0f / (0.950456f + 15 + 3 * 1.088754f);

struct Rgb {
  float r, g, b;
};
struct Triple {
  float a, b, c;
};

// The hue in degrees. `scale`: 60 degrees per difference of channels.
float hue_of(const Rgb& p, float most, float scale) {
  float h;
  if (most == p.r) {
    h = (p.g - p.b) * scale;
  } else if (most == p.g) {
    h = (p.b - p.r) * scale + 120;
  } else {
    h = (p.r - p.g) * scale + 240;
  }
  return h < 0 ? h + 360 : h;
}

Triple hsv_of(const Rgb& p) {
  const float most = std::max({p.r, p.g, p.b}), least = std::min({p.r, p.g, p.b}), range = most - least;
  return {hue_of(p, most, 60.0f / (range + kEpsilon)), range / (std::fabs(most) + kEpsilon), most};
}

Triple hls_of(const Rgb& p) {
  const float most = std::max({p.r, p.g, p.b}), least = std::min({p.r, p.g, p.b}), range = most - least;
  const float lightness = (most + least) * 0.5f;
  if (!(range > kEpsilon)) return {0, lightness, 0};
  const float saturation = range / (lightness < 0.5f ? most + least : 2 - most - least);
  return {hue_of(p, most, 60.0f / range), lightness, saturation};
}

// Which of four values blue, green and red are, in each sixth of the circle.
constexpr int kSectors[6][3] = {{1, 3, 0}, {1, 0, 2}, {3, 0, 1}, {0, 2, 1}, {0, 1, 3}, {2, 1, 0}};

// `sixths`: the hue, 6 are a circle. Splits it into the sector and the rest.
int sector_of(float* sixths) {
  if (!(std::fabs(*sixths) < 1e9f)) *sixths = 0;
  float h = std::fmod(*sixths, 6.0f);
  if (h < 0) h += 6;
  const int sector = std::min(static_cast<int>(h), 5);
  *sixths = h - static_cast<float>(sector);
  return sector;
}

Rgb from_hsv(float sixths, float s, float v) {
  if (s == 0) return {v, v, v};
  const int sector = sector_of(&sixths);
  const float values[4] = {v, v * (1 - s), v * (1 - s * sixths), v * (1 - s * (1 - sixths))};
  const int* at = kSectors[sector];
  return {values[at[2]], values[at[1]], values[at[0]]};
}

Rgb from_hls(float sixths, float l, float s) {
  if (s == 0) return {l, l, l};
  const float high = l <= 0.5f ? l * (1 + s) : l + s - l * s, low = 2 * l - high;
  const int sector = sector_of(&sixths);
  const float values[4] = {high, low, low + (high - low) * (1 - sixths), low + (high - low) * sixths};
  const int* at = kSectors[sector];
  return {values[at[2]], values[at[1]], values[at[0]]};
}

float unit(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

std::array<float, 3> times(const float (&m)[3][3], const float (&x)[3]) {
  std::array<float, 3> y;
  for (size_t k = 0; k < 3; ++k) y[k] = m[k][0] * x[0] + m[k][1] * x[1] + m[k][2] * x[2];
  return y;
}

// Of linear RGB.
Triple lab_of(const Rgb& p) {
  const std::array<float, 3> xyz = times(kRgbToXyz, {p.r, p.g, p.b});
  const auto f = [](float t) { return t > 0.008856f ? std::cbrt(t) : 7.787f * t + 16.0f / 116; };
  const float fx = f(xyz[0] / kWhite[0]), fy = f(xyz[1]), fz = f(xyz[2] / kWhite[2]);
  return {xyz[1] > 0.008856f ? 116 * fy - 16 : 903.3f * xyz[1], 500 * (fx - fy), 200 * (fy - fz)};
}

Triple luv_of(const Rgb& p) {
  const std::array<float, 3> xyz = times(kRgbToXyz, {p.r, p.g, p.b});
  const float lightness = xyz[1] > 0.008856f ? 116 * std::cbrt(xyz[1]) - 16 : 903.3f * xyz[1];
  const float d = 1 / std::max(xyz[0] + 15 * xyz[1] + 3 * xyz[2], kEpsilon);
  return {lightness, 13 * lightness * (4 * xyz[0] * d - kWhiteU), 13 * lightness * (9 * xyz[1] * d - kWhiteV)};
}

Rgb from_xyz(const float (&xyz)[3]) {
  const std::array<float, 3> rgb = times(kXyzToRgb, xyz);
  return {unit(rgb[0]), unit(rgb[1]), unit(rgb[2])};
}

Rgb from_lab(float l, float a, float b) {
  float y, fy;
  if (l <= 8) {
    y = l / 903.3f;
    fy = 7.787f * y + 16.0f / 116;
  } else {
    fy = (l + 16) / 116;
    y = fy * fy * fy;
  }
  const auto back = [](float f) { return f <= 0.206896552f ? (f - 16.0f / 116) / 7.787f : f * f * f; };
  return from_xyz({back(fy + a / 500) * kWhite[0], y, back(fy - b / 200) * kWhite[2]});
}

Rgb from_luv(float l, float u, float v) {
  const float f = (l + 16) / 116, y = l >= 8 ? f * f * f : l / 903.3f;
  const float up = 3 * (u + l * 13 * kWhiteU);
  const float vp = std::min(0.25f, std::max(-0.25f, 0.25f / (v + l * 13 * kWhiteV)));
  return from_xyz({3 * y * up * vp, y, y * ((12 * 13 * l - up) * vp - 5)});
}

Triple forth(const ColorChange& change, const Rgb& p) {
  switch (change.space) {
    case ColorSpace::kHsv:
      return hsv_of(p);
    case ColorSpace::kHls:
      return hls_of(p);
    default: {
      const Rgb unit_rgb{unit(p.r), unit(p.g), unit(p.b)};
      const Rgb q = change.linear ? unit_rgb : Rgb{to_linear(unit_rgb.r), to_linear(unit_rgb.g), to_linear(unit_rgb.b)};
      return change.space == ColorSpace::kLab ? lab_of(q) : luv_of(q);
    }
  }
}

Rgb back(const ColorChange& change, const Triple& t) {
  switch (change.space) {
    case ColorSpace::kHsv:
      return from_hsv(t.a * (6 / 360.0f), t.b, t.c);
    case ColorSpace::kHls:
      return from_hls(t.a * (6 / 360.0f), t.b, t.c);
    default: {
      const Rgb q = change.space == ColorSpace::kLab ? from_lab(t.a, t.b, t.c) : from_luv(t.a, t.b, t.c);
      return change.linear ? q : Rgb{to_gamma(q.r), to_gamma(q.g), to_gamma(q.b)};
    }
  }
}

// Lab of bytes, by tables: linear values of 11 bits, and roots of 15 bits.
class ByteLab {
 public:
  explicit ByteLab(bool linear) {
    for (size_t i = 0; i < 256; ++i) {
      const float x = static_cast<float>(i) / 255;
      linear_[i] = saturated<int32_t>(linear ? static_cast<float>(i) * 8 : 2040 * to_linear(x));
    }
    for (size_t i = 0; i < roots_.size(); ++i) {
      const float x = static_cast<float>(i) / 2040;
      roots_[i] = saturated<int32_t>(32768 * (x < 0.008856f ? x * 7.787f + 16.0f / 116 : std::cbrt(x)));
    }
    for (size_t k = 0; k < 3; ++k)
      for (size_t c = 0; c < 3; ++c) weight_[k][c] = saturated<int32_t>(4096 * kRgbToXyz[k][c] / kWhite[k]);
  }
  void operator()(int r, int g, int b, uint8_t* dst) const {
    int f[3];
    for (size_t k = 0; k < 3; ++k) {
      const auto at = [&](int c) { return linear_[static_cast<size_t>(c)]; };
      const int sum = at(r) * weight_[k][0] + at(g) * weight_[k][1] + at(b) * weight_[k][2];
      f[k] = roots_[std::min(static_cast<size_t>((sum + 2048) >> 12), roots_.size() - 1)];
    }
    constexpr int kHalf = 1 << 14, kLight = (116 * 255 + 50) / 100, kDark = (16 * 255 * (1 << 15) + 50) / 100;
    dst[0] = saturated<uint8_t>((kLight * f[1] - kDark + kHalf) >> 15);
    dst[1] = saturated<uint8_t>((500 * (f[0] - f[1]) + (128 << 15) + kHalf) >> 15);
    dst[2] = saturated<uint8_t>((200 * (f[1] - f[2]) + (128 << 15) + kHalf) >> 15);
  }

 private:
  std::array<int32_t, 256> linear_{};
  std::array<int32_t, 3072> roots_{};
  int32_t weight_[3][3];
};

}  // namespace

void lab_bytes(const ColorChange& change, const uint8_t* src, int64_t from, uint8_t* dst, int64_t to, int64_t n) {
  const int64_t red = change.swap ? 0 : 2;
  static const ByteLab gamma(false), linear(true);
  const ByteLab& convert = change.linear ? linear : gamma;
  for (int64_t i = 0; i < n; ++i, src += from, dst += to) convert(src[red], src[1], src[2 - red], dst);
}

void perception_floats(const ColorChange& change, const float* src, int64_t from, float* dst, int64_t to, int64_t n) {
  const int64_t red = change.swap ? 0 : 2;
  for (int64_t i = 0; i < n; ++i, src += from, dst += to) {
    if (change.back) {
      const Rgb p = back(change, {src[0], src[1], src[2]});
      dst[red] = p.r;
      dst[1] = p.g;
      dst[2 - red] = p.b;
      if (to == 4) dst[3] = 1;
    } else {
      const Triple t = forth(change, {src[red], src[1], src[2 - red]});
      dst[0] = t.a;
      dst[1] = t.b;
      dst[2] = t.c;
    }
  }
}

}  // namespace minnow::vision
