#include "kernels/vision/image_process.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/vision/color.h"
#include "kernels/vision/finish.h"
#include "kernels/vision/interpolation_weights.h"

namespace minnow::vision {
namespace {

constexpr int64_t kRowsPerTask = 8;

bool is_video(PixelFormat format) {
  return format == PixelFormat::kNv21 || format == PixelFormat::kNv12 || format == PixelFormat::kI420;
}
bool is_blue_first(PixelFormat format) { return format == PixelFormat::kBgr || format == PixelFormat::kBgra; }

uint8_t byte_of(int v) { return static_cast<uint8_t>(v < 0 ? 0 : v > 255 ? 255 : v); }

void video_rows(PixelFormat format, const uint8_t* pixels, int64_t width, int64_t height, int64_t stride, int64_t begin,
                int64_t end, uint8_t* rgb) {
  const uint8_t* chroma = pixels + stride * height;
  const int64_t half_stride = stride / 2, half_rows = (height + 1) / 2;
  for (int64_t y = begin; y < end; ++y) {
    const uint8_t *u, *v;
    int64_t step = 2;
    if (format == PixelFormat::kI420) {
      u = chroma + y / 2 * half_stride;
      v = u + half_rows * half_stride;
      step = 1;
    } else {
      const uint8_t* pair = chroma + y / 2 * stride;
      u = pair + (format == PixelFormat::kNv21 ? 1 : 0);
      v = pair + (format == PixelFormat::kNv21 ? 0 : 1);
    }
    yuv_row(kFullYuv, pixels + y * stride, 1, u, v, step, rgb + y * width * 3, width, 3, true);
  }
}

// Samples a row of the result.
class Sampling {
 public:
  Sampling(const ImageProcess& process, const Picture& src) : process_(process), src_(src) {}

