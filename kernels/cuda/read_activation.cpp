#include "kernels/cuda/read_activation.h"

#include "kernels/core/activation.h"

namespace minnow::cuda {
namespace {

struct Named {
  char name[12];
  Function function;
};

// op list: the functions of the kernels; a name that is not here is refused
constexpr Named kFunctions[] = {
    {"relu", Function::kClamp},          {"relu6", Function::kClamp},
    {"clip", Function::kClamp},          {"leaky_relu", Function::kLeakyRelu},
    {"hardswish", Function::kHardSwish}, {"hardsigmoid", Function::kHardSigmoid},
    {"sigmoid", Function::kSigmoid},     {"silu", Function::kSilu},
    {"tanh", Function::kTanh},           {"gelu", Function::kGelu},
};

}  // namespace

Status read_activation(const Attrs& attrs, Activation* out) {
  *out = Activation();
  const std::string name = attrs.s("activation");
  if (name.empty()) return ok();
  const ActivationOp* found = find_activation(name);
  for (const Named& row : kFunctions) {
    if (found == nullptr || name != row.name) continue;
    const bool given = !found->fixed && *found->alpha != 0;
    out->function = row.function;
    out->alpha = static_cast<float>(given ? attrs.f("alpha", found->alpha_value) : found->alpha_value);
    out->beta = static_cast<float>(given ? attrs.f("beta", found->beta_value) : found->beta_value);
    return ok();
  }
  return fail(Code::kUnsupported, "no activation is called '%s'", name.c_str());
}

}  // namespace minnow::cuda
