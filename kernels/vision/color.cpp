// The conversions that need little more than sums; those of hues and perception are in color_perception.cpp.
#include "kernels/vision/color.h"

#include <cmath>
#include <cstring>

#include "kernels/vision/color_block.h"
#include "kernels/vision/color_pixel.h"
#include "kernels/vision/finish.h"

namespace minnow::vision {
namespace {

constexpr int64_t kPixelsPerTask = 1 << 14;

template <typename T>
constexpr T opaque() {
  return std::is_floating_point_v<T> ? T{1} : std::numeric_limits<T>::max();
}

// Fixed-point numbers of kBits bits, rounded.
template <int kBits, typename N>
N descaled(N x) {
  return (x + (N{1} << (kBits - 1))) >> kBits;
}

template <typename T>
T gray_of(T b, T g, T r) {
  if constexpr (std::is_floating_point_v<T>) return b * 0.114f + g * 0.587f + r * 0.299f;
  return static_cast<T>(descaled<15, int64_t>(int64_t{3735} * b + int64_t{19235} * g + int64_t{9798} * r));
}

// Each row function gets the channels of both pictures.
template <typename T>
void reorder(const ColorChange& change, const T* src, int64_t from, T* dst, int64_t to, int64_t n) {
  const int64_t blue = change.swap ? 2 : 0;
  int64_t done = 0;
  if constexpr (std::is_same_v<T, float>) {
    if (change.swap && from == 3 && to == 3) done = swap_floats(src, dst, n);
  }
  src += done * from;
  dst += done * to;
  for (int64_t i = done; i < n; ++i, src += from, dst += to) {
    const T a = src[0], b = src[from == 1 ? 0 : 1], c = src[from == 1 ? 0 : 2];
    dst[blue] = a;
    dst[1] = b;
    dst[2 - blue] = c;
    if (to == 4) dst[3] = from == 4 ? src[3] : opaque<T>();
  }
}

template <typename T>
void gray(const ColorChange& change, const T* src, int64_t from, T* dst, int64_t, int64_t n) {
  const int64_t blue = change.swap ? 2 : 0;
  int64_t done = 0;
  if constexpr (std::is_same_v<T, float>) done = gray_floats(src, from, change.swap, dst, n);
  src += done * from;
  for (int64_t i = done; i < n; ++i, src += from) dst[i] = gray_of(src[blue], src[1], src[2 - blue]);
}

// 3 x 3 matrices.
template <typename T>
void xyz(const ColorChange& change, const T* src, int64_t from, T* dst, int64_t to, int64_t n) {
  const int64_t red = change.swap ? 0 : 2;
  for (int64_t i = 0; i < n; ++i, src += from, dst += to) {
    const T in[3] = {src[change.back ? 0 : red], src[1], src[change.back ? 2 : 2 - red]};
    T out[3];
    for (int k = 0; k < 3; ++k) {
      if constexpr (std::is_floating_point_v<T>) {
        const float* m = change.back ? kXyzToRgb[k] : kRgbToXyz[k];
        out[k] = in[0] * m[0] + in[1] * m[1] + in[2] * m[2];
      } else {
        static constexpr int32_t kTo[3][3] = {{1689, 1465, 739}, {871, 2929, 296}, {79, 488, 3892}};
        static constexpr int32_t kBack[3][3] = {{13273, -6296, -2042}, {-3970, 7684, 170}, {228, -836, 4331}};
        const int32_t* m = change.back ? kBack[k] : kTo[k];
        const int64_t sum = int64_t{in[0]} * m[0] + int64_t{in[1]} * m[1] + int64_t{in[2]} * m[2];
        out[k] = saturated<T>(static_cast<int32_t>(descaled<12>(sum)));
      }
    }
    dst[change.back ? red : 0] = out[0];
    dst[1] = out[1];
    dst[change.back ? 2 - red : 2] = out[2];
    if (change.back && to == 4) dst[3] = opaque<T>();
  }
}

// Luma and two differences of color. YCrCb has that of red first, YUV that of blue.
struct Differences {
  int32_t red, blue;                                     // forth, of 14 bits
  int32_t to_red, red_to_green, blue_to_green, to_blue;  // back
  float red_f, blue_f, to_red_f, red_to_green_f, blue_to_green_f, to_blue_f;
};
constexpr Differences kDifferences[] = {
    {11682, 9241, 22987, -11698, -5636, 29049, 0.713f, 0.564f, 1.403f, -0.714f, -0.344f, 1.773f},
    {14369, 8061, 18678, -9519, -6472, 33292, 0.877f, 0.492f, 1.140f, -0.581f, -0.395f, 2.032f}};

template <typename T>
void differences(const ColorChange& change, const T* src, int64_t from, T* dst, int64_t to, int64_t n) {
  const bool yuv = change.space == ColorSpace::kYuv;
  const Differences& k = kDifferences[yuv ? 1 : 0];
  const int64_t blue = change.swap ? 2 : 0, of_red = yuv ? 2 : 1, of_blue = 3 - of_red;
  for (int64_t i = 0; i < n; ++i, src += from, dst += to) {
    if constexpr (std::is_floating_point_v<T>) {
      if (change.back) {
        const T y = src[0], red = src[of_red] - 0.5f, b = src[of_blue] - 0.5f;
        dst[blue] = y + b * k.to_blue_f;
        dst[1] = y + b * k.blue_to_green_f + red * k.red_to_green_f;
        dst[2 - blue] = y + red * k.to_red_f;
      } else {
        const T b = src[blue], r = src[2 - blue], y = gray_of(b, src[1], r);
        dst[0] = y;
        dst[of_red] = (r - y) * k.red_f + 0.5f;
        dst[of_blue] = (b - y) * k.blue_f + 0.5f;
      }
    } else {
      constexpr int64_t kMiddle = (int64_t{std::numeric_limits<T>::max()} + 1) / 2;
      const auto clipped = [](int64_t v) { return saturated<T>(static_cast<int32_t>(v)); };
      if (change.back) {
        const int64_t y = src[0], red = src[of_red] - kMiddle, b = src[of_blue] - kMiddle;
        dst[blue] = clipped(y + descaled<14>(b * k.to_blue));
        dst[1] = clipped(y + descaled<14>(b * k.blue_to_green + red * k.red_to_green));
        dst[2 - blue] = clipped(y + descaled<14>(red * k.to_red));
      } else {
        const int64_t b = src[blue], r = src[2 - blue];
        const int64_t y = descaled<14>(b * 1868 + int64_t{src[1]} * 9617 + r * 4899);
        dst[0] = clipped(y);
        dst[of_red] = clipped(descaled<14>((r - y) * k.red + (kMiddle << 14)));
        dst[of_blue] = clipped(descaled<14>((b - y) * k.blue + (kMiddle << 14)));
      }
    }
    if (change.back && to == 4) dst[3] = opaque<T>();
  }
}

// 16 bits a pixel, as two bytes.
void packed(const ColorChange& change, const uint8_t* src, int64_t from, uint8_t* dst, int64_t to, int64_t n) {
  const int64_t blue = change.swap ? 2 : 0;
  const bool six = change.green == 6;
  if (!change.back && (from == 3 || (from == 4 && six))) return pack_colors(src, from, change.swap, six, dst, n);
  for (int64_t i = 0; i < n; ++i, src += from, dst += to) {
    if (!change.back) {
      const unsigned b = src[from == 1 ? 0 : blue], g = src[from == 1 ? 0 : 1], r = src[from == 1 ? 0 : 2 - blue];
      unsigned t = six ? b >> 3 | (g & ~3u) << 3 | (r & ~7u) << 8 : b >> 3 | (g & ~7u) << 2 | (r & ~7u) << 7;
      if (!six && from == 4 && src[3] != 0) t |= 0x8000;
      const uint16_t word = static_cast<uint16_t>(t);
      std::memcpy(dst, &word, 2);
      continue;
    }
    uint16_t t;
    std::memcpy(&t, src, 2);
    const uint8_t b = static_cast<uint8_t>(t << 3 & 0xF8);
    const uint8_t g = static_cast<uint8_t>(six ? t >> 3 & 0xFC : t >> 2 & 0xF8);
    const uint8_t r = static_cast<uint8_t>(t >> (six ? 8 : 7) & 0xF8);
    if (to == 1) {
      dst[0] = gray_of(b, g, r);
      continue;
    }
    dst[blue] = b;
    dst[1] = g;
    dst[2 - blue] = r;
    if (to == 4) dst[3] = six || (t & 0x8000) != 0 ? 255 : 0;
  }
}

void premultiplied(const ColorChange& change, const uint8_t* src, int64_t, uint8_t* dst, int64_t, int64_t n) {
  for (int64_t i = 0; i < n; ++i, src += 4, dst += 4) {
    const int alpha = src[3];
    for (int c = 0; c < 3; ++c) {
      if (change.back) {
        dst[c] = alpha == 0 ? 0 : saturated<uint8_t>((src[c] * 255 + alpha / 2) / alpha);
      } else {
        dst[c] = static_cast<uint8_t>((src[c] * alpha + 128) / 255);
      }
    }
    dst[3] = static_cast<uint8_t>(alpha);
  }
}

template <typename T>
using Row = void (*)(const ColorChange&, const T*, int64_t, T*, int64_t, int64_t);

template <typename T>
Row<T> row_of(ColorSpace space) {
  switch (space) {
    case ColorSpace::kReorder:
      return reorder<T>;
    case ColorSpace::kGray:
      return gray<T>;
    case ColorSpace::kXyz:
      return xyz<T>;
    case ColorSpace::kYCrCb:
    case ColorSpace::kYuv:
      return differences<T>;
    default:
      break;
  }
  if constexpr (std::is_same_v<T, uint8_t>) {
    if (space == ColorSpace::kPacked) return packed;
    if (space == ColorSpace::kPremultiplied) return premultiplied;
    return lab_bytes;
  }
  if constexpr (std::is_same_v<T, float>) {
    if (space != ColorSpace::kPacked && space != ColorSpace::kPremultiplied) return perception_floats;
  }
  return nullptr;
}

template <typename T>
Status change_rows(const ColorChange& change, const Picture& src, const Picture& dst, ThreadPool& pool) {
  const Row<T> row = row_of<T>(change.space);
  if (row == nullptr) return fail(Code::kUsage, "this conversion of colors is not for %s", dtype_name(src.dtype));
  ColorRow fast = nullptr;
  if constexpr (std::is_same_v<T, uint8_t>) {
    if (change.space == ColorSpace::kReorder || change.space == ColorSpace::kGray)
      fast = color_row(static_cast<int>(src.channels), static_cast<int>(dst.channels), change.swap);
  }
  ColorBlockFunction block = nullptr;
  BlockConstants constants;
  if constexpr (std::is_same_v<T, uint8_t>) block = color_block(change, &constants);
  // Blue is first for the blocks, as in BGR; or red.
  const bool swap = change.swap != constants.is_reversed;
  const int64_t grain = std::max<int64_t>(1, kPixelsPerTask / std::max<int64_t>(1, src.width));
  return over_rows(pool, src.height, grain, [&](int64_t begin, int64_t end) {
    for (int64_t y = begin; y < end; ++y) {
      if (fast != nullptr) {
        fast(src.row<uint8_t>(y), dst.mutable_row<uint8_t>(y), src.width);
      } else if (block != nullptr) {
        color_blocks(block, constants, src.row<uint8_t>(y), src.channels, !change.back && swap,
                     dst.mutable_row<uint8_t>(y), dst.channels, change.back && swap, src.width);
      } else {
        row(change, src.row<T>(y), src.channels, dst.mutable_row<T>(y), dst.channels, src.width);
      }
    }
  });
}

}  // namespace

Status change_color(const ColorChange& change, const Picture& src, const Picture& dst, ThreadPool& pool) {
  if (src.dtype != dst.dtype || src.width != dst.width || src.height != dst.height)
    return fail(Code::kInternal, "pictures of different types or sizes");
  switch (src.dtype) {
    case DType::kU8:
      return change_rows<uint8_t>(change, src, dst, pool);
    case DType::kU16:
      return change_rows<uint16_t>(change, src, dst, pool);
    case DType::kF32:
      return change_rows<float>(change, src, dst, pool);
    default:
      return fail(Code::kUsage, "colors are not converted in %s", dtype_name(src.dtype));
  }
}

}  // namespace minnow::vision
