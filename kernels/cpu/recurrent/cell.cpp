#include "kernels/cpu/recurrent/cell.h"

#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include <cmath>

#include "kernels/cpu/elementwise/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {

using Kind = GateFunction::Kind;

void Apply(const GateFunction& f, float* x, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto a = hn::Set(d, static_cast<float>(f.alpha));
  const auto b = hn::Set(d, static_cast<float>(f.beta));
  const auto map = [&](const auto& function) HWY_ATTR { MapFloats(x, x, n, function); };
  switch (f.kind) {
    case Kind::kSigmoid:
      return map([](auto d, auto v) HWY_ATTR { return Sigmoid(d, v); });
    case Kind::kTanh:
      return map([](auto d, auto v) HWY_ATTR { return Tanh(d, v); });
    case Kind::kRelu:
      return map([](auto d, auto v) HWY_ATTR { return AtLeast(hn::Zero(d), v); });
    case Kind::kSoftsign:
      return map([](auto d, auto v) HWY_ATTR { return hn::Div(v, hn::Add(hn::Set(d, 1.0f), hn::Abs(v))); });
    case Kind::kSoftplus:
      return map([](auto d, auto v) HWY_ATTR { return Softplus(d, v); });
    case Kind::kLeakyRelu:
      return map([&](auto d, auto v) HWY_ATTR { return hn::IfThenElse(hn::Lt(v, hn::Zero(d)), hn::Mul(a, v), v); });
    case Kind::kThresholdedRelu:
      return map([&](auto, auto v) HWY_ATTR { return hn::IfThenElseZero(hn::Gt(v, a), v); });
    case Kind::kElu:
      return map([&](auto d, auto v)
                     HWY_ATTR { return hn::IfThenElse(hn::Lt(v, hn::Zero(d)), hn::Mul(a, Expm1(d, v)), v); });
    case Kind::kHardSigmoid:
      return map([&](auto d, auto v)
                     HWY_ATTR { return AtMost(hn::Set(d, 1.0f), AtLeast(hn::Zero(d), hn::MulAdd(a, v, b))); });
    case Kind::kScaledTanh:
      return map([&](auto d, auto v) HWY_ATTR { return hn::Mul(a, Tanh(d, hn::Mul(b, v))); });
    case Kind::kAffine:
      return map([&](auto, auto v) HWY_ATTR { return hn::MulAdd(a, v, b); });
  }
}

inline double Value(const GateFunction& f, double v) {
  switch (f.kind) {
    case Kind::kSigmoid:
      return 1 / (1 + std::exp(-v));
    case Kind::kTanh:
      return std::tanh(v);
    case Kind::kRelu:
      return v < 0 ? 0 : v;
    case Kind::kSoftsign:
      return v / (1 + std::fabs(v));
    case Kind::kSoftplus:
      return (v < 0 ? 0 : v) + std::log1p(std::exp(-std::fabs(v)));
    case Kind::kLeakyRelu:
      return v < 0 ? f.alpha * v : v;
    case Kind::kThresholdedRelu:
      return v > f.alpha ? v : 0;
    case Kind::kElu:
      return v < 0 ? f.alpha * std::expm1(v) : v;
    case Kind::kHardSigmoid: {
      const double y = f.alpha * v + f.beta;
      return y < 0 ? 0 : y > 1 ? 1 : y;
    }
    case Kind::kScaledTanh:
      return f.alpha * std::tanh(f.beta * v);
    case Kind::kAffine:
      return f.alpha * v + f.beta;
  }
  return v;
}

void Apply(const GateFunction& f, double* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = Value(f, x[i]);
}

// Numbers between -clip and clip; 0: they stay as they are.
template <typename T>
HWY_NOINLINE void Bound(double clip, T* x, int64_t n) {
  if (clip == 0) return;
  const T high = static_cast<T>(clip), low = -high;
  for (int64_t i = 0; i < n; ++i) x[i] = x[i] < low ? low : x[i] > high ? high : x[i];
}

// A gate: bounded, then its function.
template <typename T>
HWY_NOINLINE void Gate(const GateFunction& f, double clip, T* x, int64_t n) {
  Bound(clip, x, n);
  Apply(f, x, n);
}

