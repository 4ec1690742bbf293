// Kernels of channels-last images: depthwise convolution, pooling, GroupNorm, layouts, combinations.
#include "kernels/cuda/depthwise.h"
#include "kernels/cuda/group_norm.h"
#include "kernels/cuda/layout.h"
#include "kernels/cuda/pool.h"
#include "tests/kernels/cuda/check.h"

namespace minnow::cuda::check {
namespace {

int padded(int channels) { return (channels + 7) / 8 * 8; }
float nan() { return std::numeric_limits<float>::quiet_NaN(); }

struct Conv {
  int n, h, w, c, kh, kw, sy, sx, dy, dx, py, px;
};

void check_depthwise(Report& report, Random& random, const Conv& s, DType dtype, const Activation& activation,
                     bool residual, int gates, bool with_nan) {
  const int c = padded(s.c);
  const int oh = (s.h + 2 * s.py - (s.kh - 1) * s.dy - 1) / s.sy + 1;
  const int ow = (s.w + 2 * s.px - (s.kw - 1) * s.dx - 1) / s.sx + 1;
  if (oh <= 0 || ow <= 0) return;
  std::vector<float> x = images(random, s.n * s.h * s.w, s.c, 2.0f), w = images(random, s.kh * s.kw, s.c);
  std::vector<float> r = images(random, s.n * oh * ow, s.c), b = images(random, 1, s.c);
  std::vector<float> g = images(random, gates > 1 ? s.n : 1, s.c);
  if (with_nan) x[static_cast<size_t>(random.below(s.n * s.h * s.w)) * c + random.below(s.c)] = nan();
  Buffer dx(dtype, &x), dw(dtype, &w), dr(dtype, &r), db(DType::kF32, &b), dg(dtype, &g);
  Depthwise d;
  d.dtype = dtype;
  d.images = s.n, d.height = s.h, d.width = s.w, d.channels = c, d.out_height = oh, d.out_width = ow;
  d.kernel_height = s.kh, d.kernel_width = s.kw, d.stride_y = s.sy, d.stride_x = s.sx;
  d.dilation_y = s.dy, d.dilation_x = s.dx, d.pad_y = s.py, d.pad_x = s.px;
  d.activation = activation;
  d.x = dx.data(), d.weights = dw.data(), d.bias = db.as<float>();
  d.residual = residual ? dr.data() : nullptr;
  d.gate = gates > 0 ? dg.data() : nullptr;
  d.gate_stride = gates > 1 ? c : 0;
  Expected want(static_cast<size_t>(s.n) * oh * ow * c);
  for (int n = 0; n < s.n; ++n)
    for (int p = 0; p < oh; ++p)
      for (int q = 0; q < ow; ++q)
        for (int k = 0; k < c; ++k) {
          const size_t at = ((static_cast<size_t>(n) * oh + p) * ow + q) * c + k;
          want.magnitude[at] = -1;
          if (k >= s.c) continue;
          double sum = 0, magnitude = 0;
          for (int i = 0; i < s.kh; ++i)
            for (int j = 0; j < s.kw; ++j) {
              const int y = p * s.sy - s.py + i * s.dy, z = q * s.sx - s.px + j * s.dx;
              if (y < 0 || y >= s.h || z < 0 || z >= s.w) continue;
              const double product = static_cast<double>(x[((static_cast<size_t>(n) * s.h + y) * s.w + z) * c + k]) *
                                     w[static_cast<size_t>(i * s.kw + j) * c + k];
              sum += product;
              magnitude += std::abs(product);
            }
          if (gates > 0) {
            const double gate = g[static_cast<size_t>(gates > 1 ? n : 0) * c + k];
            sum *= gate;
            magnitude *= std::abs(gate);
          }
          sum += b[k];
          if (residual) sum += r[at];
          want.value[at] = activated(activation, sum);
          want.magnitude[at] = std::isnan(magnitude) ? 0 : magnitude;
        }
  for (int scheme = -1; scheme < depthwise_schemes(d); ++scheme) {
    d.scheme = scheme;
    Buffer y(dtype, want.value.size());
    d.y = y.data();
    const std::string what = "depthwise " + std::string(name_of(dtype)) + " scheme " + std::to_string(scheme) + " " +
                             std::to_string(s.n) + "x" + std::to_string(s.h) + "x" + std::to_string(s.w) + "x" +
                             std::to_string(s.c) + " kernel " + std::to_string(s.kh) + "x" + std::to_string(s.kw) +
                             " stride " + std::to_string(s.sy) + " activation " +
                             std::to_string(static_cast<int>(activation.function));
    report.success(what, depthwise(d, make_target(scheme % 2 == 0)));
    report.compare(what, dtype, y.read(), want);
    report.guards(what, y);
  }
}

void check_all_depthwise(Report& report, Random& random) {
  report.begin("depthwise");
  const Conv shapes[] = {
      {1, 7, 7, 8, 3, 3, 1, 1, 1, 1, 1, 1},    {2, 13, 11, 19, 3, 3, 1, 1, 1, 1, 1, 1},
      {3, 14, 14, 24, 3, 3, 2, 2, 1, 1, 1, 1}, {1, 9, 17, 13, 3, 3, 2, 2, 1, 1, 0, 0},
      {2, 11, 7, 31, 5, 5, 1, 1, 1, 1, 2, 2},  {1, 15, 15, 40, 5, 5, 2, 2, 1, 1, 2, 2},
      {1, 1, 1, 1, 3, 3, 1, 1, 1, 1, 1, 1},    {1, 1, 5, 3, 3, 3, 1, 1, 1, 1, 1, 1},
      {2, 10, 9, 17, 7, 7, 1, 1, 1, 1, 3, 3},  {1, 12, 13, 8, 3, 3, 1, 1, 2, 2, 2, 2},
      {1, 1, 29, 11, 1, 9, 1, 2, 1, 1, 0, 4},  {1, 11, 8, 9, 3, 5, 2, 1, 1, 2, 1, 3},
      {1, 33, 35, 72, 3, 3, 1, 1, 1, 1, 1, 1}, {1, 6, 6, 16, 3, 3, 1, 1, 1, 1, 2, 2},
  };
  int i = 0;
  for (const DType dtype : kFloats) {
    for (const Conv& s : shapes) {
      check_depthwise(report, random, s, dtype, {}, false, 0, false);
      ++i;
      check_depthwise(report, random, s, dtype, all_activations()[static_cast<size_t>(i % 11)], i % 2 == 0, i % 3,
                      i % 5 == 0);
    }
    for (const Activation& a : all_activations()) {
      check_depthwise(report, random, shapes[1], dtype, a, true, 2, false);
      check_depthwise(report, random, shapes[2], dtype, a, false, 0, true);
    }
  }
}

void check_pool(Report& report, Random& random, const Conv& s, DType dtype, bool maximum, bool count_padding, int end_y,
                int end_x, bool ceil, bool with_nan) {
  const int c = padded(s.c);
  const auto size = [ceil](int in, int begin, int end, int k, int stride, int dilation) {
    const int room = in + begin + end - (k - 1) * dilation - 1;
    int out = (ceil ? (room + stride - 1) / stride : room / stride) + 1;
    if (ceil && (out - 1) * stride >= in + begin) --out;
    return out;
  };
  const int oh = size(s.h, s.py, end_y, s.kh, s.sy, s.dy), ow = size(s.w, s.px, end_x, s.kw, s.sx, s.dx);
  if (oh <= 0 || ow <= 0) return;
  std::vector<float> x = images(random, s.n * s.h * s.w, s.c, 3.0f);
  if (with_nan) x[static_cast<size_t>(random.below(s.n * s.h * s.w)) * c + random.below(s.c)] = nan();
  Buffer dx(dtype, &x);
  Pool p;
  p.dtype = dtype, p.maximum = maximum;
  p.images = s.n, p.height = s.h, p.width = s.w, p.channels = c, p.out_height = oh, p.out_width = ow;
  p.kernel_height = s.kh, p.kernel_width = s.kw, p.stride_y = s.sy, p.stride_x = s.sx;
  p.dilation_y = s.dy, p.dilation_x = s.dx, p.pad_y = s.py, p.pad_x = s.px;
  p.pad_y_end = end_y, p.pad_x_end = end_x, p.count_padding = count_padding;
  Expected want(static_cast<size_t>(s.n) * oh * ow * c);
  for (int n = 0; n < s.n; ++n)
    for (int i = 0; i < oh; ++i)
      for (int j = 0; j < ow; ++j)
        for (int k = 0; k < c; ++k) {
          const size_t at = ((static_cast<size_t>(n) * oh + i) * ow + j) * c + k;
          want.magnitude[at] = -1;
          if (k >= s.c) continue;
          double sum = 0, most = -INFINITY;
          int count = 0;
          bool any_nan = false;
          for (int a = 0; a < s.kh; ++a)
            for (int b = 0; b < s.kw; ++b) {
              const int y = i * s.sy - s.py + a * s.dy, z = j * s.sx - s.px + b * s.dx;
              const bool inside = y >= 0 && y < s.h && z >= 0 && z < s.w;
              if (inside || (count_padding && y >= -s.py && z >= -s.px && y < s.h + end_y && z < s.w + end_x)) ++count;
              if (!inside) continue;
              const double v = x[((static_cast<size_t>(n) * s.h + y) * s.w + z) * c + k];
              any_nan = any_nan || std::isnan(v);
              sum += v;
              most = std::max(most, v);
            }
          want.value[at] = maximum ? (any_nan ? static_cast<double>(nan()) : most) : sum / count;
          want.magnitude[at] = maximum ? 0 : 1;
        }
  Buffer y(dtype, want.value.size());
  p.x = dx.data(), p.y = y.data();
  const std::string what = std::string(maximum ? "max" : "mean") + " pool " + name_of(dtype) + " " +
                           std::to_string(s.h) + "x" + std::to_string(s.w) + "x" + std::to_string(s.c) + " kernel " +
                           std::to_string(s.kh) + "x" + std::to_string(s.kw);
  report.success(what, pool(p, make_target(true)));
  report.compare(what, dtype, y.read(), want);
  report.guards(what, y);
}

void check_all_pools(Report& report, Random& random) {
  report.begin("pool");
  const Conv shapes[] = {
      {1, 7, 7, 8, 3, 3, 2, 2, 1, 1, 1, 1},
      {2, 13, 11, 19, 2, 2, 2, 2, 1, 1, 0, 0},
      {1, 9, 17, 13, 3, 3, 1, 1, 1, 1, 1, 1},
      {1, 5, 6, 3, 5, 2, 1, 3, 1, 1, 2, 1},
      {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0},
      {2, 12, 12, 24, 3, 3, 2, 2, 2, 2, 1, 1},
      {1, 14, 15, 40, 3, 3, 2, 2, 1, 1, 0, 0},
      // large windows
      {1, 13, 13, 24, 5, 5, 1, 1, 1, 1, 2, 2},
      {2, 13, 11, 9, 13, 13, 1, 1, 1, 1, 6, 6},
      {1, 40, 37, 16, 7, 4, 2, 1, 2, 1, 3, 2},
      {1, 21, 150, 8, 9, 9, 1, 1, 1, 1, 4, 4},
      {1, 17, 9, 140, 6, 5, 3, 2, 1, 3, 1, 4},
      {1, 3, 700, 8, 5, 5, 1, 1, 1, 1, 2, 2},
  };
  int i = 0;
  for (const DType dtype : kFloats)
    for (const Conv& s : shapes)
      for (const bool maximum : {true, false})
        for (const bool count : {true, false})
          for (const bool ceil : {true, false}) {
            ++i;
            check_pool(report, random, s, dtype, maximum, count, i % 3 == 0 ? s.py + 1 : s.py, s.px, ceil, i % 4 == 0);
          }
}

void check_global(Report& report, Random& random) {
  report.begin("global pool");
  const int shapes[][3] = {{1, 49, 1280}, {3, 1, 5}, {2, 197, 13}, {1, 12544, 19}, {5, 1000, 64}, {1, 3, 67}};
  for (const DType dtype : kFloats)
    for (const auto& s : shapes)
      for (const bool maximum : {true, false})
        for (const bool overlap : {true, false}) {
          const int n = s[0], pixels = s[1], c = padded(s[2]);
          std::vector<float> x = images(random, n * pixels, s[2]);
          if (overlap) x[static_cast<size_t>(random.below(n * pixels)) * c] = nan();
          Buffer dx(dtype, &x);
          Expected want(static_cast<size_t>(n) * s[2]);
          for (int i = 0; i < n; ++i)
            for (int k = 0; k < s[2]; ++k) {
              double sum = 0, most = -INFINITY;
              for (int p = 0; p < pixels; ++p) {
                const double v = x[(static_cast<size_t>(i) * pixels + p) * c + k];
                sum += v;
                most = std::isnan(v) || std::isnan(most) ? static_cast<double>(nan()) : std::max(most, v);
              }
              want.value[static_cast<size_t>(i) * s[2] + k] = maximum ? most : sum / pixels;
              want.magnitude[static_cast<size_t>(i) * s[2] + k] = maximum ? 0 : 0.5;
            }
          Buffer y(dtype, want.value.size());
          GlobalPool g;
          g.dtype = dtype, g.maximum = maximum, g.images = n, g.pixels = pixels, g.channels = c;
          g.kept_channels = g.y_stride = s[2];
          g.x = dx.data(), g.y = y.data();
          const std::string what = std::string("global ") + (maximum ? "max " : "mean ") + name_of(dtype) + " " +
                                   std::to_string(n) + "x" + std::to_string(pixels) + "x" + std::to_string(s[2]);
          report.success(what, global_pool(g, make_target(overlap)));
          report.compare(what, dtype, y.read(), want);
          report.guards(what, y);
        }
}

void check_layout(Report& report, Random& random) {
  report.begin("layout");
  const DType pairs[][2] = {{DType::kF32, DType::kF16},  {DType::kF32, DType::kBF16}, {DType::kF32, DType::kF32},
                            {DType::kF16, DType::kF32},  {DType::kF16, DType::kF16},  {DType::kBF16, DType::kF32},
                            {DType::kBF16, DType::kBF16}};
  const int shapes[][3] = {{1, 3, 49}, {2, 8, 257}, {1, 1, 1}, {3, 17, 63}, {2, 64, 128}, {1, 131, 65}, {1, 40, 1}};
  for (const auto& pair : pairs)
    for (const auto& s : shapes)
      for (const bool to_last : {true, false}) {
        const int n = s[0], c = s[1], pixels = s[2], lanes = padded(c);
        std::vector<float> x =
            to_last ? random.numbers(static_cast<size_t>(n) * c * pixels) : images(random, n * pixels, c);
        Buffer dx(pair[0], &x);
        Expected want(static_cast<size_t>(n) * pixels * (to_last ? lanes : c));
        for (int i = 0; i < n; ++i)
          for (int k = 0; k < (to_last ? lanes : c); ++k)
            for (int p = 0; p < pixels; ++p) {
              const size_t plain = (static_cast<size_t>(i) * c + k) * pixels + p;
              const size_t last = (static_cast<size_t>(i) * pixels + p) * lanes + k;
              want.value[to_last ? last : plain] = to_last ? (k < c ? x[plain] : 0.0f) : x[last];
            }
        Buffer y(pair[1], want.value.size());
        LayoutChange l;
        l.from = pair[0], l.to = pair[1], l.to_channels_last = to_last;
        l.images = n, l.channels = c, l.pixels = pixels;
        l.x = dx.data(), l.y = y.data();
        const std::string what = std::string("layout ") + name_of(pair[0]) + " to " + name_of(pair[1]) + " " +
                                 std::to_string(c) + " channels, " + (to_last ? "to" : "from") + " channels-last";
        report.success(what, change_layout(l, make_target(true)));
        report.compare(what, pair[1], y.read(), want, pair[1] == DType::kBF16 ? 1 : 0.5);
        report.guards(what, y);
      }
}

void check_combine(Report& report, Random& random) {
  report.begin("combine");
  int i = 0;
  for (const DType dtype : kFloats)
    for (const Activation& activation : all_activations())
      for (const int gates : {0, 1, 3}) {
        const int n = 3, pixels = 37, c = 19, lanes = padded(c);
        const bool residual = ++i % 2 == 0;
        std::vector<float> x = images(random, n * pixels, c, 3), r = images(random, n * pixels, c),
                           g = images(random, n, c);
        x[5] = nan();
        Buffer dx(dtype, &x), dr(dtype, &r), dg(dtype, &g);
        Expected want(x.size());
        for (size_t at = 0; at < x.size(); ++at) {
          const size_t k = at % static_cast<size_t>(lanes), image = at / static_cast<size_t>(pixels * lanes);
          double v = x[at];
          if (gates > 0) v *= g[(gates > 1 ? image : 0) * static_cast<size_t>(lanes) + k];
          if (residual) v += r[at];
          want.value[at] = activated(activation, v);
          want.magnitude[at] = k < static_cast<size_t>(c) ? 1 : -1;
        }
        Buffer y(dtype, x.size());
        Combine p;
        p.dtype = dtype, p.images = n, p.pixels = pixels, p.channels = lanes, p.activation = activation;
        p.x = dx.data(), p.residual = residual ? dr.data() : nullptr, p.y = y.data();
        p.gate = gates > 0 ? dg.data() : nullptr, p.gate_stride = gates > 1 ? lanes : 0;
        const std::string what = std::string("combine ") + name_of(dtype);
        report.success(what, combine(p, make_target(true)));
        report.compare(what, dtype, y.read(), want);
        report.guards(what, y);
      }
}

void check_group_norm(Report& report, Random& random) {
  report.begin("group norm");
  const int shapes[][4] = {{2, 35, 6, 3},      {1, 9, 19, 19}, {1, 9, 15, 1},   {3, 5, 4, 2},     {1, 4096, 32, 32},
                           {2, 1000, 320, 32}, {1, 7, 8, 4},   {1, 1, 2100, 7}, {2, 3000, 64, 1}, {1, 257, 2056, 2056}};
  for (const DType dtype : kFloats)
    for (const auto& s : shapes)
      for (const bool parameters : {true, false}) {
        const int n = s[0], pixels = s[1], c = s[2], groups = s[3], each = c / groups, lanes = padded(c);
        std::vector<float> x = images(random, n * pixels, c);
        const float offset = dtype == DType::kF32 ? 100.0f : 4.0f;
        for (float& v : x) v += offset;  // the mean is much larger than the deviation
        std::vector<float> scale = random.numbers(static_cast<size_t>(c)),
                           bias = random.numbers(static_cast<size_t>(c));
        Buffer dx(dtype, &x), ds(DType::kF32, &scale), db(DType::kF32, &bias);
        Expected want(x.size());
        std::fill(want.magnitude.begin(), want.magnitude.end(), -1);
        for (int i = 0; i < n; ++i)
          for (int g = 0; g < groups; ++g) {
            double mean = 0, square = 0;
            const auto each_place = [&](auto one) {
              for (int p = 0; p < pixels; ++p)
                for (int k = g * each; k < (g + 1) * each; ++k)
                  one((static_cast<size_t>(i) * pixels + p) * lanes + k, k);
            };
            each_place([&](size_t at, int) { mean += x[at]; });
            mean /= static_cast<double>(pixels) * each;
            each_place([&](size_t at, int) { square += (x[at] - mean) * (x[at] - mean); });
            const double factor = 1 / std::sqrt(square / (static_cast<double>(pixels) * each) + 1e-3f);
            each_place([&](size_t at, int k) {
              const double v = (x[at] - mean) * factor;
              want.value[at] = activated({Function::kSilu, 0, 0}, parameters ? v * scale[k] + bias[k] : v);
              want.magnitude[at] = (dtype == DType::kF32 ? 30 : 1) * (1 + std::abs(v));
            });
          }
        GroupNorm p;
        p.dtype = dtype, p.images = n, p.pixels = pixels, p.channels = c, p.groups = groups, p.epsilon = 1e-3f;
        p.activation = {Function::kSilu, 0, 0};
        Buffer y(dtype, x.size()), workspace(DType::kF32, static_cast<size_t>(group_norm_workspace(p)) / 4);
        p.x = dx.data(), p.y = y.data(), p.workspace = workspace.as<float>();
        p.scale = parameters ? ds.as<float>() : nullptr, p.bias = parameters ? db.as<float>() : nullptr;
        const std::string what = std::string("group norm ") + name_of(dtype) + " " + std::to_string(pixels) + "x" +
                                 std::to_string(c) + " in " + std::to_string(groups);
        report.success(what, group_norm(p, make_target(true)));
        report.compare(what, dtype, y.read(), want);
        report.guards(what, y);
        report.guards(what, workspace);
      }
}

}  // namespace
}  // namespace minnow::cuda::check

int main() {
  using namespace minnow::cuda::check;
  Report report;
  Random random(1);
  check_all_depthwise(report, random);
  check_all_pools(report, random);
  check_global(report, random);
  check_layout(report, random);
  check_combine(report, random);
  check_group_norm(report, random);
  return report.end();
}
