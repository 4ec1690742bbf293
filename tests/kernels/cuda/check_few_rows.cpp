// Products of few rows, with weights of floats and quantized ones.
#include "kernels/cuda/few_rows.h"
#include "kernels/cuda/unpack_weights.h"
#include "tests/kernels/cuda/check.h"

namespace minnow::cuda::check {
namespace {

void check_few(Report& report, Random& random, int rows, int n, int k, DType dtype, int bits, int group, bool zeros,
               const Activation& activation, bool offsets = false) {
  const size_t x_row = static_cast<size_t>(k) + 8, y_row = static_cast<size_t>(n) + 3;
  std::vector<float> x = random.numbers(static_cast<size_t>(rows) * x_row),
                     bias = random.numbers(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i)
    if (i % x_row >= static_cast<size_t>(k)) x[i] = std::nanf("");
  if (rows == 3) x[static_cast<size_t>(random.below(k))] = std::nanf("");
  std::vector<float> residual = random.numbers(static_cast<size_t>(rows) * y_row);
  std::vector<float> w = random.numbers(static_cast<size_t>(n) * k);
  const size_t groups = bits > 0 ? static_cast<size_t>(k / group) : 1;
  std::vector<float> scale = random.numbers(static_cast<size_t>(n) * groups, 0.01f);
  std::vector<float> offset = random.numbers(static_cast<size_t>(n) * groups, 0.05f);
  std::vector<uint8_t> q, zero(static_cast<size_t>(n) * groups, bits == 4 ? 8 : 128);
  if (bits > 0) {
    q.assign(static_cast<size_t>(n) * k * bits / 8, 0);
    if (zeros)
      for (uint8_t& z : zero) z = static_cast<uint8_t>(random.below(1 << bits));
    for (size_t i = 0; i < w.size(); ++i) {
      const auto number = static_cast<uint32_t>(random.below(1 << bits));
      const size_t at = i / static_cast<size_t>(k) * groups + i % static_cast<size_t>(k) / static_cast<size_t>(group);
      q[i * bits / 8] = static_cast<uint8_t>(q[i * bits / 8] | number << (bits == 4 ? i % 2 * 4 : 0));
      w[i] = scale[at] * (static_cast<float>(number) - zero[at]) + (offsets ? offset[at] : 0.0f);
    }
  }
  Buffer dx(dtype, &x), dr(dtype, &residual), db(DType::kF32, &bias), y(dtype, static_cast<size_t>(rows) * y_row);
  Buffer dof(DType::kF32, &offset), ds(DType::kF32, &scale), dq(DType::kBool, std::max<size_t>(1, q.size())),
      dz(DType::kBool, zero.size());
  require(cudaMemcpy(dq.data(), q.data(), q.size(), cudaMemcpyHostToDevice), "copy");
  require(cudaMemcpy(dz.data(), zero.data(), zero.size(), cudaMemcpyHostToDevice), "copy");
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
                           std::to_string(n) + "x" + std::to_string(k) + " bits " + std::to_string(bits);
  if (bits > 0) {
    FewRowsQuantized f;
    f.product = p, f.bits = bits, f.group = group;
    f.q = dq.as<uint8_t>(), f.scale = ds.as<float>(), f.zero = zeros ? dz.as<uint8_t>() : nullptr;
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
  const int padded = (k + 7) / 8 * 8, groups = k / group;
  std::vector<float> scale = random.numbers(static_cast<size_t>(n) * groups, 0.01f);
  std::vector<float> offset = random.numbers(static_cast<size_t>(n) * groups, 0.05f);
  const size_t row = (static_cast<size_t>(k) * bits + 7) / 8;
  std::vector<uint8_t> q(static_cast<size_t>(n) * row, 0);
  Expected want(static_cast<size_t>(n) * padded);
  for (int r = 0; r < n; ++r)
    for (int c = 0; c < padded; ++c) {
      const size_t at = static_cast<size_t>(r) * padded + c;
      want.value[at] = 0, want.magnitude[at] = 1e-3;
      if (c >= k) continue;
      const auto number = static_cast<uint32_t>(random.below(1 << bits));
      uint8_t& byte = q[static_cast<size_t>(r) * row + static_cast<size_t>(c) * bits / 8];
      byte = static_cast<uint8_t>(byte | number << (bits == 4 ? c % 2 * 4 : 0));
      const size_t g = static_cast<size_t>(r) * groups + c / group;
      want.value[at] = scale[g] * (static_cast<double>(number) - (1 << (bits - 1))) + (offsets ? offset[g] : 0);
      want.magnitude[at] = 1;
    }
  Buffer ds(DType::kF32, &scale), dof(DType::kF32, &offset), dq(DType::kBool, q.size());
  Buffer y(dtype, static_cast<size_t>(n) * padded);
  require(cudaMemcpy(dq.data(), q.data(), q.size(), cudaMemcpyHostToDevice), "copy");
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
    for (const int group : {32, 64, 128})
      for (const bool zeros : {false, true})
        for (const int rows : {1, 3, 8}) {
          check_few(report, random, rows, 17, group, DType::kF16, bits, group, zeros, {});
          check_few(report, random, rows, 100, 10 * group, DType::kF16, bits, group, zeros, {}, !zeros);
          check_few(report, random, rows, 33, 37 * group, DType::kF16, bits, group, zeros, {});
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
