#include "kernels/gpu/dense/activation.h"

#include "kernels/core/activation.h"

namespace minnow::gpu {
namespace {

struct ActivationKind {
  char name[12];
  int32_t kind;  // in activation.inc
};

// op list: the kinds of the kernel texts; a name that is not here is refused, and tests/kernels/gpu runs them all
constexpr ActivationKind kActivationKinds[] = {
    {"relu", 1}, {"relu6", 1},   {"clip", 1},        {"leaky_relu", 2}, {"hardswish", 3},
    {"silu", 4}, {"sigmoid", 5}, {"hardsigmoid", 6}, {"tanh", 7},       {"gelu", 8},
};

}  // namespace

Status read_layer_activation(const Attrs& attrs, LayerActivation* out) {
  *out = LayerActivation();
  const std::string name = attrs.s("activation");
  if (name.empty()) return ok();
  const ActivationOp* found = find_activation(name);
  for (const ActivationKind& row : kActivationKinds) {
    if (found == nullptr || name != row.name) continue;
    const bool given = !found->fixed && *found->alpha != 0;
    out->kind = row.kind;
    out->alpha = static_cast<float>(given ? attrs.f("alpha", found->alpha_value) : found->alpha_value);
    out->beta = static_cast<float>(given ? attrs.f("beta", found->beta_value) : found->beta_value);
    return ok();
  }
  return fail(Code::kUnsupported, "no activation is called '%s'", name.c_str());
}

}  // namespace minnow::gpu
