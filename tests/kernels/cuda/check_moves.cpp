// Concatenation and resampling.
#include <array>

#include "kernels/cuda/concat.h"
#include "kernels/cuda/pack.h"
#include "kernels/cuda/resize.h"
#include "tests/kernels/cuda/check.h"

namespace minnow::cuda::check {
namespace {

// Parts of rows, each behind a gap of bytes that are not to be read, written between bytes that are to stay.
void check_concat(Report& report, Random& random, int rows, const std::vector<int>& runs, int gap, int shift) {
  int row = gap;
  for (const int run : runs) row += run;
  const size_t size = static_cast<size_t>(rows) * static_cast<size_t>(row) + static_cast<size_t>(shift);
  // Bytes are read and written as booleans: 0 and 1.
  Buffer y(DType::kBool, size);
  std::vector<uint8_t> want(size, 0xff), got(size);
  std::vector<Buffer*> buffers;
  Concat p;
  p.rows = rows, p.stride = row, p.to = y.data() + shift;
  int begin = shift;
  for (const int run : runs) {
    const int stride = run + gap;
    std::vector<float> x(static_cast<size_t>(rows) * static_cast<size_t>(stride));
    for (float& v : x) v = static_cast<float>(random.below(2));
    buffers.push_back(new Buffer(DType::kBool, &x));
    for (int r = 0; r < rows; ++r)
      for (int i = 0; i < run; ++i)
        want[static_cast<size_t>(r * row + begin + i)] = static_cast<uint8_t>(x[static_cast<size_t>(r * stride + i)]);
    p.part[p.parts++] = {buffers.back()->data(), run, stride};
    begin += run;
  }
  const std::string what = "concat of " + std::to_string(rows) + " rows, " + std::to_string(runs.size()) +
                           " parts, the first of " + std::to_string(runs[0]) + " bytes, gap " + std::to_string(gap);
  report.success(what, concat(p, make_target(true)));
  require(cudaMemcpy(got.data(), y.data(), size, cudaMemcpyDeviceToHost), "cudaMemcpy");
  Expected same(1);
  size_t wrong = 0;
  for (size_t i = 0; i < size; ++i) wrong += got[i] != want[i] ? 1 : 0;
  report.compare(what, DType::kF32, {static_cast<float>(wrong)}, same);
  report.guards(what, y);
  for (Buffer* buffer : buffers) delete buffer;
}

void check_all_concats(Report& report, Random& random) {
  report.begin("concat");
  const std::vector<int> lists[] = {{64, 64}, {16, 48, 32}, {8, 24}, {4, 2, 160}, {1, 2, 3, 4}, {1000, 24}, {12, 12}};
  for (const int rows : {1, 7, 300})
    for (const auto& runs : lists)
      for (const int gap : {0, 16, 6, 1})
        for (const int shift : {0, 4}) check_concat(report, random, rows, runs, gap, shift);
  check_concat(report, random, 33, std::vector<int>(16, 8), 0, 0);
  check_concat(report, random, 100000, {64, 128}, 0, 0);  // as many as take more than one element for each thread
}

struct Table {
  std::vector<int> index;
  std::vector<float> weight;
};

Table table_of(Random& random, int in, int out, int taps, bool outside) {
  Table t;
  for (int i = 0; i < out * taps; ++i) {
    t.index.push_back(random.below(in));
    t.weight.push_back(random.number());
  }
  if (outside) t.index[static_cast<size_t>(random.below(out))] = -1;
  return t;
}

void check_resize(Report& report, Random& random, DType dtype, const int (&s)[6], int taps, bool outside) {
  const int n = s[0], h = s[1], w = s[2], c = s[3], oh = s[4], ow = s[5], lanes = (c + 7) / 8 * 8;
  std::vector<float> x = images(random, n * h * w, c);
  Buffer dx(dtype, &x);
  const bool blends = taps > 0;
  const int each = std::max(taps, 1);
  Table rows = table_of(random, h, oh, each, outside), columns = table_of(random, w, ow, each, outside);
  const auto upload = [](const void* from, size_t bytes, const Buffer& to) {
    require(cudaMemcpy(to.data(), from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  };
  Buffer row_index(DType::kI32, rows.index.size()), column_index(DType::kI32, columns.index.size());
  Buffer row_weight(DType::kF32, &rows.weight), column_weight(DType::kF32, &columns.weight);
  upload(rows.index.data(), rows.index.size() * 4, row_index);
  upload(columns.index.data(), columns.index.size() * 4, column_index);
  Expected want(static_cast<size_t>(n) * oh * ow * lanes);
  for (int i = 0; i < n; ++i)
    for (int p = 0; p < oh; ++p)
      for (int q = 0; q < ow; ++q)
        for (int k = 0; k < lanes; ++k) {
          const size_t at = ((static_cast<size_t>(i) * oh + p) * ow + q) * lanes + k;
          double sum = 0, size = 0;
          bool beyond = false;
          for (int a = 0; a < each; ++a)
            for (int b = 0; b < each; ++b) {
              const int r = rows.index[static_cast<size_t>(a * oh + p)],
                        v = columns.index[static_cast<size_t>(b * ow + q)];
              beyond = beyond || r < 0 || v < 0;
              if (r < 0 || v < 0) continue;
              const double weight = !blends ? 1.0
                                            : static_cast<double>(rows.weight[static_cast<size_t>(a * oh + p)]) *
                                                  columns.weight[static_cast<size_t>(b * ow + q)];
              const double one = weight * x[((static_cast<size_t>(i) * h + r) * w + v) * lanes + k];
              sum += one;
              size += std::abs(one);
            }
          want.value[at] = beyond ? 0.5 : sum;
          want.magnitude[at] = k >= c ? -1 : beyond ? 0 : size;
        }
  Buffer y(dtype, want.value.size());
  Resize r;
  r.dtype = dtype, r.images = n, r.channels = lanes, r.outside = 0.5f;
  r.rows = {h, oh, each, row_index.as<int>(), blends ? row_weight.as<float>() : nullptr};
  r.columns = {w, ow, each, column_index.as<int>(), blends ? column_weight.as<float>() : nullptr};
  r.x = dx.data(), r.y = y.data();
  const std::string what = std::string("resize ") + name_of(dtype) + " " + std::to_string(h) + "x" + std::to_string(w) +
                           "x" + std::to_string(c) + " to " + std::to_string(oh) + "x" + std::to_string(ow) + ", " +
                           std::to_string(taps) + " taps";
  report.success(what, resize(r, make_target(true)));
  report.compare(what, dtype, y.read(), want);
  report.guards(what, y);
}

void check_all_resizes(Report& report, Random& random) {
  report.begin("resize");
  const int shapes[][6] = {{1, 13, 13, 24, 26, 26}, {2, 5, 7, 19, 3, 15}, {1, 1, 40, 8, 1, 17}, {3, 9, 4, 3, 9, 8}};
  for (const DType dtype : kFloats)
    for (const auto& s : shapes)
      for (const int taps : {0, 1, 2, 4})
        for (const bool outside : {false, true}) check_resize(report, random, dtype, s, taps, outside);
}

void check_pack(Report& report, Random& random) {
  report.begin("pack");
  for (const auto& s : {std::array<int, 3>{1, 3, 49}, {2, 8, 257}, {1, 1, 1}, {33, 3, 1000}, {3, 17, 63}, {2, 40, 65}})
    for (const bool packs : {true, false}) {
      const int n = s[0], c = s[1], pixels = s[2], lanes = (c + 7) / 8 * 8;
      std::vector<uint8_t> x(static_cast<size_t>(n) * pixels * (packs ? c : lanes));
      for (uint8_t& v : x) v = static_cast<uint8_t>(random.below(256));
      std::vector<uint8_t> want(static_cast<size_t>(n) * pixels * (packs ? lanes : c));
      for (int i = 0; i < n; ++i)
        for (int k = 0; k < c; ++k)
          for (int p = 0; p < pixels; ++p) {
            const size_t plain = (static_cast<size_t>(i) * c + k) * pixels + p;
            const size_t last = (static_cast<size_t>(i) * pixels + p) * lanes + k;
            want[packs ? last : plain] = x[packs ? plain : last];
          }
      const Buffer from = Buffer(x), to(DType::kBool, want.size());
      Pack p;
      p.from = from.data(), p.to = to.data();
      p.element_bytes = 1;
      p.images = n, p.channels = c, p.pixels = pixels, p.packs = packs;
      const std::string what = std::string(packs ? "pack " : "unpack ") + std::to_string(n) + "x" + std::to_string(c) +
                               "x" + std::to_string(pixels);
      report.success(what, pack(p, make_target(true)));
      report.equal(what, to.elements<uint8_t>(), want);
      report.guards(what, to);
    }
}

}  // namespace
}  // namespace minnow::cuda::check

int main() {
  using namespace minnow::cuda::check;
  Report report;
  Random random(1);
  check_all_concats(report, random);
  check_all_resizes(report, random);
  check_pack(report, random);
  return report.end();
}
