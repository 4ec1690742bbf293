// Products of few rows, with weights of floats and quantized ones.
#include "kernels/cuda/few_rows.h"
#include "kernels/cuda/quantized_tile.h"
#include "kernels/cuda/unpack_weights.h"
#include "tests/kernels/cuda/check.h"

namespace minnow::cuda::check {
namespace {

// A matrix of random codes in the form of quantized_tile.h, and its numbers. Rows beyond the last have the numbers of a
// memory that nobody has written.
struct Quantized {
  QuantizedTiles tiles;
  std::vector<uint32_t> q;
  std::vector<float> scale, offset, w;

  Quantized(Random& random, int n, int k, int bits, int group, bool offsets) {
    tiles.n = n, tiles.k = k, tiles.bits = bits, tiles.group = group;
    const int groups = tiles.groups();
    q.assign(static_cast<size_t>(tiles.bytes()) / 4, tiles.empty_byte() * 0x01010101u);
    w.resize(static_cast<size_t>(n) * k);
    scale.assign(static_cast<size_t>(tiles.scales()), 0.0f);
    offset = scale;
    for (int row = 0; row < n; ++row) {
      for (int g = 0; g < groups; ++g) {
        const auto at = static_cast<size_t>(place_of_scale(row, g, groups));
        scale[at] = 0.01f * random.number(), offset[at] = offsets ? 0.05f * random.number() : 0.0f;
      }
      for (int c = 0; c < k; ++c) {
        const auto number = static_cast<uint32_t>(random.below(1 << bits));
        const PlaceOfEight place(row, c / 8 * 8, bits, tiles.units());
        q[static_cast<size_t>(place.word + PlaceOfEight::word_of(c % 8, bits))] ^= (number ^ (1u << (bits - 1)))
                                                                                   << place.shift(c % 8, bits);
        const auto at = static_cast<size_t>(place_of_scale(row, c / group, groups));
        w[static_cast<size_t>(row) * k + c] =
            scale[at] * (static_cast<float>(number) - static_cast<float>(1 << (bits - 1))) + offset[at];
      }
    }
  }
};

void check_few(Report& report, Random& random, int rows, int n, int k, DType dtype, int bits, int group, bool offsets,
               const Activation& activation) {
  const size_t x_row = static_cast<size_t>(k) + 8, y_row = static_cast<size_t>(n) + 3;
  std::vector<float> x = random.numbers(static_cast<size_t>(rows) * x_row),
                     bias = random.numbers(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i)
    if (i % x_row >= static_cast<size_t>(k)) x[i] = std::nanf("");
  if (rows == 3) x[static_cast<size_t>(random.below(k))] = std::nanf("");
  std::vector<float> residual = random.numbers(static_cast<size_t>(rows) * y_row);
  std::vector<float> w = random.numbers(static_cast<size_t>(n) * k);
  const Quantized quantized(random, bits > 0 ? n : 1, bits > 0 ? k : 32, bits > 0 ? bits : 8, std::max(group, 32),
                            offsets);
  if (bits > 0) w = quantized.w;
  Buffer dx(dtype, &x), dr(dtype, &residual), db(DType::kF32, &bias), y(dtype, static_cast<size_t>(rows) * y_row);
  Buffer dq(quantized.q), ds(quantized.scale), dof(quantized.offset);
  Buffer dw(bits > 0 ? DType::kF32 : dtype, &w);
  FewRows p;
  p.dtype = dtype, p.rows = rows, p.n = n, p.k = k;
  p.x_row = static_cast<int64_t>(x_row), p.y_row = static_cast<int64_t>(y_row), p.activation = activation;
  p.x = dx.data(), p.w = dw.data(), p.y = y.data();
  p.bias = rows % 2 == 0 ? db.as<float>() : nullptr, p.residual = rows % 3 == 0 ? dr.data() : nullptr;
  Expected want(static_cast<size_t>(rows) * y_row);
  std::fill(want.magnitude.begin(), want.magnitude.end(), -1);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < n; ++c) {
      double sum = 0, magnitude = 0;
      for (int i = 0; i < k; ++i) {
        const double one =
            static_cast<double>(x[static_cast<size_t>(r) * x_row + i]) * w[static_cast<size_t>(c) * k + i];
        sum += one;
        magnitude += one * one;
      }
      const size_t at = static_cast<size_t>(r) * y_row + c;
      if (p.bias != nullptr) sum += bias[static_cast<size_t>(c)];
      if (p.residual != nullptr) sum += residual[at];
      want.value[at] = activated(activation, sum);
      want.magnitude[at] = std::isnan(sum) ? 0 : 1 + 2 * std::sqrt(magnitude);
    }
  const std::string what = std::string("few rows ") + name_of(dtype) + " " + std::to_string(rows) + "x" +
                           std::to_string(n) + "x" + std::to_string(k) + " bits " + std::to_string(bits) +
                           " groups of " + std::to_string(group) + (offsets ? " with offsets" : "");
  if (bits > 0) {
    FewRowsQuantized f;
    f.product = p, f.bits = bits, f.group = group;
    f.q = dq.as<uint8_t>(), f.scale = ds.as<float>();
    f.offset = offsets ? dof.as<float>() : nullptr;
    report.success(what, few_rows_quantized(f, make_target(true)));
  } else {
    report.success(what, few_rows(p, make_target(true)));
  }
  const std::vector<float> got = y.read();
  report.compare(what, dtype, got, want);
  report.guards(what, y);
  for (size_t i = 0; i < got.size(); ++i)
    if (i % y_row >= static_cast<size_t>(n) && !std::isnan(got[i])) return report.fail(what + ": wrote between rows");
}

void check_unpack(Report& report, Random& random, int n, int k, int group, int bits, DType dtype, bool offsets) {
  const int padded = (k + 7) / 8 * 8;
  const Quantized quantized(random, n, k, bits, group, offsets);
  Expected want(static_cast<size_t>(n) * padded);
  for (int r = 0; r < n; ++r)
    for (int c = 0; c < padded; ++c) {
      const size_t at = static_cast<size_t>(r) * padded + c;
      want.value[at] = c < k ? quantized.w[static_cast<size_t>(r) * k + c] : 0;
      want.magnitude[at] = c < k ? 1 : 1e-3;
    }
  Buffer dq(quantized.q), ds(quantized.scale), dof(quantized.offset);
  Buffer y(dtype, static_cast<size_t>(n) * padded);
  UnpackWeights u;
  u.n = n, u.k = k, u.padded = padded, u.bits = bits, u.group = group, u.dtype = dtype, u.to = y.data();
  u.q = dq.as<uint8_t>(), u.scale = ds.as<float>(), u.offset = offsets ? dof.as<float>() : nullptr;
  const std::string what = std::string("unpack ") + name_of(dtype) + " " + std::to_string(n) + "x" + std::to_string(k) +
                           " bits " + std::to_string(bits);
  report.success(what, unpack_weights(u, make_target(true).stream));
  report.compare(what, dtype, y.read(), want);
  report.guards(what, y);
}

}  // namespace
}  // namespace minnow::cuda::check

