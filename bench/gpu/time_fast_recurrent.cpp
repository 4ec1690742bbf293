// Times recurrent layers; the bytes are those of the recurrent weights, once for each step.
#include "bench/gpu/time_fast.h"
#include "kernels/cuda/recurrent.h"

namespace minnow::cuda::bench {
namespace {

void time_layer(Recurrent::Layer layer, int steps, int batch, int features, int hidden, int directions, DType dtype) {
  const size_t element = dtype == DType::kF32 ? 4 : 2, gates = static_cast<size_t>(gates_of(layer));
  Recurrent p;
  p.layer = layer, p.dtype = dtype, p.steps = steps, p.batch = batch, p.features = features, p.hidden = hidden;
  p.directions = directions;
  for (auto& functions : p.functions)
    functions[0].kind = RecurrentFunction::Kind::kSigmoid,
    functions[1].kind = functions[2].kind = RecurrentFunction::Kind::kTanh;
  Target target;
  target.overlap = true;
  const size_t n = static_cast<size_t>(directions);
  Memory x(static_cast<size_t>(steps) * batch * features * element), w(n * gates * hidden * features * element);
  Memory r(static_cast<size_t>(packed_recurrent_count(p, target)) * element);
  Memory y(static_cast<size_t>(steps) * n * batch * hidden * element), states(n * batch * hidden * element);
  Memory cells(states.bytes()), workspace(static_cast<size_t>(recurrent_workspace(p)));
  p.x = x.at(), p.w = w.at(), p.r = r.at(), p.y = y.at(), p.y_h = states.at();
  p.y_c = layer == Recurrent::Layer::kLstm ? cells.at() : nullptr, p.workspace = workspace.at<float>();
  const double us = time_of(3, [&](int, const Target& t) { return recurrent(p, t); });
  char text[96];
  std::snprintf(text, sizeof text, "%s %s steps %d batch %d %d to %d x%d: %.2f us a step",
                layer == Recurrent::Layer::kLstm  ? "LSTM"
                : layer == Recurrent::Layer::kGru ? "GRU"
                                                  : "RNN",
                dtype == DType::kF32 ? "f32" : "f16", steps, batch, features, hidden, directions, us / steps);
  line(text, us, static_cast<double>(r.bytes()) * steps);
}

}  // namespace
}  // namespace minnow::cuda::bench

int main() {
  using namespace minnow::cuda::bench;
  using minnow::DType;
  using minnow::cuda::Recurrent;
  for (const DType dtype : {DType::kF16, DType::kF32})
    for (const auto layer : {Recurrent::Layer::kLstm, Recurrent::Layer::kGru, Recurrent::Layer::kRnn})
      for (const int hidden : {128, 256, 512, 1024})
        for (const int batch : {1, 32}) time_layer(layer, 100, batch, 128, hidden, 1, dtype);
  time_layer(Recurrent::Layer::kLstm, 100, 1, 128, 256, 2, DType::kF16);
  return 0;
}
