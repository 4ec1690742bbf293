// Means of neighbors that are near in space and in color.
#include <cmath>

#include "kernels/vision/filter.h"
#include "kernels/vision/filter_rows.h"

namespace minnow::vision {
namespace {

// The neighbors within a circle.
struct Circle {
  std::vector<int64_t> row, column;  // of the window
  std::vector<float> weight;

  Circle(int64_t radius, double coefficient) {
    for (int64_t y = -radius; y <= radius; ++y)
      for (int64_t x = -radius; x <= radius; ++x) {
        const double square = static_cast<double>(y * y + x * x);
        if (std::sqrt(square) > static_cast<double>(radius)) continue;
        row.push_back(y + radius);
        column.push_back(x + radius);
        weight.push_back(static_cast<float>(std::exp(square * coefficient)));
      }
  }
};

// Weights by the difference of colors, the sum of those of the channels: of bytes for each difference, of floats for
// steps of it.
struct ColorWeights {
  std::vector<float> weight;
  float steps = 1;

  float of(float difference) const {
    const float at = difference * steps;
    const auto i = static_cast<size_t>(at);
    if (i + 1 >= weight.size()) return weight.back();
    return weight[i] + (at - static_cast<float>(i)) * (weight[i + 1] - weight[i]);
  }
};

template <int kChannels>
void bilateral_row(const std::vector<const float*>& rows, const Circle& circle, const ColorWeights& colors, bool whole,
                   int64_t radius, int64_t width, float* dst) {
  for (int64_t x = 0; x < width; ++x) {
    const float* center = rows[static_cast<size_t>(radius)] + (x + radius) * kChannels;
    float sum[kChannels] = {}, total = 0;
    for (size_t k = 0; k < circle.row.size(); ++k) {
      const float* p = rows[static_cast<size_t>(circle.row[k])] + (x + circle.column[k]) * kChannels;
      float difference = 0;
      for (int c = 0; c < kChannels; ++c) difference += std::fabs(p[c] - center[c]);
      if (!(difference < 1e30f)) continue;  // NaN or infinity
      const float w =
          circle.weight[k] * (whole ? colors.weight[static_cast<size_t>(difference)] : colors.of(difference));
      for (int c = 0; c < kChannels; ++c) sum[c] += w * p[c];
      total += w;
    }
    for (int c = 0; c < kChannels; ++c) dst[x * kChannels + c] = total > 0 ? sum[c] / total : center[c];
  }
}

// The range of finite values.
std::pair<float, float> range_of(const Picture& src) {
  float least = std::numeric_limits<float>::max(), most = std::numeric_limits<float>::lowest();
  for (int64_t y = 0; y < src.height; ++y) {
    const float* p = src.row<float>(y);
    for (int64_t i = 0; i < src.row_elements(); ++i) {
      if (!std::isfinite(p[i])) continue;
      least = std::min(least, p[i]);
      most = std::max(most, p[i]);
    }
  }
  return {least, most};
}

}  // namespace

Status filter_bilateral(const Picture& src, const Picture& dst, int64_t radius, double sigma_color, double sigma_space,
                        Border border, ThreadPool& pool) {
  const Circle circle(radius, -0.5 / (sigma_space * sigma_space));
  const double coefficient = -0.5 / (sigma_color * sigma_color);
  const bool bytes = src.dtype == DType::kU8;
  const auto channels = static_cast<float>(src.channels);
  ColorWeights colors;
  if (bytes) {
    for (int i = 0; i < 256 * src.channels; ++i)
      colors.weight.push_back(static_cast<float>(std::exp(i * i * coefficient)));
  } else {
    const auto [least, most] = range_of(src);
    constexpr int kSteps = 1 << 12;
    const float range = (most - least) * channels;
    colors.steps = range > 0 ? kSteps * channels / range : 1;
    for (int i = 0; i < kSteps * src.channels + 2; ++i) {
      const double difference = i / static_cast<double>(colors.steps);
      colors.weight.push_back(static_cast<float>(std::exp(difference * difference * coefficient)));
    }
  }
  const Extension extension(src, radius, radius, border);
  const std::vector<float> outside(static_cast<size_t>(src.channels), 0);
  const int64_t extended = extension.pixels() * src.channels, height = 2 * radius + 1;
  return over_rows(pool, dst.height, rows_per_task(dst, 1), [&](int64_t begin, int64_t end) {
    std::vector<float> memory(static_cast<size_t>(extended * height)), result(static_cast<size_t>(src.row_elements()));
    std::vector<const float*> rows(static_cast<size_t>(height));
    const auto slot = [&](int64_t v) { return memory.data() + (v + height) % height * extended; };
    int64_t next = begin - radius;
    for (int64_t y = begin; y < end; ++y) {
      for (; next <= y + radius; ++next) fill_any(extension, src.dtype, next, slot(next), outside.data());
      for (int64_t k = 0; k < height; ++k) rows[static_cast<size_t>(k)] = slot(y - radius + k);
      const auto run = src.channels == 1 ? bilateral_row<1> : bilateral_row<3>;
      run(rows, circle, colors, bytes, radius, src.width, result.data());
      store_any(result.data(), dst.dtype, dst.mutable_row<void>(y), src.row_elements());
    }
  });
}

}  // namespace minnow::vision
