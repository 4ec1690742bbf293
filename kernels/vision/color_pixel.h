// What the files of colors share.
#pragma once

#include <cmath>

#include "kernels/vision/color.h"

namespace minnow::vision {

// Rows are red, green, blue; the white point is D65.
constexpr float kRgbToXyz[3][3] = {
    {0.412453f, 0.357580f, 0.180423f}, {0.212671f, 0.715160f, 0.072169f}, {0.019334f, 0.119193f, 0.950227f}};
constexpr float kXyzToRgb[3][3] = {
    {3.240479f, -1.53715f, -0.498535f}, {-0.969256f, 1.875991f, 0.041556f}, {0.055648f, -0.204043f, 1.057311f}};

inline float to_linear(float x) {
  return x <= 0.04045f ? x * (1 / 12.92f) : std::pow((x + 0.055f) * (1 / 1.055f), 2.4f);
}
inline float to_gamma(float x) { return x <= 0.0031308f ? x * 12.92f : 1.055f * std::pow(x, 1 / 2.4f) - 0.055f; }

// To kLab; see color_block.h for the other spaces.
void lab_bytes(const ColorChange& change, const uint8_t* src, int64_t from, uint8_t* dst, int64_t to, int64_t n);
// kHsv, kHls, kLab and kLuv.
void perception_floats(const ColorChange& change, const float* src, int64_t from, float* dst, int64_t to, int64_t n);

}  // namespace minnow::vision
