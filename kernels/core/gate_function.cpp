#include "kernels/core/gate_function.h"

namespace minnow {
namespace {

// The function of a name in lower case, with its default parameters and how many of them it takes; false: unknown.
bool find_gate_function(const std::string& name, GateFunction* function, int* parameters) {
  using Kind = GateFunction::Kind;
  struct Known {
    const char* name;
    int parameters;
    GateFunction function;
  };
  static const Known kKnown[] = {
      {"sigmoid", 0, {Kind::kSigmoid, 0, 0}},
      {"tanh", 0, {Kind::kTanh, 0, 0}},
      {"relu", 0, {Kind::kRelu, 0, 0}},
      {"softsign", 0, {Kind::kSoftsign, 0, 0}},
      {"softplus", 0, {Kind::kSoftplus, 0, 0}},
      {"leakyrelu", 1, {Kind::kLeakyRelu, 0.01, 0}},
      {"thresholdedrelu", 1, {Kind::kThresholdedRelu, 1, 0}},
      {"elu", 1, {Kind::kElu, 1, 0}},
      {"hardsigmoid", 2, {Kind::kHardSigmoid, 0.2, 0.5}},
      {"scaledtanh", 2, {Kind::kScaledTanh, 1, 1}},
      {"affine", 2, {Kind::kAffine, 1, 0}},
  };
  for (const Known& known : kKnown) {
    if (name != known.name) continue;
    *function = known.function;
    *parameters = known.parameters;
    return true;
  }
  return false;
}

}  // namespace

Status read_gate_functions(const Attrs& attrs, RecurrentLayer layer, int directions,
                           std::vector<GateFunction>* functions) {
  std::vector<std::string> names = attrs.get("activations", std::vector<std::string>{});
  const size_t needed = static_cast<size_t>(functions_of(layer) * directions);
  if (names.empty()) {
    const char* const defaults[] = {layer == RecurrentLayer::kRnn ? "tanh" : "sigmoid", "tanh", "tanh"};
    for (size_t i = 0; i < needed; ++i) names.push_back(defaults[i % static_cast<size_t>(functions_of(layer))]);
  }
  if (names.size() != needed) return fail(Code::kFormat, "%zu activations are given, not %zu", names.size(), needed);
  const std::vector<double> alpha = attrs.floats("activation_alpha"), beta = attrs.floats("activation_beta");
  size_t next_alpha = 0, next_beta = 0;
  for (const std::string& name : names) {
    GateFunction function;
    int parameters = 0;
    if (!find_gate_function(name, &function, &parameters))
      return fail(Code::kUnsupported, "there is no activation \"%s\"", name.c_str());
    if (parameters > 0 && next_alpha < alpha.size()) function.alpha = alpha[next_alpha++];
    if (parameters > 1 && next_beta < beta.size()) function.beta = beta[next_beta++];
    functions->push_back(function);
  }
  return ok();
}

}  // namespace minnow
