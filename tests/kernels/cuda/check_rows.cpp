// Kernels of rows: Softmax, LogSoftmax, LayerNorm, RMSNorm, norms of channels of plain tensors.
#include "kernels/cuda/rows.h"
#include "tests/kernels/cuda/check.h"

namespace minnow::cuda::check {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void check_softmax(Report& report, Random& random, int outer, int length, int inner, DType dtype, bool log,
                   int special) {
  std::vector<float> x = random.numbers(static_cast<size_t>(outer) * length * inner, 8.0f);
  // A row of nothing but -inf, one with NaN, and one with infinity.
  const auto at = [&](int o, int l, int i) { return (static_cast<size_t>(o) * length + l) * inner + i; };
  const auto fnan = std::numeric_limits<float>::quiet_NaN(), finf = std::numeric_limits<float>::infinity();
  if (special == 1)
    for (int l = 0; l < length; ++l) x[at(0, l, 0)] = -finf;
  if (special == 2) x[at(0, random.below(length), inner - 1)] = fnan;
  if (special == 3) x[at(outer - 1, random.below(length), 0)] = finf;
  if (special == 4) x[at(outer - 1, random.below(length), 0)] = -finf;
  Buffer dx(dtype, &x), y(dtype, x.size());
  Expected want(x.size());
  for (int o = 0; o < outer; ++o)
    for (int i = 0; i < inner; ++i) {
      double most = -kInfinity, sum = 0;
      bool any_nan = false;
      for (int l = 0; l < length; ++l) {
        any_nan = any_nan || std::isnan(x[at(o, l, i)]);
        most = std::max<double>(most, x[at(o, l, i)]);
      }
      if (any_nan) most = fnan;
      for (int l = 0; l < length; ++l) sum += std::exp(x[at(o, l, i)] - most);
      for (int l = 0; l < length; ++l) {
        const double shifted = x[at(o, l, i)] - most;
        want.value[at(o, l, i)] = log ? shifted - std::log(sum) : std::exp(shifted) / sum;
        want.magnitude[at(o, l, i)] = log ? std::log(static_cast<double>(length)) : std::exp(shifted) / sum * 2;
        if (std::isnan(want.magnitude[at(o, l, i)])) want.magnitude[at(o, l, i)] = 0;
      }
    }
  Softmax s;
  s.dtype = dtype, s.log = log, s.outer = outer, s.length = length, s.inner = inner;
  s.x = dx.data(), s.y = y.data();
  const std::string what = std::string(log ? "LogSoftmax " : "Softmax ") + name_of(dtype) + " " +
                           std::to_string(outer) + "x" + std::to_string(length) + "x" + std::to_string(inner) +
                           " special " + std::to_string(special);
  report.success(what, softmax(s, make_target(true)));
  report.compare(what, dtype, y.read(), want);
  report.guards(what, y);
  if (inner == 1) {  // in place
    s.y = dx.data();
    report.success(what, softmax(s, make_target(false)));
    report.compare(what + " in place", dtype, dx.read(), want);
    report.guards(what, dx);
  }
}

void check_norm(Report& report, Random& random, int rows, int length, DType dtype, DType parameters, bool centered,
                bool scale, bool bias, float offset, int channel_size, int row_channels, int channels) {
  std::vector<float> x = random.numbers(static_cast<size_t>(rows) * length);
  for (float& v : x) v += offset;
  if (rows > 2) x[static_cast<size_t>(length) + static_cast<size_t>(random.below(length))] = std::nanf("");
  const size_t count = static_cast<size_t>(channel_size > 0 ? channels : length);
  std::vector<float> s = random.numbers(count), b = random.numbers(count);
  Buffer dx(dtype, &x), ds(parameters, &s), db(parameters, &b), y(dtype, x.size());
  Expected want(x.size());
  for (int r = 0; r < rows; ++r) {
    const float* row = x.data() + static_cast<size_t>(r) * length;
    double mean = 0, square = 0;
    for (int i = 0; centered && i < length; ++i) mean += row[i];
    mean /= length;
    for (int i = 0; i < length; ++i) square += (row[i] - mean) * (row[i] - mean);
    const double factor = 1 / std::sqrt(square / length + 1e-5f);
    for (int i = 0; i < length; ++i) {
      const size_t k = channel_size > 0 ? static_cast<size_t>((r * row_channels + i / channel_size) % channels)
                                        : static_cast<size_t>(i);
      double v = (row[i] - mean) * factor;
      const double magnitude = std::abs(v);
      if (scale) v *= s[k];
      if (bias) v += b[k];
      want.value[static_cast<size_t>(r) * length + i] = v;
      want.magnitude[static_cast<size_t>(r) * length + i] =
          std::isnan(magnitude) ? 0 : (magnitude + 1) * (dtype == DType::kF32 && offset > 1 ? 20 : 1);
    }
  }
  RowNorm n;
  n.dtype = dtype, n.parameter_dtype = parameters, n.centered = centered, n.rows = rows, n.length = length;
  n.channel_size = channel_size, n.row_channels = row_channels, n.channels = channels;
  n.constant_parameters = rows % 2 == 1;
  n.x = dx.data(), n.y = y.data(), n.scale = scale ? ds.data() : nullptr, n.bias = bias ? db.data() : nullptr;
  const std::string what = std::string(centered ? "LayerNorm " : "RMSNorm ") + name_of(dtype) + " " +
                           std::to_string(rows) + "x" + std::to_string(length) + " channels of " +
                           std::to_string(channel_size);
  report.success(what, row_norm(n, make_target(true)));
  report.compare(what, dtype, y.read(), want);
  report.guards(what, y);
}

}  // namespace
}  // namespace minnow::cuda::check

