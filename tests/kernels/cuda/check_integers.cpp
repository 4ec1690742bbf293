// Layers of 8-bit integers, against plain loops: the same bits.
#include <array>

#include "kernels/cuda/integer/integer_elements.h"
#include "kernels/cuda/integer/integer_product.h"
#include "tests/kernels/cuda/check.h"

namespace minnow::cuda::check {
namespace {

int up(int n, int to) { return (n + to - 1) / to * to; }

enum class Zeros { kNone, kConstant, kRunning };

struct Layer {
  int images = 1, channels = 1, height = 1, width = 1, outputs = 1, groups = 1;
  int R = 1, S = 1, stride = 1, dilation = 1, pad = 0;
  bool x_signed = false, w_signed = true;
  Zeros zeros = Zeros::kConstant;
  bool w_zeros = false;
  IntegerEnding::Kind kind = IntegerEnding::kFixedPoint;
  int bytes = 1;
  bool plain = false;   // the arithmetic of fewer instructions, where it is enough
  bool tables = false;  // a function of the results, the sum with another tensor, and a function of that
  std::string name() const {
    std::string s = std::to_string(images) + "x" + std::to_string(channels) + "x" + std::to_string(height) + "x" +
                    std::to_string(width) + " to " + std::to_string(outputs) + " g" + std::to_string(groups) + " " +
                    std::to_string(R) + "x" + std::to_string(S) + " s" + std::to_string(stride) + " d" +
                    std::to_string(dilation) + " p" + std::to_string(pad);
    s += x_signed ? " s8" : " u8";
    s += w_signed ? " s8" : " u8";
    s += " zeros " + std::to_string(static_cast<int>(zeros)) + (w_zeros ? " w" : "");
    if (tables) s += " tables";
    if (plain) s += " plain";
    return s + " kind " + std::to_string(static_cast<int>(kind)) + " bytes " + std::to_string(bytes);
  }
};

// As the op Requantize says it, with divisions.
int64_t fixed_point(int32_t x, int32_t factor, int32_t shift) {
  const auto wrapped = static_cast<int32_t>(static_cast<int64_t>(x) << (shift > 0 ? shift : 0));
  const double half = static_cast<double>(int64_t{1} << 31);
  // Exact: 62 bits of a product are more than a double has, so in two parts.
  const int64_t product = static_cast<int64_t>(wrapped) * factor;
  int64_t v = product / (int64_t{1} << 31), rest = product % (int64_t{1} << 31);
  if (rest < 0) rest += int64_t{1} << 31, --v;
  if (static_cast<double>(rest) >= half / 2) ++v;
  v = std::min<int64_t>(v, 2147483647);
  const int right = shift < 0 ? -shift : 0;
  const int64_t divisor = int64_t{1} << right, size = v < 0 ? -v : v;
  const int64_t quotient = right == 0 ? size : (2 * size + divisor) / (2 * divisor);
  return v < 0 ? -quotient : quotient;
}

struct Operands {
  std::vector<uint8_t> x, w, w_zero;
  uint8_t x_zero = 0;
  std::vector<int32_t> bias, factor, shift;
  std::vector<float> scale;
  std::vector<uint8_t> table, last, other;
  std::vector<int32_t> own, terms;
  int32_t sum_factor = 0, sum_shift = 0;
};

int value(uint8_t byte, bool is_signed) { return is_signed ? static_cast<int8_t>(byte) : byte; }
// As it is multiplied.
int centered(uint8_t byte, bool is_signed) { return is_signed ? static_cast<int8_t>(byte) : byte - 128; }

// Results [M][outputs up to 8] of the plain loop; lanes beyond the outputs are not set.
std::vector<int32_t> expected(const Layer& l, const Operands& o, int P, int Q, int zero, int least, int most) {
  const int pixel = up(l.channels, 8), inputs = l.channels / l.groups, per = l.outputs / l.groups;
  const int row = up(l.outputs, 8);
  std::vector<int32_t> y(static_cast<size_t>(l.images) * P * Q * row);
  for (int m = 0; m < l.images * P * Q; ++m)
    for (int n = 0; n < l.outputs; ++n) {
      const int image = m / (P * Q), p = m % (P * Q) / Q, q = m % Q;
      int64_t sum = o.bias[static_cast<size_t>(n)];
      for (int r = 0; r < l.R; ++r)
        for (int s = 0; s < l.S; ++s) {
          const int h = p * l.stride - l.pad + r * l.dilation, w = q * l.stride - l.pad + s * l.dilation;
          if (h < 0 || h >= l.height || w < 0 || w >= l.width) continue;
          for (int c = 0; c < inputs; ++c) {
            const int at = ((image * l.height + h) * l.width + w) * pixel + n / per * inputs + c;
            const int one = value(o.x[static_cast<size_t>(at)], l.x_signed) -
                            (l.zeros == Zeros::kNone ? 0 : value(o.x_zero, l.x_signed));
            const int tap = value(o.w[static_cast<size_t>(((n * inputs + c) * l.R + r) * l.S + s)], l.w_signed) -
                            (l.w_zeros ? value(o.w_zero[static_cast<size_t>(n)], l.w_signed) : 0);
            sum += one * tap;
          }
        }
      const auto total = static_cast<int32_t>(sum);
      int64_t v = total;
      if (l.kind == IntegerEnding::kFixedPoint) {
        v = fixed_point(total, o.factor[static_cast<size_t>(n)], o.shift[static_cast<size_t>(n)]);
        v = std::clamp<int64_t>(static_cast<int32_t>(v + zero), least, most);
      } else if (l.kind == IntegerEnding::kFactor) {
        const float product = static_cast<float>(total) * o.scale[static_cast<size_t>(n)];
        v = static_cast<int64_t>(std::clamp<double>(std::nearbyint(product) + zero, least, most));
      }
      const size_t place = static_cast<size_t>(m) * row + n;
      if (l.tables) {
        const int32_t sum = o.own[o.table[static_cast<uint8_t>(v)]] + o.terms[o.other[place]];
        v = std::clamp<int64_t>(fixed_point(sum, o.sum_factor, o.sum_shift) + 5, 0, 255);
        v = o.last[static_cast<size_t>(v)];
      }
      y[place] = static_cast<int32_t>(v);
    }
  return y;
}

template <typename T>
void compare(Report& report, const std::string& what, const Buffer& y, const std::vector<int32_t>& want, int row,
             int outputs) {
  const std::vector<T> all = y.elements<T>();
  std::vector<T> got, should;
  for (size_t i = 0; i < want.size(); ++i)
    if (static_cast<int>(i % static_cast<size_t>(row)) < outputs) {
      got.push_back(all[i]);
      should.push_back(static_cast<T>(want[i]));
    }
  report.equal(what, got, should);
  report.guards(what, y);
}

void check_layer(Report& report, Random& random, const Layer& l, bool every_tile) {
  const int pixel = up(l.channels, 8), inputs = l.channels / l.groups, per = l.outputs / l.groups, taps = l.R * l.S;
  const int P = (l.height + 2 * l.pad - (l.R - 1) * l.dilation - 1) / l.stride + 1;
  const int Q = (l.width + 2 * l.pad - (l.S - 1) * l.dilation - 1) / l.stride + 1;
  const int row = up(l.outputs, 8), zero = l.kind == IntegerEnding::kSum ? 0 : 3;
  const int most = l.bytes == 1 ? 120 : l.bytes == 2 ? 30000 : 2147483647, least = -most - 1 + l.bytes;
  const auto bytes = [&](size_t n) {
    std::vector<uint8_t> v(n);
    for (uint8_t& b : v) b = static_cast<uint8_t>(random.bits());
    return v;
  };
  Operands o;
  o.x = bytes(static_cast<size_t>(l.images) * l.height * l.width * pixel);  // lanes beyond the channels hold anything
  o.w = bytes(static_cast<size_t>(l.outputs) * inputs * taps);
  o.w_zero = bytes(static_cast<size_t>(l.outputs));
  o.x_zero = bytes(1)[0];
  const size_t columns = static_cast<size_t>(row);
  o.bias.assign(columns, 0), o.factor = o.shift = o.bias, o.scale.assign(columns, 0);
  for (size_t n = 0; n < static_cast<size_t>(l.outputs); ++n) {
    o.bias[n] = random.below(10000) - 5000;
    o.factor[n] = (1 << 30) + random.below(1 << 30);
    o.shift[n] = l.bytes == 4 ? random.below(3) - 1 : -5 - random.below(6);
    o.scale[n] = 0.003f * (1.5f + random.number());
  }
  o.table = bytes(256), o.last = bytes(256);
  o.other = bytes(static_cast<size_t>(l.images) * P * Q * columns);
  o.own.resize(256), o.terms.resize(256);
  for (size_t i = 0; i < 256; ++i) {
    o.own[i] = random.below(1 << 20) - (1 << 19);
    o.terms[i] = random.below(1 << 20) - (1 << 19);
  }
  o.sum_factor = (1 << 30) + random.below(1 << 30), o.sum_shift = -12;
  const std::vector<int32_t> want = expected(l, o, P, Q, zero, least, most);

  IntegerProduct product;
  IntegerArguments& a = product.a;
  const Buffer x = Buffer(o.x), x_zero = Buffer(std::vector<uint8_t>{o.x_zero});
  const Buffer factor(o.factor), shift(o.shift), scale(o.scale);
  a.x = x.data();
  a.flip = l.x_signed ? 0 : 0x80808080u;
  a.H = l.height, a.W = l.width, a.C = inputs, a.pixel = pixel;
  a.R = l.R, a.S = l.S, a.P = P, a.Q = Q;
  a.stride_h = a.stride_w = l.stride, a.pad_h = a.pad_w = l.pad, a.dilation_h = a.dilation_w = l.dilation;
  a.M = l.images * P * Q, a.N = per;
  product.batch = l.groups;
  product.chunk = pixel % 16 == 0 && inputs % 16 == 0 ? 16 : 8;
  if (l.groups == 1 && pixel % 16 == 0) product.chunk = 16;
  const int padded = up(inputs, product.chunk);
  a.depth = up(taps * padded, 16);
  a.x_batch = inputs, a.w_batch = int64_t{per} * a.depth, a.y_batch = a.column_batch = per;
  IntegerEnding& end = a.end;
  end.kind = l.kind, end.bytes = l.bytes;
  end.factor = factor.as<int32_t>(), end.shift = shift.as<int32_t>(), end.scale = scale.as<float>();
  end.zero = zero, end.least = least, end.most = most;
  end.plain = l.plain && (l.kind != IntegerEnding::kFixedPoint || l.bytes < 4);
  end.row = row, end.wide = true;
  end.columns = l.groups == 1 ? row : per;

  const Buffer table(o.table), last(o.last), other(o.other), own(o.own), terms(o.terms);
  if (l.tables) {
    end.table = table.as<uint8_t>(), end.last = last.as<uint8_t>(), end.other = other.as<uint8_t>();
    end.own = own.as<int32_t>(), end.terms = terms.as<int32_t>();
    end.sum_factor = o.sum_factor, end.sum_shift = o.sum_shift, end.sum_zero = 5, end.sum_most = 255;
    end.plain_sum = l.plain;
  }

  // Operands as the layers pack them.
  const bool depthwise = l.groups > 1 && inputs == 1 && per == 1;
  const bool tensor = !depthwise && (l.groups == 1 || (inputs % 8 == 0 && per % 8 == 0));
  const int raw = l.zeros == Zeros::kNone ? 0 : o.x_zero;
  const int x_center = l.zeros == Zeros::kNone ? (l.x_signed ? 0 : -128) : centered(o.x_zero, l.x_signed);
  std::vector<int8_t> packed(static_cast<size_t>(l.outputs) * (tensor ? a.depth : inputs * taps), 0);
  std::vector<int32_t> words(static_cast<size_t>(taps) * pixel, 0), add = o.bias;
  std::vector<int32_t> correction(columns, 0), zeros(columns, 0);
  for (int n = 0; n < l.outputs; ++n) {
    const size_t column = static_cast<size_t>(n);
    zeros[column] = l.w_zeros ? centered(o.w_zero[column], l.w_signed) : l.w_signed ? 0 : -128;
    int sum = 0;
    for (int c = 0; c < inputs; ++c)
      for (int t = 0; t < taps; ++t) {
        const int one = centered(o.w[static_cast<size_t>((n * inputs + c) * taps + t)], l.w_signed);
        sum += one;
        const int at = tensor ? n * a.depth + t * padded + c : (n * taps + t) * inputs + c;
        packed[static_cast<size_t>(at)] = static_cast<int8_t>(one);
        const uint32_t word = static_cast<uint32_t>(one - zeros[column]);
        if (depthwise)
          words[static_cast<size_t>(t * pixel + n)] = static_cast<int32_t>(n % 2 == 0 ? word & 0xffff : word << 16);
      }
    correction[column] = sum - inputs * taps * zeros[column];
    if (l.zeros != Zeros::kRunning && (tensor || depthwise)) add[column] -= x_center * correction[column];
  }
  const Buffer w(packed), w_words(words), bias(add);
  const Buffer w_zeros = Buffer(zeros), corrections = Buffer(correction);
  const Buffer pad = Buffer(std::vector<uint8_t>(16, static_cast<uint8_t>(raw)));
  const Buffer spread(DType::kBool, 16);
  a.w = w.as<int8_t>();
  a.pad = pad.data();
  end.bias = bias.as<int32_t>();
  const bool some = std::any_of(zeros.begin(), zeros.end(), [](int z) { return z != 0; });
  if (some && !depthwise) end.w_zero = w_zeros.as<int32_t>();
  const Target target = make_target(true);
  if (l.zeros == Zeros::kRunning) {
    end.x_zero = x_zero.data();
    if (tensor || depthwise) end.correction = corrections.as<int32_t>();
    report.success("spread", spread_byte(x_zero.data(), spread.data(), target));
    a.pad = spread.data();
  }
  const auto finish = [&](const std::string& what, const Buffer& y, cudaError_t error) {
    report.success(what, error);
    if (l.bytes == 1) compare<uint8_t>(report, what, y, want, row, l.outputs);
    if (l.bytes == 2) compare<int16_t>(report, what, y, want, row, l.outputs);
    if (l.bytes == 4) compare<int32_t>(report, what, y, want, row, l.outputs);
  };
  const size_t results = want.size() * static_cast<size_t>(l.bytes);
  if (depthwise) {
    const Buffer y(DType::kBool, results);
    IntegerDepthwise p;
    p.images = l.images, p.channels = pixel, p.words = w_words.as<int32_t>(), p.shape = a;
    p.shape.end.columns = row, p.shape.end.y = y.data();
    return finish("depthwise " + l.name(), y, integer_depthwise(p, target));
  }
  if (!tensor) {
    const Buffer y(DType::kBool, results);
    IntegerGroups p;
    p.images = l.images, p.groups = l.groups, p.inputs = inputs, p.outputs = per, p.w = w.as<int8_t>();
    p.x_zero = x_center, p.x_zero_at = end.x_zero, p.shape = a;
    p.shape.end.columns = row, p.shape.end.y = y.data();
    return finish("groups " + l.name(), y, integer_groups(p, target));
  }
  std::vector<IntegerConfig> configs = integer_configs(product, target, every_tile ? 1000 : 1);
  if (configs.empty()) report.fail("no kernel for " + l.name());
  for (const IntegerConfig& config : configs) {
    const Buffer y(DType::kBool, results);
    end.y = y.data();
    finish(config_name(config) + " " + l.name(), y, multiply_integers(product, config, target));
  }
}

// Matrices [batch, m, k] and [batch, k, n] that both come while the network runs.
void check_matrices(Report& report, Random& random, int batch, int m, int n, int k, bool a_signed, bool b_signed,
                    bool zeros) {
  const auto bytes = [&](int64_t count) {
    std::vector<uint8_t> v(static_cast<size_t>(count));
    for (uint8_t& b : v) b = static_cast<uint8_t>(random.bits());
    return v;
  };
  const std::vector<uint8_t> a = bytes(int64_t{batch} * m * k), b = bytes(int64_t{batch} * k * n);
  const std::vector<uint8_t> a_zero = bytes(1), b_zero = bytes(n);
  std::vector<int32_t> want(static_cast<size_t>(batch) * m * n);
  for (size_t i = 0; i < want.size(); ++i) {
    const size_t column = i % static_cast<size_t>(n), line = i / static_cast<size_t>(n);
    const size_t matrix = line / static_cast<size_t>(m);
    for (size_t j = 0; j < static_cast<size_t>(k); ++j) {
      const int one = value(a[line * static_cast<size_t>(k) + j], a_signed) - (zeros ? value(a_zero[0], a_signed) : 0);
      const int other = value(b[(matrix * static_cast<size_t>(k) + j) * static_cast<size_t>(n) + column], b_signed) -
                        (zeros ? value(b_zero[column], b_signed) : 0);
      want[i] += one * other;
    }
  }
  const int padded = up(k, 16), arrays = up(n, 8);
  const Buffer from_a(a), from_b(b), zero_a(a_zero), zero_b = Buffer(b_zero);
  const Buffer none = Buffer(std::vector<uint8_t>(1, 0));
  const Buffer x(DType::kBool, static_cast<size_t>(batch) * m * padded);
  const Buffer w(DType::kBool, static_cast<size_t>(batch) * n * padded);
  const Buffer correction(DType::kI32, static_cast<size_t>(batch) * arrays);
  const Buffer w_zero(DType::kI32, static_cast<size_t>(batch) * arrays), y(DType::kI32, want.size());
  const Target target = make_target(true);
  const std::string what = "matrices " + std::to_string(batch) + "x" + std::to_string(m) + "x" + std::to_string(n) +
                           "x" + std::to_string(k) + (a_signed ? " s8" : " u8") + (b_signed ? " s8" : " u8") +
                           (zeros ? " zeros" : "");
  report.success(what, pad_rows(from_a.data(), x.data(), int64_t{batch} * m, k, padded, target));
  TurnedWeights t;
  t.from = from_b.data(), t.is_unsigned = !b_signed, t.batch = batch, t.k = k, t.n = n;
  t.zero = zeros ? zero_b.data() : nullptr, t.zero_step = 1;
  t.to = w.as<int8_t>(), t.depth = padded, t.correction = correction.as<int32_t>(), t.w_zero = w_zero.as<int32_t>();
  report.success(what, turn_weights(t, target));
  report.guards(what, w);
  report.guards(what, correction);
  report.guards(what, x);
  IntegerProduct product;
  product.batch = batch;
  IntegerArguments& s = product.a;
  s.x = x.data(), s.w = w.as<int8_t>(), s.flip = a_signed ? 0 : 0x80808080u, s.constant_w = false;
  s.C = k, s.pixel = padded, s.W = s.Q = s.M = m, s.N = n, s.depth = padded;
  s.x_batch = int64_t{m} * padded, s.w_batch = int64_t{n} * padded, s.y_batch = int64_t{m} * n;
  s.column_batch = arrays;
  s.end.correction = correction.as<int32_t>(), s.end.w_zero = w_zero.as<int32_t>();
  s.end.x_zero = zeros ? zero_a.data() : none.data();
  s.end.row = n, s.end.columns = n, s.end.wide = n % 8 == 0, s.end.y = y.data();
  const std::vector<IntegerConfig> configs = integer_configs(product, target, 2);
  if (configs.empty()) return report.fail("no kernel for " + what);
  for (const IntegerConfig& config : configs) {
    report.success(what, multiply_integers(product, config, target));
    report.equal(config_name(config) + " " + what, y.elements<int32_t>(), want);
    report.guards(what, y);
  }
}

// Quantization by the range, and what DynamicQuantizeLinear says of it.
void check_range(Report& report, Random& random, int rows, int columns, float factor, int steps) {
  std::vector<float> x = random.numbers(static_cast<size_t>(rows) * columns, factor);
  const int padded = up(columns, 16);
  const Buffer from = Buffer(x), y(DType::kBool, static_cast<size_t>(rows) * padded);
  const Buffer parts(DType::kF32, 2 * kRangeParts), scale(DType::kF32, 1), zero(DType::kBool, 1);
  QuantizeByRange p;
  p.rows = rows, p.columns = columns, p.padded = padded, p.steps = steps;
  p.x = from.as<float>(), p.parts = parts.as<float>(), p.y = y.as<uint8_t>();
  p.scale = scale.as<float>(), p.zero = zero.as<uint8_t>();
  const std::string what = "by range " + std::to_string(rows) + "x" + std::to_string(columns);
  report.success(what, quantize_by_range(p, make_target(true)));
  float low = 0, high = 0;
  for (float v : x) low = std::min(low, v), high = std::max(high, v);
  const double by = steps == 0 ? 255 : steps;
  float step = steps == 0 ? (high - low) / 255.0f : static_cast<float>((static_cast<double>(high) - low) / by);
  if (steps == 0 && high == low) step = 1;
  if (steps != 0 && (step == 0 || std::isinf(1 / step))) step = 0.1f;
  const int middle = static_cast<int>(std::nearbyint(std::clamp(-low / step, 0.0f, static_cast<float>(by))));
  report.equal(what + " scale", scale.elements<float>(), std::vector<float>{step});
  report.equal(what + " zero", zero.elements<uint8_t>(), std::vector<uint8_t>{static_cast<uint8_t>(middle)});
  const std::vector<uint8_t> all = y.elements<uint8_t>();
  std::vector<uint8_t> got, want;
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) {
      const float v = std::nearbyint(x[static_cast<size_t>(r) * columns + c] / step) + static_cast<float>(middle);
      got.push_back(all[static_cast<size_t>(r) * padded + c]);
      want.push_back(static_cast<uint8_t>(std::clamp(v, 0.0f, 255.0f)));
    }
  report.equal(what, got, want);
  report.guards(what, y);
}

}  // namespace
}  // namespace minnow::cuda::check