  bool is_identity() const {
    constexpr float kSame[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    return std::equal(kSame, kSame + 9, process_.matrix);
  }

  template <int kChannels>
  void row(int64_t y, int64_t width, uint8_t* dst) const {
    const float* m = process_.matrix;
    const float py = static_cast<float>(y), x0 = m[1] * py + m[2], y0 = m[4] * py + m[5], w0 = m[7] * py + m[8];
    const bool is_affine = m[6] == 0 && m[7] == 0 && m[8] == 1;
    const float last_x = static_cast<float>(src_.width - 1), last_y = static_cast<float>(src_.height - 1);
    for (int64_t i = 0; i < width; ++i, dst += kChannels) {
      const float px = static_cast<float>(i);
      float x = x0 + m[0] * px, y_at = y0 + m[3] * px;
      if (!is_affine) {
        const float w = w0 + m[6] * px;
        x /= w;
        y_at /= w;
      }
      const bool inside = x >= 0 && x <= last_x && y_at >= 0 && y_at <= last_y;
      if (!inside) {
        if (process_.wrap == Wrap::kZero) {
          std::memset(dst, process_.padding, kChannels);
          continue;
        }
        x = wrapped(x, last_x);
        y_at = wrapped(y_at, last_y);
      }
      sample<kChannels>(x, y_at, dst);
    }
  }

 private:
  // Into the picture; NaN becomes 0.
  float wrapped(float v, float last) const {
    if (process_.wrap == Wrap::kRepeat) {
      const float size = last + 1;
      if (!(std::fabs(v) < 1e9f)) return 0;
      v = std::fmod(v, size);
      return v < 0 ? std::min(v + size, std::nextafter(size, 0.0f)) : v;
    }
    return v > 0 ? std::min(v, last) : 0;
  }
  int64_t index(int64_t i, int64_t n) const {
    if (process_.wrap == Wrap::kRepeat) return (i % n + n) % n;
    return std::clamp<int64_t>(i, 0, n - 1);
  }
  template <int kChannels>
  void sample(float x, float y, uint8_t* dst) const {
    if (process_.filter == Filter::kNearest) {
      const int64_t column = index(static_cast<int64_t>(std::floor(x + 0.5f)), src_.width);
      const int64_t row = index(static_cast<int64_t>(std::floor(y + 0.5f)), src_.height);
      std::memcpy(dst, src_.row<uint8_t>(row) + column * kChannels, kChannels);
      return;
    }
    const auto left = static_cast<int64_t>(x), top = static_cast<int64_t>(y);  // neither is below 0
    const float fx = x - static_cast<float>(left), fy = y - static_cast<float>(top);
    float sum[kChannels] = {};
    if (process_.filter == Filter::kBilinear) {
      const int64_t p = index(left, src_.width) * kChannels, q = index(left + 1, src_.width) * kChannels;
      const uint8_t *a = src_.row<uint8_t>(index(top, src_.height)),
                    *b = src_.row<uint8_t>(index(top + 1, src_.height));
      for (int c = 0; c < kChannels; ++c) {
        const float upper = static_cast<float>(a[p + c]) * (1 - fx) + static_cast<float>(a[q + c]) * fx;
        const float lower = static_cast<float>(b[p + c]) * (1 - fx) + static_cast<float>(b[q + c]) * fx;
        sum[c] = upper * (1 - fy) + lower * fy;
      }
    } else {
      float across[4], down[4];
      cubic_weights(fx, across);
      cubic_weights(fy, down);
      for (int k = 0; k < 16; ++k) {
        const uint8_t* pixel =
            src_.row<uint8_t>(index(top + k / 4 - 1, src_.height)) + index(left + k % 4 - 1, src_.width) * kChannels;
        for (int c = 0; c < kChannels; ++c) sum[c] += down[k / 4] * across[k % 4] * static_cast<float>(pixel[c]);
      }
    }
    for (int c = 0; c < kChannels; ++c) dst[c] = byte_of(static_cast<int>(std::floor(sum[c] + 0.5f)));
  }

  const ImageProcess& process_;
  const Picture& src_;
};

// Pixels in planes: bytes, or floats where the picture is normalized.
void store_planes(const ImageProcess& process, const uint8_t* row, int64_t channels, int64_t y,
                  const ProcessedTensor& tensor) {
  const int64_t plane = tensor.height * tensor.width, at = y * tensor.width;
  for (int64_t c = 0; c < channels; ++c) {
    if (tensor.dtype == DType::kU8) {
      uint8_t* to = static_cast<uint8_t*>(tensor.data) + c * plane + at;
      for (int64_t x = 0; x < tensor.width; ++x) to[x] = row[x * channels + c];
    } else {
      float* to = static_cast<float*>(tensor.data) + c * plane + at;
      const float mean = process.mean[c], factor = process.factor[c];
      for (int64_t x = 0; x < tensor.width; ++x) to[x] = (static_cast<float>(row[x * channels + c]) - mean) * factor;
    }
  }
}

}  // namespace

int64_t channels_of(PixelFormat format) {
  switch (format) {
    case PixelFormat::kRgba:
    case PixelFormat::kBgra:
      return 4;
    case PixelFormat::kRgb:
    case PixelFormat::kBgr:
      return 3;
    case PixelFormat::kGray:
      return 1;
    default:
      return 0;
  }
}

Status process_image(const ImageProcess& process, const uint8_t* pixels, int64_t width, int64_t height, int64_t stride,
                     const ProcessedTensor& tensor, ThreadPool& pool) {
  Picture src;
  src.width = width;
  src.height = height;
  src.channels = is_video(process.source) ? 3 : channels_of(process.source);
  src.stride = stride;
  src.data = const_cast<uint8_t*>(pixels);
  std::unique_ptr<uint8_t[]> rgb;
  const PixelFormat source = is_video(process.source) ? PixelFormat::kRgb : process.source;
  if (is_video(process.source)) {
    src.stride = 3 * width;
    rgb.reset(new uint8_t[static_cast<size_t>(src.stride * height)]);
    src.data = rgb.get();
    pool.parallel_for(height, 2 * kRowsPerTask, [&](int64_t begin, int64_t end, int) noexcept {
      video_rows(process.source, pixels, width, height, stride, begin, end, rgb.get());
    });
  }
  const auto from = static_cast<int>(src.channels), to = static_cast<int>(channels_of(process.target));
  Finish finish;
  // Of gray the first channel is blue without a swap; else it changes places where only one begins with it.
  const bool swap = to == 1 ? !is_blue_first(source) : is_blue_first(source) != is_blue_first(process.target);
  finish.color = from == to && from == 1 ? nullptr : color_row(from, to, swap && from != 1);
  finish.channels = to;
  finish.normalize = tensor.dtype == DType::kF32;
  if (finish.normalize && tensor.channels_last) finish.spread(process.mean, process.factor, tensor.width);
  const Sampling sampling(process, src);
  const bool same = sampling.is_identity() && tensor.width == width && tensor.height == height;
  const int64_t row_bytes = tensor.width * (tensor.dtype == DType::kF32 ? 4 : 1) * to;
  return over_rows(pool, tensor.height, kRowsPerTask, [&](int64_t begin, int64_t end) {
    std::vector<uint8_t> sampled(static_cast<size_t>(tensor.width * 4)), colored(sampled.size());
    for (int64_t y = begin; y < end; ++y) {
      const uint8_t* row = sampled.data();
      if (same) {
        row = src.row<uint8_t>(y);
      } else if (from == 1) {
        sampling.row<1>(y, tensor.width, sampled.data());
      } else if (from == 3) {
        sampling.row<3>(y, tensor.width, sampled.data());
      } else {
        sampling.row<4>(y, tensor.width, sampled.data());
      }
      if (tensor.channels_last) {
        finish_row(finish, row, tensor.width, colored.data(), static_cast<char*>(tensor.data) + y * row_bytes);
        continue;
      }
      if (finish.color != nullptr) {
        finish.color(row, colored.data(), tensor.width);
        row = colored.data();
      }
      store_planes(process, row, to, y, tensor);
    }
  });
}

}  // namespace minnow::vision