int main() {
  using namespace minnow::cuda::check;
  using minnow::DType;
  Report report;
  Random random(4);
  report.begin("few rows");
  const int shapes[][2] = {{1, 8}, {16, 32}, {17, 40}, {1000, 512}, {33, 2056}, {4096, 1000}, {9000, 104}};
  size_t i = 0;
  for (const DType dtype : kFloats)
    for (const auto& s : shapes)
      for (const int rows : {1, 2, 3, 5, 8})
        check_few(report, random, rows, s[0], s[1], dtype, 0, 0, false, all_activations()[i++ % 11]);
  report.begin("few rows of quantized weights");
  for (const int bits : {4, 8})
    for (const int group : {32, 64, 96, 128})
      for (const bool offsets : {false, true})
        for (const int rows : {1, 3, 8}) {
          check_few(report, random, rows, 17, group, DType::kF16, bits, group, offsets, {});
          check_few(report, random, rows, 100, 10 * group, DType::kF16, bits, group, offsets,
                    all_activations()[i++ % 11]);
          check_few(report, random, rows, 33, 37 * group, DType::kF16, bits, group, offsets, {});
          check_few(report, random, rows, 16, 75 * group, DType::kF16, bits, group, offsets, {});
        }
  report.begin("floats of quantized weights");
  for (const DType dtype : kFloats)
    for (const int bits : {4, 8})
      for (const bool offsets : {false, true}) {
        check_unpack(report, random, 37, 96, 32, bits, dtype, offsets);
        check_unpack(report, random, 5, 77, 77, bits, dtype, offsets);
        check_unpack(report, random, 1000, 1024, 64, bits, dtype, offsets);
      }
  return report.end();
}
