// LSTM, GRU and RNN.
#include "kernels/cuda/recurrent.h"
#include "tests/kernels/cuda/check.h"

namespace minnow::cuda::check {
namespace {

using Layer = Recurrent::Layer;
using Kind = RecurrentFunction::Kind;

double applied(const RecurrentFunction& f, double v) {
  const double a = f.alpha, b = f.beta;
  switch (f.kind) {
    case Kind::kSigmoid:
      return 1 / (1 + std::exp(-v));
    case Kind::kTanh:
      return std::tanh(v);
    case Kind::kRelu:
      return std::max(v, 0.0);
    case Kind::kSoftsign:
      return v / (1 + std::abs(v));
    case Kind::kSoftplus:
      return std::log1p(std::exp(v));
    case Kind::kLeakyRelu:
      return v < 0 ? a * v : v;
    case Kind::kThresholdedRelu:
      return v > a ? v : 0;
    case Kind::kElu:
      return v < 0 ? a * std::expm1(v) : v;
    case Kind::kHardSigmoid:
      return std::min(std::max(a * v + b, 0.0), 1.0);
    case Kind::kScaledTanh:
      return a * std::tanh(b * v);
    case Kind::kAffine:
      return a * v + b;
  }
  return v;
}

struct Case {
  Layer layer;
  int steps, batch, features, hidden, directions;
  bool reverse, options, lengths, states, extra;  // `options`: clip, and what the layer has of its own
};

void check_recurrent(Report& report, Random& random, const Case& s, DType dtype, int which) {
  const int gates = gates_of(s.layer), h = s.hidden, d = s.directions;
  Recurrent p;
  p.layer = s.layer, p.dtype = dtype;
  p.steps = s.steps, p.batch = s.batch, p.features = s.features, p.hidden = h, p.directions = d;
  p.backward[0] = s.reverse;
  p.peepholes = s.extra && s.layer == Layer::kLstm;
  for (int i = 0; i < d; ++i)
    for (int f = 0; f < 3; ++f) {
      p.functions[i][f] = {f == 0 ? Kind::kSigmoid : Kind::kTanh, 0, 0};
      if (s.layer == Layer::kRnn) p.functions[i][f] = {Kind::kTanh, 0, 0};
      if (which > 0 && f > 0) p.functions[i][f] = {static_cast<Kind>(which), 0.4f, 0.25f};
    }
  if (s.options) {
    p.clip = 0.8f, p.cell_clip = 0.6f, p.input_forget = true, p.linear_before_reset = true;
  }
  const auto size = [](int a, int b, int c = 1, int e = 1) {
    return static_cast<size_t>(a) * static_cast<size_t>(b) * static_cast<size_t>(c) * static_cast<size_t>(e);
  };
  std::vector<float> x = random.numbers(size(s.steps, s.batch, s.features)),
                     w = random.numbers(size(d, gates * h, s.features), 0.4f);
  std::vector<float> r = random.numbers(size(d, gates * h, h), 1.5f / std::sqrt(static_cast<float>(h)));
  std::vector<float> bias = random.numbers(size(d, gates * h), 0.5f);
  std::vector<float> extra = random.numbers(size(d, s.layer == Layer::kLstm ? 3 * h : h), 0.5f);
  std::vector<float> h0 = random.numbers(size(d, s.batch, h)), c0 = random.numbers(size(d, s.batch, h));
  std::vector<float> lengths(static_cast<size_t>(s.batch));
  for (float& l : lengths) l = static_cast<float>(random.below(s.steps + 1));
  const Target target = make_target(true);
  std::vector<float> rounded_r = r;
  Buffer keep(dtype, &rounded_r);  // only to round the numbers
  std::vector<float> packed(static_cast<size_t>(packed_recurrent_count(p, target)));
  pack_recurrent(p, target, rounded_r.data(), packed.data());
  Buffer dx(dtype, &x), dw(dtype, &w), dr(dtype, &packed), db(DType::kF32, &bias), de(DType::kF32, &extra);
  Buffer dh(dtype, &h0), dc(dtype, &c0), dl(DType::kI32, &lengths);
  Expected y(size(s.steps, d, s.batch, h)), y_h(h0.size()), y_c(h0.size());
  const bool has_extra = s.extra && (s.layer == Layer::kLstm || (s.layer == Layer::kGru && p.linear_before_reset));
  const auto bounded = [&](double v) {
    return p.clip == 0 ? v : std::min(std::max(v, -double(p.clip)), double(p.clip));
  };
  for (int i = 0; i < d; ++i)
    for (int b = 0; b < s.batch; ++b) {
      std::vector<double> state(static_cast<size_t>(h)), cell(static_cast<size_t>(h)), next(static_cast<size_t>(h));
      const size_t at = size(i, s.batch, h) + size(b, h);
      for (int u = 0; u < h; ++u) {
        state[static_cast<size_t>(u)] = s.states ? h0[at + u] : 0;
        cell[static_cast<size_t>(u)] = s.states ? c0[at + u] : 0;
      }
      const auto recurrent_sum = [&](int gate, int u, const std::vector<double>& from) {
        double sum = 0;
        for (int k = 0; k < h; ++k)
          sum += from[static_cast<size_t>(k)] * rounded_r[size(i * gates + gate, h, h) + size(u, h) + k];
        return sum;
      };
      for (int step = 0; step < s.steps; ++step) {
        const int t = p.backward[i] ? s.steps - 1 - step : step;
        const bool runs = !s.lengths || t < lengths[static_cast<size_t>(b)];
        const auto input_sum = [&](int gate, int u) {
          double sum = bias[size(i, gates * h) + size(gate, h) + u];
          for (int k = 0; k < s.features; ++k)
            sum += static_cast<double>(x[size(t * s.batch + b, s.features) + k]) *
                   w[size(i * gates * h + gate * h + u, s.features) + k];
          return sum;
        };
        const RecurrentFunction* f = p.functions[i];
        const double* peephole = nullptr;
        std::vector<double> own(extra.begin() + static_cast<int64_t>(extra.size()) / d * i,
                                extra.begin() + static_cast<int64_t>(extra.size()) / d * (i + 1));
        if (has_extra) peephole = own.data();
        std::vector<double> reset(static_cast<size_t>(h)), update(static_cast<size_t>(h)),
            gated(static_cast<size_t>(h));
        if (s.layer == Layer::kGru)
          for (int u = 0; u < h; ++u) {
            const auto k = static_cast<size_t>(u);
            update[k] = applied(f[0], bounded(input_sum(0, u) + recurrent_sum(0, u, state)));
            reset[k] = applied(f[0], bounded(input_sum(1, u) + recurrent_sum(1, u, state)));
            gated[k] = reset[k] * state[k];
          }
        for (int u = 0; u < h; ++u) {
          const auto k = static_cast<size_t>(u);
          if (s.layer == Layer::kRnn) {
            next[k] = applied(f[0], bounded(input_sum(0, u) + recurrent_sum(0, u, state)));
          } else if (s.layer == Layer::kGru) {
            const double inner = p.linear_before_reset
                                     ? reset[k] * (recurrent_sum(2, u, state) + (peephole ? peephole[u] : 0))
                                     : recurrent_sum(2, u, gated);
            next[k] = (1 - update[k]) * applied(f[1], bounded(input_sum(2, u) + inner)) + update[k] * state[k];
          } else {
            double v[4];
            for (int g = 0; g < 4; ++g) v[g] = input_sum(g, u) + recurrent_sum(g, u, state);
            double c = cell[k];
            const double in = applied(f[0], bounded(v[0] + (peephole ? peephole[u] * c : 0)));
            const double forget =
                p.input_forget ? 1 - in : applied(f[0], bounded(v[2] + (peephole ? peephole[2 * h + u] * c : 0)));
            c = forget * c + in * applied(f[1], bounded(v[3]));
            if (p.cell_clip != 0) c = std::min(std::max(c, -double(p.cell_clip)), double(p.cell_clip));
            next[k] = applied(f[0], bounded(v[1] + (peephole ? peephole[h + u] * c : 0))) * applied(f[2], c);
            if (runs) cell[k] = c;
          }
        }
        for (int u = 0; u < h; ++u) {
          const size_t to = size(t * d + i, s.batch, h) + size(b, h) + static_cast<size_t>(u);
          y.value[to] = runs ? next[static_cast<size_t>(u)] : 0;
          y.magnitude[to] = 3;
          if (runs) state[static_cast<size_t>(u)] = next[static_cast<size_t>(u)];
        }
      }
      for (int u = 0; u < h; ++u) {
        y_h.value[at + u] = state[static_cast<size_t>(u)];
        y_c.value[at + u] = cell[static_cast<size_t>(u)];
        y_h.magnitude[at + u] = y_c.magnitude[at + u] = 3;
      }
    }
  Buffer oy(dtype, y.value.size()), oh(dtype, h0.size()), oc(dtype, h0.size());
  Buffer workspace(DType::kF32, static_cast<size_t>(recurrent_workspace(p)) / 4);
  p.x = dx.data(), p.w = dw.data(), p.r = dr.data(), p.bias = db.as<float>();
  p.extra = has_extra ? de.as<float>() : nullptr;
  p.lengths = s.lengths ? dl.data() : nullptr;
  p.h0 = s.states ? dh.data() : nullptr, p.c0 = s.states && s.layer == Layer::kLstm ? dc.data() : nullptr;
  p.y = oy.data(), p.y_h = oh.data(), p.y_c = s.layer == Layer::kLstm ? oc.data() : nullptr;
  p.workspace = workspace.as<float>();
  const std::string what = std::string(s.layer == Layer::kLstm  ? "LSTM "
                                       : s.layer == Layer::kGru ? "GRU "
                                                                : "RNN ") +
                           name_of(dtype) + " steps " + std::to_string(s.steps) + " batch " + std::to_string(s.batch) +
                           " hidden " + std::to_string(h) + " directions " + std::to_string(d) + " functions " +
                           std::to_string(which) + (s.options ? " options" : "");
  const double room = dtype == DType::kF32 ? 3 : 1;
  report.success(what, recurrent(p, target));
  report.compare(what, dtype, oy.read(), y, room);
  report.compare(what + " y_h", dtype, oh.read(), y_h, room);
  if (s.layer == Layer::kLstm) report.compare(what + " y_c", dtype, oc.read(), y_c, room);
  for (const Buffer* buffer : {&oy, &oh, &oc, &workspace}) report.guards(what, *buffer);
}

}  // namespace
}  // namespace minnow::cuda::check

