// Layers that are computed by way of other ops, which are joined with what stands beside them like all others.
#include <cstring>

#include "runtime/src/lower/lowering.h"

namespace minnow {
namespace {

// Activations by the names they have as attributes of layers; what they call alpha and beta.
constexpr struct {
  char name[12], op[12], alpha[6], beta[6];
} kActivations[] = {
    {"relu", "Relu", "", ""},
    {"clip", "Clip", "min", "max"},
    {"leaky_relu", "LeakyRelu", "alpha", ""},
    {"hardswish", "HardSwish", "", ""},
    {"hardsigmoid", "HardSigmoid", "alpha", "beta"},
    {"sigmoid", "Sigmoid", "", ""},
    {"silu", "Silu", "", ""},
    {"tanh", "Tanh", "", ""},
    {"gelu", "Gelu", "", ""},
};

void finish_activated(Expansion& e, int y) {
  const std::string name = e.attrs().s("activation");
  Attrs attrs;
  if (name == "relu6") return e.finish("Clip", {y}, {{"min", 0.0}, {"max", 6.0}});
  for (const auto& row : kActivations) {
    if (name != row.name) continue;
    if (e.attrs().has("alpha")) attrs.set(row.alpha, e.attrs().f("alpha"));
    if (e.attrs().has("beta")) attrs.set(row.beta, e.attrs().f("beta"));
    return e.finish(row.op, {y}, std::move(attrs));
  }
  e.finish("Identity", {y});
}

// x, weights, bias, residual, scale and zero points; see the op in the registry.
Status expand_dynamic_linear(Expansion& e) {
  if (!e.has(0) || !e.has(1) || !e.has(4)) return fail(Code::kFormat, "an operand is missing");
  if (e.rank(0) < 1 || e.rank(1) != 2) return fail(Code::kFormat, "operands that are no matrices");
  const int bytes = e.add("DynamicQuantizeLinear", {e.in(0)}, {{"steps", e.attrs().i("steps", 0)}});
  const int step = e.another_output(), middle = e.another_output();
  const int sums = e.add("Cast", {e.add("MatMulInteger", {bytes, e.in(1), middle, e.in(5)})}, {{"to", DType::kF32}});
  int y = e.add("Mul", {sums, e.add("Mul", {step, e.in(4)})});
  for (int i : {2, 3})
    if (e.has(i)) y = e.add("Add", {y, e.in(i)});
  finish_activated(e, y);
  return ok();
}
MINNOW_LATE("DynamicLinear", expand_dynamic_linear);

}  // namespace
}  // namespace minnow
