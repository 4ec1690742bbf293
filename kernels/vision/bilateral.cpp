// Means of neighbors that are near in space and in color.
#include <cmath>

#include "kernels/vision/filter.h"

#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::vision::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A row of up to 3 channels of whole numbers, each in a row of its own: `neighbors` has those of each neighbor, moved
// to its column, `space` the weight of its place. Returns how many pixels are done.
int64_t BilateralBytes(const float* const* neighbors, const float* space, int64_t count, int64_t channels,
                       const float* const* center, const float* color, int64_t width, float* const* dst) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> ints;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN int32_t index[hn::MaxLanes(d)];
  HWY_ALIGN float weight[hn::MaxLanes(d)];
  int64_t x = 0;
  for (; x + lanes <= width; x += lanes) {
    const auto a = hn::LoadU(d, center[0] + x);
    const auto b = channels > 1 ? hn::LoadU(d, center[1] + x) : a, c = channels > 1 ? hn::LoadU(d, center[2] + x) : a;
    auto total = hn::Zero(d), first = total, second = total, third = total;
    for (int64_t k = 0; k < count; ++k) {
      const float* const* at = neighbors + k * channels;
      const auto p = hn::LoadU(d, at[0] + x);
      auto difference = hn::Abs(hn::Sub(p, a));
      auto q = p, r = p;
      if (channels > 1) {
        q = hn::LoadU(d, at[1] + x);
        r = hn::LoadU(d, at[2] + x);
        difference = hn::Add(hn::Add(difference, hn::Abs(hn::Sub(q, b))), hn::Abs(hn::Sub(r, c)));
      }
      // One by one: instructions that gather are slow on many processors.
      hn::Store(hn::ConvertTo(ints, difference), ints, index);
      for (int64_t i = 0; i < lanes; ++i) weight[i] = color[index[i]];
      const auto w = hn::Mul(hn::Set(d, space[k]), hn::Load(d, weight));
      total = hn::Add(total, w);
      first = hn::MulAdd(w, p, first);
      if (channels > 1) {
        second = hn::MulAdd(w, q, second);
        third = hn::MulAdd(w, r, third);
      }
    }
    hn::StoreU(hn::Div(first, total), d, dst[0] + x);
    if (channels > 1) {
      hn::StoreU(hn::Div(second, total), d, dst[1] + x);
      hn::StoreU(hn::Div(third, total), d, dst[2] + x);
    }
  }
  return x;
}

}  // namespace minnow::vision::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/vision/filter_rows.h"

namespace minnow::vision {

HWY_EXPORT(BilateralBytes);

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
                   int64_t radius, int64_t from, int64_t width, float* dst) {
  for (int64_t x = from; x < width; ++x) {
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

// Rows whose channels stand apart, those of all rows of a window.
class PlaneRows {
 public:
  PlaneRows(int64_t rows, int64_t pixels, int64_t channels)
      : pixels_(pixels), channels_(channels), memory_(static_cast<size_t>(rows * pixels * channels)) {}
  float* at(int64_t row, int64_t c) { return memory_.data() + (row * channels_ + c) * pixels_; }
  void set(int64_t row, const float* from) {
    for (int64_t c = 0; c < channels_; ++c) {
      float* to = at(row, c);
      for (int64_t x = 0; x < pixels_; ++x) to[x] = from[x * channels_ + c];
    }
  }

 private:
  int64_t pixels_, channels_;
  std::vector<float> memory_;
};

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
  // What makes no difference is 0: the smallest numbers take processors a hundred times as long.
  for (float& w : colors.weight) w = w < 1e-30f ? 0 : w;
  const Extension extension(src, radius, radius, border);
  const std::vector<float> outside(static_cast<size_t>(src.channels), 0);
  const int64_t extended = extension.pixels() * src.channels, height = 2 * radius + 1;
  return over_rows(pool, dst.height, rows_per_task(dst, 1), [&](int64_t begin, int64_t end) {
    std::vector<float> memory(static_cast<size_t>(extended * height)), result(static_cast<size_t>(src.row_elements()));
    std::vector<const float*> rows(static_cast<size_t>(height));
    const int64_t n = src.channels, pixels = extension.pixels();
    PlaneRows planes(bytes ? height : 0, pixels, n), sums(bytes ? 1 : 0, src.width, n);
    std::vector<const float*> neighbors(circle.row.size() * static_cast<size_t>(n));
    const auto place = [&](int64_t v) { return (v + height) % height; };
    const auto slot = [&](int64_t v) { return memory.data() + place(v) * extended; };
    int64_t next = begin - radius;
    for (int64_t y = begin; y < end; ++y) {
      for (; next <= y + radius; ++next) {
        fill_any(extension, src.dtype, next, slot(next), outside.data());
        if (bytes) planes.set(place(next), slot(next));
      }
      for (int64_t k = 0; k < height; ++k) rows[static_cast<size_t>(k)] = slot(y - radius + k);
      int64_t done = 0;
      if (bytes) {
        for (size_t k = 0; k < circle.row.size(); ++k)
          for (int64_t c = 0; c < n; ++c)
            neighbors[k * static_cast<size_t>(n) + static_cast<size_t>(c)] =
                planes.at(place(y - radius + circle.row[k]), c) + circle.column[k];
        const float* center[3] = {};
        float* to[3] = {};
        for (int64_t c = 0; c < n; ++c) center[c] = planes.at(place(y), c) + radius, to[c] = sums.at(0, c);
        done = HWY_DYNAMIC_DISPATCH(BilateralBytes)(neighbors.data(), circle.weight.data(),
                                                    static_cast<int64_t>(circle.weight.size()), n, center,
                                                    colors.weight.data(), src.width, to);
        for (int64_t x = 0; x < done; ++x)
          for (int64_t c = 0; c < n; ++c) result[static_cast<size_t>(x * n + c)] = to[c][x];
      }
      const auto run = src.channels == 1 ? bilateral_row<1> : bilateral_row<3>;
      run(rows, circle, colors, bytes, radius, done, src.width, result.data());
      store_any(result.data(), dst.dtype, dst.mutable_row<void>(y), src.row_elements());
    }
  });
}

}  // namespace minnow::vision
#endif
