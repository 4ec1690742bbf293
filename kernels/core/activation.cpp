#include "kernels/core/activation.h"

#include <iterator>
#include <limits>

namespace minnow {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// op list: the activations of layers, compared with the registry by tests/runtime/test_op_facts.py
constexpr ActivationOp kActivations[] = {
    {"relu", "Relu", "", "", false, 0, kInfinity},   {"clip", "Clip", "min", "max", false, -kInfinity, kInfinity},
    {"relu6", "Clip", "min", "max", true, 0, 6},     {"leaky_relu", "LeakyRelu", "alpha", "", false, 0.01, 0},
    {"hardswish", "HardSwish", "", "", false, 0, 0}, {"hardsigmoid", "HardSigmoid", "alpha", "beta", false, 0.2, 0.5},
    {"sigmoid", "Sigmoid", "", "", false, 0, 0},     {"silu", "Silu", "", "", false, 0, 0},
    {"tanh", "Tanh", "", "", false, 0, 0},           {"gelu", "Gelu", "", "", false, 0, 0},
};

}  // namespace

const ActivationOp* begin_activations() { return std::begin(kActivations); }
const ActivationOp* end_activations() { return std::end(kActivations); }

const ActivationOp* find_activation(std::string_view name) {
  for (const ActivationOp& row : kActivations)
    if (name == row.name) return &row;
  return nullptr;
}

const ActivationOp* as_activation(std::string_view op, const Attrs& attrs) {
  if (attrs.s("approximate", "none") != "none") return nullptr;  // another Gelu
  for (const ActivationOp& row : kActivations)
    if (op == row.op) return &row;
  return nullptr;
}

Attrs op_attrs(const ActivationOp& activation, const Attrs& layer) {
  Attrs attrs;
  const auto take = [&](const char* name, const char* from, double value) {
    if (*name == 0) return;
    if (activation.fixed) {
      attrs.set(name, value);
    } else if (layer.has(from)) {
      attrs.set(name, layer.f(from));
    }
  };
  take(activation.alpha, "alpha", activation.alpha_value);
  take(activation.beta, "beta", activation.beta_value);
  return attrs;
}

}  // namespace minnow