int main() {
  using namespace minnow::cuda::check;
  using minnow::DType;
  using minnow::cuda::Recurrent;
  Report report;
  Random random(5);
  for (const auto layer : {Recurrent::Layer::kLstm, Recurrent::Layer::kGru, Recurrent::Layer::kRnn}) {
    report.begin(layer == Recurrent::Layer::kLstm ? "LSTM" : layer == Recurrent::Layer::kGru ? "GRU" : "RNN");
    for (const DType dtype : kFloats) {
      check_recurrent(report, random, {layer, 5, 2, 3, 7, 1, false, false, false, false, false}, dtype, 0);
      check_recurrent(report, random, {layer, 1, 1, 1, 1, 1, true, false, false, true, false}, dtype, 0);
      check_recurrent(report, random, {layer, 7, 3, 17, 67, 2, false, false, true, true, true}, dtype, 0);
      check_recurrent(report, random, {layer, 6, 9, 5, 129, 2, false, true, true, true, true}, dtype, 0);
      check_recurrent(report, random, {layer, 4, 1, 33, 256, 1, true, false, false, true, true}, dtype, 0);
      check_recurrent(report, random, {layer, 3, 5, 8, 521, 1, false, true, false, true, false}, dtype, 0);
      check_recurrent(report, random, {layer, 0, 2, 8, 20, 2, false, false, false, true, false}, dtype, 0);
      // LSTM: what tensor cores compute; others are as above.
      check_recurrent(report, random, {layer, 7, 3, 17, 67, 2, false, false, true, true, false}, dtype, 0);
      check_recurrent(report, random, {layer, 6, 9, 8, 200, 2, false, false, true, true, false}, dtype, 0);
      check_recurrent(report, random, {layer, 40, 1, 8, 512, 1, true, false, false, true, false}, dtype, 0);
      check_recurrent(report, random, {layer, 5, 70, 8, 390, 1, false, false, true, true, false}, dtype, 0);
      check_recurrent(report, random, {layer, 12, 6, 8, 33, 1, false, false, false, false, false}, dtype, 0);
      for (int which = 1; which <= 10; ++which)
        check_recurrent(report, random, {layer, 4, 2, 3, 19, 1, false, which % 2 == 0, false, true, false}, dtype,
                        which);
    }
  }
  return report.end();
}