int main() {
  using namespace minnow::cuda::check;
  using minnow::DType;
  Report report;
  Random random(2);
  report.begin("softmax");
  const int shapes[][3] = {{1, 1, 1},     {3, 7, 1},      {5, 32, 1},    {197, 197, 1}, {7, 256, 1},   {3, 1000, 1},
                           {2, 1024, 1},  {3, 1031, 1},   {2, 4099, 1},  {2, 8192, 1},  {1, 16001, 1}, {1, 32768, 1},
                           {2, 50264, 1}, {1, 151936, 1}, {2, 40003, 1}, {2, 19, 5},    {1, 21, 1000}, {3, 5, 1}};
  for (const DType dtype : kFloats)
    for (const auto& s : shapes)
      for (const bool log : {false, true})
        for (const int special : {0, 1, 2, 3, 4}) check_softmax(report, random, s[0], s[1], s[2], dtype, log, special);
  report.begin("row norm");
  const int sizes[][2] = {{1, 1},    {3, 7},      {197, 384}, {5, 131},   {4, 768},   {3, 1024},  {2, 1030},
                          {5, 4096}, {2, 5120},   {2, 8199},  {1, 16384}, {3, 40000}, {2, 40001}, {64, 64},
                          {33, 56},  {6305, 384}, {31, 200},  {401, 256}, {41, 512},  {9, 1000}};
  for (const DType dtype : kFloats)
    for (const DType parameters : {DType::kF32, dtype})
      for (const auto& s : sizes)
        for (const bool centered : {true, false}) {
          check_norm(report, random, s[0], s[1], dtype, parameters, centered, true, centered, 0, 0, 0, 0);
          check_norm(report, random, s[0], s[1], dtype, parameters, centered, false, false,
                     dtype == DType::kF32 ? 1000.0f : 3.0f, 0, 0, 0);
        }
  // Images of 6 channels in 3 groups, 19 of their own, 15 in 1.
  for (const DType dtype : kFloats) {
    check_norm(report, random, 2 * 3, 2 * 35, dtype, DType::kF32, true, true, true, 0, 35, 2, 6);
    check_norm(report, random, 2 * 3, 2 * 64, dtype, dtype, true, true, true, 0, 64, 2, 6);
    check_norm(report, random, 2 * 19, 9, dtype, DType::kF32, true, true, false, 0, 9, 1, 19);
    check_norm(report, random, 15, 15 * 400, dtype, DType::kF32, true, false, true, 0, 400, 15, 15);
  }
  return report.end();
}
