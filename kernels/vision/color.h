// Conversions between color spaces, with OpenCV's results.
#pragma once

#include "kernels/vision/picture.h"

namespace minnow::vision {

enum class ColorSpace {
  kReorder,  // from and to 1, 3 or 4 channels
  kGray,
  kXyz,
  kYCrCb,
  kYuv,
  kHsv,
  kHls,
  kLab,
  kLuv,
  kPacked,         // 16 bits: 5 of blue, 6 or 5 of green, 5 of red
  kPremultiplied,  // by alpha
};

struct ColorChange {
  ColorSpace space = ColorSpace::kReorder;
  bool back = false;    // from that space
  bool swap = false;    // red comes first; of kReorder: red and blue change places
  bool full = false;    // kHsv, kHls: a circle is 256 steps of bytes and not 180
  bool linear = false;  // kLab, kLuv: RGB without gamma
  int green = 6;        // kPacked: its bits
};

// The pictures are of one type, u8, u16 or f32, and of one size; u16 in the first five spaces only.
Status change_color(const ColorChange& change, const Picture& src, const Picture& dst, ThreadPool& pool);

// YUV with chroma of half the resolution. Strides are in bytes, `step` is the distance of neighbors in a chroma row.
struct YuvPlanes {
  const uint8_t *y = nullptr, *u = nullptr, *v = nullptr;
  int64_t y_stride = 0, chroma_stride = 0, y_step = 1, step = 1;
  bool half_rows = true;  // chroma has half the rows, too
};
// Whole numbers of `kYuvBits` fractional bits.
constexpr int kYuvBits = 20;
struct YuvCoefficients {
  int32_t half, black, luma, v_to_red, v_to_green, u_to_green, u_to_blue;
};
constexpr YuvCoefficients kStudioYuv = {1 << 19, 16, 1220542, 1673527, -852492, -409993, 2116026};  // OpenCV's
constexpr YuvCoefficients kFullYuv = {0, 0, 64 << 14, 73 << 14, -37 * (1 << 14), -25 * (1 << 14), 130 << 14};  // MNN's
constexpr int kYuvBlock = 64;
// One row to n pixels of 3 or 4 channels.
void yuv_row(const YuvCoefficients& coefficients, const uint8_t* y, int64_t y_step, const uint8_t* u, const uint8_t* v,
             int64_t step, uint8_t* dst, int64_t n, int64_t channels, bool red_first);
Status from_yuv(const YuvPlanes& src, const Picture& dst, bool red_first, ThreadPool& pool);
// Y of all pixels, U and V of each fourth one: its left upper one.
void to_yuv(const Picture& src, uint8_t* y, uint8_t* u, uint8_t* v, bool red_first);

}  // namespace minnow::vision