// With an argument, by the kernel that is tried first only: for tools that make kernels slow.
int main(int argc, char**) {
  using namespace minnow::cuda::check;
  using minnow::cuda::IntegerEnding;
  const bool all_tiles = argc == 1;
  Report report;
  Random random(8);
  const auto forms = [&](Layer l, bool every_tile) {
    // All signs, zero points and endings, one by one.
    int i = 0;
    for (const bool x_signed : {false, true})
      for (const bool w_signed : {true, false})
        for (const Zeros zeros : {Zeros::kNone, Zeros::kConstant, Zeros::kRunning}) {
          l.x_signed = x_signed, l.w_signed = w_signed, l.zeros = zeros;
          l.w_zeros = i % 2 == 1;
          l.kind = static_cast<IntegerEnding::Kind>(i % 3);
          l.tables = i % 6 == 2 || i % 6 == 4;  // of bytes
          l.plain = i % 4 < 2;
          l.bytes = l.kind == IntegerEnding::kSum ? 4 : l.kind == IntegerEnding::kFactor ? 1 : 1 << (i % 2);
          check_layer(report, random, l, every_tile && (i % 4 == 1 || l.tables));
          ++i;
        }
  };
  report.begin("integer matrices");
  for (const auto& s : {std::array<int, 3>{1, 8, 8}, {17, 33, 13}, {49, 130, 64}, {7, 70, 1032}, {200, 67, 136}}) {
    Layer l;
    l.width = s[0], l.outputs = s[1], l.channels = s[2];
    forms(l, all_tiles);
  }
  report.begin("integer convolutions");
  for (const auto& s : {std::array<int, 9>{1, 3, 11, 9, 17, 3, 2, 1, 1},
                        {2, 16, 7, 5, 24, 3, 1, 1, 1},
                        {1, 24, 9, 9, 40, 1, 2, 1, 0},
                        {1, 37, 13, 11, 19, 5, 3, 2, 3},
                        {1, 128, 7, 7, 64, 3, 1, 1, 1}}) {
    Layer l;
    l.images = s[0], l.channels = s[1], l.height = s[2], l.width = s[3], l.outputs = s[4];
    l.R = l.S = s[5], l.stride = s[6], l.dilation = s[7], l.pad = s[8];
    forms(l, all_tiles);
  }
  report.begin("integer convolutions in groups");
  for (const auto& s : {std::array<int, 8>{1, 16, 9, 7, 16, 2, 3, 1},
                        {2, 32, 5, 5, 64, 2, 3, 2},
                        {1, 6, 8, 7, 9, 3, 3, 1},
                        {1, 19, 9, 7, 19, 19, 3, 1},
                        {2, 24, 11, 13, 24, 24, 5, 2},
                        {1, 4, 6, 6, 8, 4, 3, 1}}) {
    Layer l;
    l.images = s[0], l.channels = s[1], l.height = s[2], l.width = s[3], l.outputs = s[4], l.groups = s[5];
    l.R = l.S = s[6], l.stride = s[7], l.pad = s[6] / 2, l.dilation = s[7] == 1 ? 2 : 1;
    forms(l, all_tiles);
  }
  report.begin("depthwise convolutions of integers");
  for (const auto& s : {std::array<int, 6>{1, 24, 9, 11, 3, 1},
                        {2, 16, 10, 13, 3, 2},
                        {1, 40, 9, 6, 5, 1},
                        {1, 19, 11, 13, 5, 2},
                        {8, 64, 50, 50, 3, 1},
                        {9, 64, 64, 64, 3, 2},
                        {8, 64, 50, 50, 5, 1},
                        {9, 64, 64, 64, 5, 2}}) {
    Layer l;
    l.images = s[0], l.channels = l.outputs = l.groups = s[1], l.height = s[2], l.width = s[3];
    l.R = l.S = s[4], l.stride = s[5], l.pad = s[4] / 2;
    if (all_tiles || l.images < 8) forms(l, false);  // the last ones fill a GPU
  }
  report.begin("matrices of integers");
  for (const bool a_signed : {false, true})
    for (const bool b_signed : {false, true})
      for (const bool zeros : {false, true}) {
        check_matrices(report, random, 3, 17, 29, 33, a_signed, b_signed, zeros);
        check_matrices(report, random, 2, 64, 40, 200, a_signed, b_signed, zeros);
        check_matrices(report, random, 1, 1, 7, 1, a_signed, b_signed, zeros);
      }
  report.begin("quantization by the range");
  for (const int steps : {0, 127, 255})
    for (const float factor : {0.0f, 1.0f, 1e-30f, 1000.0f}) {
      check_range(report, random, 1, 1, factor, steps);
      check_range(report, random, 7, 33, factor, steps);
      check_range(report, random, 64, 768, factor, steps);
    }
  return report.end();
}