template <typename T>
HWY_NOINLINE void Add(T* y, const T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

template <typename T>
HWY_NOINLINE void AddProduct(T* y, const T* a, const T* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += a[i] * b[i];
}

// Numbers of one gate, from the row's first unit on.
template <typename T>
T* GateOf(const CellRow<T>& row, int64_t gate) {
  return row.gates + gate * row.n + row.begin;
}
template <typename T>
const T* RecurrentOf(const CellRow<T>& row, int64_t gate) {
  return row.recurrent + gate * row.recurrent_stride + row.begin;
}

template <typename T>
void Lstm(const CellRow<T>& row, const CellOptions& o) {
  const int64_t n = row.end - row.begin;
  T *in = GateOf(row, 0), *out = GateOf(row, 1), *forget = GateOf(row, 2), *candidate = GateOf(row, 3);
  T *c = row.cell + row.begin, *h = row.state + row.begin;
  const T* p = row.extra == nullptr ? nullptr : row.extra + row.begin;
  for (int gate = 0; gate < 4; ++gate) Add(GateOf(row, gate), RecurrentOf(row, gate), n);
  if (p != nullptr) {
    AddProduct(in, p, c, n);
    AddProduct(forget, p + 2 * row.n, c, n);
  }
  Gate(o.functions[0], o.clip, in, n);
  if (o.input_forget) {
    for (int64_t i = 0; i < n; ++i) forget[i] = 1 - in[i];
  } else {
    Gate(o.functions[0], o.clip, forget, n);
  }
  Gate(o.functions[1], o.clip, candidate, n);
  for (int64_t i = 0; i < n; ++i) c[i] = forget[i] * c[i] + in[i] * candidate[i];
  Bound(o.cell_clip, c, n);
  for (int64_t i = 0; i < n; ++i) h[i] = c[i];
  if (p != nullptr) AddProduct(out, p + row.n, c, n);
  Gate(o.functions[0], o.clip, out, n);
  Apply(o.functions[2], h, n);
  for (int64_t i = 0; i < n; ++i) h[i] *= out[i];
}

template <typename T>
void Rnn(const CellRow<T>& row, const CellOptions& o) {
  for (int64_t i = row.begin; i < row.end; ++i) row.state[i] = row.gates[i] + row.recurrent[i];
  Gate(o.functions[0], o.clip, row.state + row.begin, row.end - row.begin);
}

template <typename T>
void GruGates(const CellRow<T>& row, const CellOptions& o) {
  const int64_t n = row.end - row.begin;
  for (int gate = 0; gate < 2; ++gate) {
    Add(GateOf(row, gate), RecurrentOf(row, gate), n);
    Gate(o.functions[0], o.clip, GateOf(row, gate), n);
  }
  const T* reset = row.gates + row.n;
  for (int64_t i = row.begin; i < row.end; ++i) row.cell[i] = reset[i] * row.previous[i];
}

template <typename T>
void GruState(const CellRow<T>& row, const CellOptions& o) {
  const int64_t n = row.end - row.begin;
  const T *update = GateOf(row, 0), *reset = GateOf(row, 1), *previous = row.previous + row.begin;
  T *candidate = GateOf(row, 2), *h = row.state + row.begin;
  if (o.linear_before_reset) {
    const T* inner = RecurrentOf(row, 2);
    const T* bias = row.extra == nullptr ? nullptr : row.extra + row.begin;
    for (int64_t i = 0; i < n; ++i) candidate[i] += reset[i] * (inner[i] + (bias != nullptr ? bias[i] : 0));
  } else {
    Add(candidate, RecurrentOf(row, 0), n);
  }
  Gate(o.functions[1], o.clip, candidate, n);
  for (int64_t i = 0; i < n; ++i) h[i] = (1 - update[i]) * candidate[i] + update[i] * previous[i];
}

void LstmFloats(const CellRow<float>& row, const CellOptions& options) { Lstm(row, options); }
void RnnFloats(const CellRow<float>& row, const CellOptions& options) { Rnn(row, options); }
void GruGatesFloats(const CellRow<float>& row, const CellOptions& options) { GruGates(row, options); }
void GruStateFloats(const CellRow<float>& row, const CellOptions& options) { GruState(row, options); }

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace minnow {

HWY_EXPORT(LstmFloats);
HWY_EXPORT(RnnFloats);
HWY_EXPORT(GruGatesFloats);
HWY_EXPORT(GruStateFloats);

void lstm_cell(const CellRow<float>& row, const CellOptions& o) { HWY_DYNAMIC_DISPATCH(LstmFloats)(row, o); }
void rnn_cell(const CellRow<float>& row, const CellOptions& o) { HWY_DYNAMIC_DISPATCH(RnnFloats)(row, o); }
void gru_gates(const CellRow<float>& row, const CellOptions& o) { HWY_DYNAMIC_DISPATCH(GruGatesFloats)(row, o); }
void gru_state(const CellRow<float>& row, const CellOptions& o) { HWY_DYNAMIC_DISPATCH(GruStateFloats)(row, o); }
void lstm_cell(const CellRow<double>& row, const CellOptions& o) { HWY_NAMESPACE::Lstm(row, o); }
void rnn_cell(const CellRow<double>& row, const CellOptions& o) { HWY_NAMESPACE::Rnn(row, o); }
void gru_gates(const CellRow<double>& row, const CellOptions& o) { HWY_NAMESPACE::GruGates(row, o); }
void gru_state(const CellRow<double>& row, const CellOptions& o) { HWY_NAMESPACE::GruState(row, o); }

}  // namespace minnow
#endif  // HWY_ONCE
