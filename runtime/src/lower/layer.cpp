// Layers that become several ops, which are then fused with their neighbors like all others.
#include "kernels/core/activation.h"
#include "runtime/src/lower/lowering.h"

namespace minnow {
namespace {

void finish_activated(Expansion& e, int y) {
  const ActivationOp* activation = find_activation(e.attrs().s("activation"));
  if (activation == nullptr) return e.finish("Identity", {y});
  e.finish(activation->op, {y}, op_attrs(*activation, e.attrs()));
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
MINNOW_LOWERING("DynamicLinear", expand_dynamic_linear);

}  // namespace
}  // namespace minnow
