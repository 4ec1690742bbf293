// Attention, what is behind the past, and rotary positions.
#include "kernels/cuda/attention.h"
#include "tests/kernels/cuda/check.h"

namespace minnow::cuda::check {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class Mask { kNone, kAdded, kPerKey, kBool, kBoolPerBatch, kTwo };

struct Case {
  int batch, kv, group, rows, keys, depth, width;
  bool joined;  // [batch, length, heads * size], else [batch, heads, length, size]
  int causal;
  Mask mask;
  Attention::ZeroRows zero_rows;
  bool odd;  // operands that begin at any element
};

int64_t place(const AttentionPlace& p, int b, int k, int g, int row, int column) {
  return b * p.batch[0] + k * p.batch[1] + g * p.batch[2] + row * p.row + column * p.column;
}

AttentionPlace place_of(bool joined, int heads, int kv, int length, int size, bool shared) {
  AttentionPlace p;
  p.row = joined ? heads * size : size;
  p.column = 1;
  const int head = joined ? size : length * size;
  p.batch[0] = static_cast<int64_t>(heads) * length * size;
  p.batch[1] = static_cast<int64_t>(shared ? 1 : heads / kv) * head;
  p.batch[2] = shared ? 0 : head;
  return p;
}

void check_attention(Report& report, Random& random, const Case& s, DType dtype) {
  const int heads = s.kv * s.group;
  Attention a;
  a.dtype = dtype;
  a.batch_rank = 3;
  a.batch[0] = s.batch, a.batch[1] = s.kv, a.batch[2] = s.group;
  a.rows = s.rows, a.keys = s.keys, a.depth = s.depth, a.width = s.width;
  a.q_place = place_of(s.joined, heads, s.kv, s.rows, s.depth, false);
  a.k_place = place_of(s.joined, s.kv, s.kv, s.keys, s.depth, true);
  a.v_place = place_of(!s.joined, s.kv, s.kv, s.keys, s.width, true);
  a.out_place = place_of(s.joined, heads, s.kv, s.rows, s.width, false);
  a.scale = 0.8f / std::sqrt(static_cast<float>(s.depth));
  a.causal = s.causal;
  a.zero_rows = s.zero_rows;
  const size_t shift = s.odd ? 1 : 0;
  std::vector<float> q = random.numbers(static_cast<size_t>(s.batch) * heads * s.rows * s.depth + shift, 3);
  std::vector<float> k = random.numbers(static_cast<size_t>(s.batch) * s.kv * s.keys * s.depth + shift, 3);
  std::vector<float> v = random.numbers(static_cast<size_t>(s.batch) * s.kv * s.keys * s.width + shift);
  Buffer dq(dtype, &q), dk(dtype, &k), dv(dtype, &v);
  const size_t bytes = shift * size_of(dtype);
  a.q = dq.data() + bytes, a.k = dk.data() + bytes, a.v = dv.data() + bytes;

  std::vector<float> first, second;
  if (s.mask == Mask::kAdded || s.mask == Mask::kTwo) first = random.numbers(static_cast<size_t>(s.rows) * s.keys, 2);
  if (s.mask == Mask::kPerKey) first = random.numbers(static_cast<size_t>(s.batch) * s.keys, 2);
  if (s.mask == Mask::kAdded)
    for (size_t i = 0; i < first.size(); ++i) {
      if (i % 7 == 0) first[i] = -std::numeric_limits<float>::infinity();
      if (i < static_cast<size_t>(s.keys)) first[i] = -std::numeric_limits<float>::infinity();  // the first row
    }
  if (s.mask == Mask::kPerKey)
    for (float& x : first) x = x < 0 ? -3.402823466e38f : 0;
  if (s.mask == Mask::kBool || s.mask == Mask::kTwo || s.mask == Mask::kBoolPerBatch) {
    second = random.numbers(static_cast<size_t>(s.batch) * (s.mask == Mask::kBoolPerBatch ? 1 : s.rows) * s.keys);
    for (float& x : second) x = x < 0 ? 0 : 1;
    for (int i = 0; i < s.keys; ++i) second[static_cast<size_t>(i)] = 0;
    a.fill = s.mask == Mask::kTwo ? -1000.0f : -std::numeric_limits<float>::infinity();
  }
  std::vector<float> dummy(1);
  const DType added = dtype == DType::kF16 && s.mask == Mask::kPerKey ? DType::kF32 : dtype;
  Buffer dfirst(added, first.empty() ? &dummy : &first), dsecond(DType::kBool, second.empty() ? &dummy : &second);
  if (!first.empty()) {
    AttentionMask& m = a.mask[a.masks++];
    m.data = dfirst.data(), m.dtype = added, m.place.column = 1;
    if (s.mask == Mask::kPerKey) {
      m.place.batch[0] = s.keys;
    } else {
      m.place.row = s.keys;
    }
    a.mask_scale = 0.5f;
  }
  if (!second.empty()) {
    AttentionMask& m = a.mask[a.masks++];
    m.data = dsecond.data(), m.dtype = DType::kBool, m.place.column = 1;
    m.place.row = s.mask == Mask::kBoolPerBatch ? 0 : s.keys;
    m.place.batch[0] = static_cast<int64_t>(s.mask == Mask::kBoolPerBatch ? 1 : s.rows) * s.keys;
  }

  Expected want(static_cast<size_t>(s.batch) * heads * s.rows * s.width);
  std::vector<double> score(static_cast<size_t>(s.keys));
  for (int b = 0; b < s.batch; ++b)
    for (int h = 0; h < heads; ++h)
      for (int r = 0; r < s.rows; ++r) {
        const int kv = h / s.group, g = h % s.group;
        double most = -kInfinity, sum = 0;
        for (int j = 0; j < s.keys; ++j) {
          double dot = 0;
          for (int d = 0; d < s.depth; ++d)
            dot += static_cast<double>(q[static_cast<size_t>(place(a.q_place, b, kv, g, r, d)) + shift]) *
                   k[static_cast<size_t>(place(a.k_place, b, kv, g, j, d)) + shift];
          double x = a.scale * dot;
          if (!first.empty())
            x += a.mask_scale * static_cast<double>(first[static_cast<size_t>(place(a.mask[0].place, b, kv, g, r, j))]);
          if (!second.empty() && second[static_cast<size_t>(place(a.mask[a.masks - 1].place, b, kv, g, r, j))] == 0)
            x = a.fill;
          if (s.causal >= 0 && j > r + s.causal) x = -kInfinity;
          score[static_cast<size_t>(j)] = x;
          most = std::max(most, x);
        }
        for (double& x : score) sum += x = std::exp(x - most);
        const bool empty = most == -kInfinity;
        for (int d = 0; d < s.width; ++d) {
          double y = 0, magnitude = 0;
          for (int j = 0; j < s.keys; ++j) {
            const double one =
                score[static_cast<size_t>(j)] / sum * v[static_cast<size_t>(place(a.v_place, b, kv, g, j, d)) + shift];
            y += one;
            magnitude += std::abs(one);
          }
          if (empty) y = s.zero_rows == Attention::ZeroRows::kNone ? std::nan("") : 0;
          const auto at = static_cast<size_t>(place(a.out_place, b, kv, g, r, d));
          want.value[at] = y;
          want.magnitude[at] = empty ? 0 : 2 * magnitude + 0.05;
        }
      }
  const Target target = make_target(true);
  for (a.scheme = 0; a.scheme < attention_schemes(a, target); ++a.scheme) {
    const std::string what = std::string("attention ") + name_of(dtype) + " " + attention_scheme(a, target) +
                             " batch " + std::to_string(s.batch) + "x" + std::to_string(s.kv) + "x" +
                             std::to_string(s.group) + " " + std::to_string(s.rows) + " rows " +
                             std::to_string(s.keys) + " keys " + std::to_string(s.depth) + "/" +
                             std::to_string(s.width) + " mask " + std::to_string(static_cast<int>(s.mask)) +
                             " causal " + std::to_string(s.causal);
    Buffer out(dtype, want.value.size());
    Buffer workspace(DType::kF32, static_cast<size_t>(attention_workspace(a, target)) / 4);
    a.out = out.data(), a.workspace = workspace.data();
    report.success(what, attention(a, target));
    report.compare(what, dtype, out.read(), want);
    report.guards(what, out);
    report.guards(what, workspace);
  }
}

void check_all_attention(Report& report, Random& random) {
  using Zero = Attention::ZeroRows;
  const Case cases[] = {
      {1, 6, 1, 197, 197, 64, 64, true, -1, Mask::kNone, Zero::kNone, false},
      {4, 12, 1, 197, 197, 64, 64, true, -1, Mask::kNone, Zero::kNone, false},
      {1, 2, 1, 64, 5, 64, 64, true, -1, Mask::kNone, Zero::kNone, false},
      {1, 3, 1, 65, 64, 64, 64, false, -1, Mask::kNone, Zero::kEmpty, false},
      {2, 1, 3, 128, 257, 64, 64, true, -1, Mask::kNone, Zero::kNone, false},
      {2, 2, 2, 113, 700, 64, 64, false, -1, Mask::kNone, Zero::kNan, false},
      {1, 1, 1, 300, 16, 64, 64, true, -1, Mask::kNone, Zero::kNone, false},
      {1, 1, 1, 129, 129, 64, 64, true, -1, Mask::kNone, Zero::kNone, false},
      {2, 3, 1, 71, 71, 32, 32, false, 0, Mask::kNone, Zero::kNone, false},
      {1, 2, 4, 70, 131, 128, 128, false, 61, Mask::kNone, Zero::kNone, false},
      {1, 2, 1, 37, 67, 40, 40, true, -1, Mask::kNone, Zero::kNone, false},
      {1, 2, 1, 19, 300, 80, 48, true, -1, Mask::kAdded, Zero::kNone, false},
      {1, 2, 1, 19, 300, 256, 256, true, -1, Mask::kAdded, Zero::kEmpty, false},
      {2, 2, 2, 33, 65, 64, 64, false, -1, Mask::kBool, Zero::kNan, false},
      {2, 2, 2, 33, 65, 64, 72, false, -1, Mask::kBool, Zero::kNone, false},
      {2, 2, 2, 33, 129, 160, 160, false, 96, Mask::kTwo, Zero::kEmpty, false},
      {3, 2, 1, 17, 90, 64, 64, true, -1, Mask::kPerKey, Zero::kNone, false},
      {3, 2, 1, 17, 90, 96, 96, true, -1, Mask::kBoolPerBatch, Zero::kEmpty, false},
      {1, 8, 4, 1, 1000, 128, 128, false, -1, Mask::kNone, Zero::kNone, false},
      {1, 8, 4, 1, 4099, 128, 128, false, 4098, Mask::kNone, Zero::kNone, false},
      {2, 4, 1, 1, 3001, 64, 64, true, -1, Mask::kPerKey, Zero::kNone, false},
      {1, 1, 8, 1, 2500, 256, 256, false, -1, Mask::kBoolPerBatch, Zero::kEmpty, false},
      {1, 1, 8, 5, 2500, 64, 64, false, 2495, Mask::kNone, Zero::kNone, false},
      {1, 1, 1, 1, 1, 8, 8, true, -1, Mask::kNone, Zero::kNone, false},
      {1, 1, 1, 3, 5, 8, 16, true, 0, Mask::kNone, Zero::kNone, false},
      {2, 2, 1, 7, 11, 5, 3, true, -1, Mask::kAdded, Zero::kNone, false},
      {1, 3, 2, 45, 77, 17, 130, false, 32, Mask::kBool, Zero::kEmpty, false},
      {1, 2, 1, 50, 50, 64, 64, true, -1, Mask::kNone, Zero::kNone, true},
      {1, 1, 1, 2, 1200, 33, 33, true, 1198, Mask::kTwo, Zero::kNone, false},
      {64, 3, 1, 64, 49, 32, 32, true, -1, Mask::kAdded, Zero::kNan, false},
      {40, 4, 1, 70, 70, 128, 128, true, 0, Mask::kBool, Zero::kEmpty, false},
      {40, 4, 1, 70, 70, 256, 200, true, 0, Mask::kNone, Zero::kEmpty, false},
  };
  for (const DType dtype : kFloats) {
    report.begin(std::string("attention ") + name_of(dtype));
    for (const Case& s : cases) check_attention(report, random, s, dtype);
  }
}

void check_append(Report& report, Random& random) {
  report.begin("append cache");
  const int shapes[][5] = {{2, 3, 5, 2, 64}, {1, 1, 0, 3, 7}, {2, 2, 7, 1, 20}, {1, 8, 1000, 1, 128}};
  for (const DType dtype : {DType::kF16, DType::kF32})
    for (const auto& s : shapes)
      for (const bool joined : {true, false}) {
        const int n = s[0], heads = s[1], past = s[2], fresh = s[3], size = s[4];
        std::vector<float> p = random.numbers(static_cast<size_t>(n) * heads * past * size);
        std::vector<float> f = random.numbers(static_cast<size_t>(n) * heads * fresh * size);
        Buffer dp(dtype, &p), df(dtype, &f);
        CacheAppend c;
        c.element_size = static_cast<int>(size_of(dtype));
        c.images = n, c.heads = heads, c.past = past, c.fresh = fresh, c.size = size;
        c.fresh_row = joined ? heads * size : size, c.fresh_head = joined ? size : fresh * size;
        c.fresh_image = static_cast<int64_t>(heads) * fresh * size;
        Expected want(p.size() + f.size());
        size_t at = 0;
        for (int i = 0; i < n; ++i)
          for (int h = 0; h < heads; ++h)
            for (int r = 0; r < past + fresh; ++r)
              for (int d = 0; d < size; ++d)
                want.value[at++] =
                    r < past
                        ? p[((static_cast<size_t>(i) * heads + h) * past + r) * size + d]
                        : f[static_cast<size_t>(i * c.fresh_image + h * c.fresh_head + (r - past) * c.fresh_row + d)];
        Buffer out(dtype, want.value.size());
        c.past_data = dp.data(), c.fresh_data = df.data(), c.out = out.data();
        report.success("append", append_cache(c, make_target(true)));
        report.compare("append", dtype, out.read(), want, 0);
        report.guards("append", out);
      }
}

void check_rotary(Report& report, Random& random) {
  report.begin("rotary");
  // Rows [b, h, l]; tables of [l], [b, 1, l] or [1].
  for (const DType dtype : kFloats)
    for (const bool interleaved : {true, false})
      for (const bool full_cos : {true, false})
        for (const bool full_sin : {true, false})
          for (const int turned : {64, 34, 2}) {
            const int b = 2, h = 3, l = 5, length = 64, pairs = turned / 2;
            std::vector<float> x = random.numbers(static_cast<size_t>(b) * h * l * length);
            const int cos_size = full_cos ? turned : pairs, sin_size = full_sin ? turned : pairs;
            std::vector<float> cos = random.numbers(static_cast<size_t>(b) * l * cos_size);
            std::vector<float> sin = random.numbers(static_cast<size_t>(l) * sin_size);
            Buffer dx(dtype, &x), dc(dtype, &cos), ds(dtype, &sin), y(dtype, x.size());
            Expected want(x.size());
            for (int r = 0; r < b * h * l; ++r) {
              const size_t row = static_cast<size_t>(r) * length;
              const float* c = cos.data() + static_cast<size_t>(r / (h * l) * l + r % l) * cos_size;
              const float* s = sin.data() + static_cast<size_t>(r % l) * sin_size;
              for (int i = turned; i < length; ++i) want.value[row + i] = x[row + i];
              for (int i = 0; i < pairs; ++i) {
                const int one = interleaved ? 2 * i : i, two = interleaved ? 2 * i + 1 : i + pairs;
                const double u = x[row + one], v = x[row + two];
                want.value[row + one] = u * c[full_cos ? one : i] - v * s[full_sin ? one : i];
                want.value[row + two] = v * c[full_cos ? two : i] + u * s[full_sin ? two : i];
                want.magnitude[row + one] = want.magnitude[row + two] = 1;
              }
            }
            Rotary p;
            p.dtype = dtype, p.interleaved = interleaved, p.length = length, p.turned = turned, p.rank = 3;
            p.dims[0] = b, p.dims[1] = h, p.dims[2] = l;
            p.full_cos = full_cos, p.full_sin = full_sin;
            p.cos_strides[0] = l * cos_size, p.cos_strides[2] = cos_size, p.sin_strides[2] = sin_size;
            p.x = dx.data(), p.cos = dc.data(), p.sin = ds.data(), p.y = y.data();
            report.success("rotary", rotary(p, make_target(true)));
            report.compare("rotary", dtype, y.read(), want);
            report.guards("rotary", y);
            p.y = dx.data();
            report.success("rotary", rotary(p, make_target(true)));
            report.compare("rotary in place", dtype, dx.read(), want);
          }
}

}  // namespace
}  // namespace minnow::cuda::check

int main() {
  using namespace minnow::cuda::check;
  Report report;
  Random random(3);
  check_all_attention(report, random);
  check_append(report, random);
  check_rotary(report, random);
  return report.end();
}
