// Depthwise and pointwise convolutions in one kernel.
#include "kernels/cuda/separable.h"
#include "tests/kernels/cuda/check.h"

namespace minnow::cuda::check {
namespace {

struct Layers {
  int n, h, w, c, size, stride_y, stride_x, pad, outputs;
};

int padded(int channels) { return (channels + 7) / 8 * 8; }

// What Product has of these functions, by hand: none, and between two bounds.
void set_bounds(const Activation& activation, Ending* end) {
  end->low = activation.function == Function::kClamp ? activation.alpha : -INFINITY;
  end->high = activation.function == Function::kClamp ? activation.beta : INFINITY;
  end->clamps = activation.function == Function::kClamp;
  if (activation.function == Function::kGelu) end->curve = Ending::kGelu, end->bends = true;
}

void check_layers(Report& report, Random& random, const Layers& s, const Activation& first, const Activation& last,
                  bool residual, bool biased) {
  constexpr DType kHalf = DType::kF16;
  const int c = padded(s.c), row = padded(s.outputs), taps = s.size * s.size;
  const int oh = (s.h + 2 * s.pad - s.size) / s.stride_y + 1, ow = (s.w + 2 * s.pad - s.size) / s.stride_x + 1;
  const int m = s.n * oh * ow;
  std::vector<float> x = images(random, s.n * s.h * s.w, s.c, 2.0f), t = images(random, taps, s.c);
  std::vector<float> tb = images(random, 1, s.c), b = images(random, 1, s.outputs), r = images(random, m, s.outputs);
  std::vector<float> w(static_cast<size_t>(s.outputs) * c);
  for (int o = 0; o < s.outputs; ++o)
    for (int k = 0; k < s.c; ++k) w[static_cast<size_t>(o) * c + k] = random.number();
  for (int k = s.c; k < c; ++k) tb[static_cast<size_t>(k)] = 0;
  for (int k = 0; k < taps; ++k)
    for (int l = s.c; l < c; ++l) t[static_cast<size_t>(k) * c + l] = 0;
  Buffer dx(kHalf, &x), dt(kHalf, &t), dtb(DType::kF32, &tb), dw(kHalf, &w), db(DType::kF32, &b), dr(kHalf, &r);
  // The image between, rounded as one in memory is.
  std::vector<float> middle(static_cast<size_t>(m) * s.c), room(middle.size());
  for (int i = 0; i < m; ++i)
    for (int k = 0; k < s.c; ++k) {
      const int n = i / (oh * ow), p = i / ow % oh, q = i % ow;
      double sum = biased ? tb[static_cast<size_t>(k)] : 0, size = 0;
      for (int j = 0; j < taps; ++j) {
        const int y = p * s.stride_y - s.pad + j / s.size, z = q * s.stride_x - s.pad + j % s.size;
        if (y < 0 || y >= s.h || z < 0 || z >= s.w) continue;
        const double product = static_cast<double>(x[((static_cast<size_t>(n) * s.h + y) * s.w + z) * c + k]) *
                               t[static_cast<size_t>(j) * c + k];
        sum += product;
        size += std::abs(product);
      }
      middle[static_cast<size_t>(i) * s.c + k] = static_cast<float>(activated(first, sum));
      room[static_cast<size_t>(i) * s.c + k] = static_cast<float>(size);
    }
  Expected want(static_cast<size_t>(m) * row);
  for (int i = 0; i < m; ++i)
    for (int o = 0; o < row; ++o) {
      const size_t at = static_cast<size_t>(i) * row + o;
      want.magnitude[at] = -1;
      if (o >= s.outputs) continue;
      double sum = biased ? b[static_cast<size_t>(o)] : 0, size = 0;
      for (int k = 0; k < s.c; ++k) {
        const double v = w[static_cast<size_t>(o) * c + k];
        sum += middle[static_cast<size_t>(i) * s.c + k] * v;
        size += room[static_cast<size_t>(i) * s.c + k] * std::abs(v);
      }
      if (residual) sum += r[at];
      want.value[at] = activated(last, sum);
      want.magnitude[at] = size;
    }
  Separable p;
  Depthwise& d = p.depthwise;
  d.dtype = kHalf;
  d.images = s.n, d.height = s.h, d.width = s.w, d.channels = c, d.out_height = oh, d.out_width = ow;
  d.kernel_height = d.kernel_width = s.size, d.stride_y = s.stride_y, d.stride_x = s.stride_x;
  d.pad_y = d.pad_x = s.pad;
  d.activation = first;
  d.x = dx.data(), d.weights = dt.data(), d.bias = biased ? dtb.as<float>() : nullptr;
  ProductArguments& a = p.pointwise.shape;
  a.M = a.W = a.Q = m, a.N = s.outputs, a.C = s.c, a.pixel = a.depth = c;
  a.end.row = a.end.columns = row, a.end.bias_count = s.outputs, a.end.wide = true;
  set_bounds(last, &a.end);
  ProductOperands operands;
  operands.w = dw.data();
  operands.bias = biased ? db.as<float>() : nullptr;
  operands.residual = residual ? dr.data() : nullptr;
  const Target target = make_target(true);
  const int schemes = separable_schemes(p, target);
  if (schemes == 0 && target.capability >= 80) report.fail("no way to compute it");
  for (int scheme = 0; scheme < schemes; ++scheme) {
    Buffer y(kHalf, want.value.size());
    operands.y = y.data();
    const std::string what = separable_name(p, scheme, target) + " " + std::to_string(s.n) + "x" + std::to_string(s.h) +
                             "x" + std::to_string(s.w) + "x" + std::to_string(s.c) + " window " +
                             std::to_string(s.size) + " outputs " + std::to_string(s.outputs);
    report.success(what, separable(p, scheme, operands, target));
    report.compare(what, kHalf, y.read(), want);
    report.guards(what, y);
  }
}

void check_all(Report& report, Random& random) {
  report.begin("separable convolutions");
  const Layers shapes[] = {
      {1, 7, 7, 960, 3, 1, 1, 1, 160},  {1, 14, 14, 384, 3, 1, 1, 1, 64}, {1, 14, 14, 576, 3, 2, 2, 1, 160},
      {2, 13, 11, 19, 3, 1, 1, 1, 5},   {1, 28, 28, 144, 3, 1, 1, 1, 32}, {3, 9, 17, 72, 5, 2, 2, 2, 40},
      {1, 15, 15, 130, 5, 1, 1, 2, 67}, {1, 1, 1, 8, 3, 1, 1, 1, 8},      {1, 5, 3, 64, 3, 2, 1, 0, 33},
      {2, 33, 35, 32, 3, 1, 1, 1, 16},  {1, 20, 20, 65, 5, 1, 2, 0, 129}, {1, 7, 7, 960, 3, 1, 1, 1, 320},
  };
  const Activation functions[] = {
      {Function::kClamp, 0, 6}, {Function::kNone, 0, 0}, {Function::kClamp, -0.5f, 40}, {Function::kGelu, 0, 0}};
  int i = 0;
  for (const Layers& s : shapes)
    for (int k = 0; k < 4; ++k, ++i)
      check_layers(report, random, s, functions[k], functions[(k + i) % 4], i % 2 == 0, i % 5 != 0);
}

}  // namespace
}  // namespace minnow::cuda::check

int main() {
  using namespace minnow::cuda::check;
  Report report;
  Random random(11);
  check_all(report, random);
  return report.end();
}
