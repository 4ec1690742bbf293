// Weights and biases that are stored in f16, for kernels that compute in the type of input 0.
#pragma once

#include "kernels/core/kernel.h"
#include "kernels/core/op_spec.h"

namespace minnow {

// Whether input i is of the type of input 0, or of f16, which is widened to it.
inline bool matches_input(const InferContext& c, int i) {
  return c.in(i).dtype == c.in(0).dtype || (c.in(i).dtype == DType::kF16 && is_float(c.in(0).dtype));
}

// The kernel itself where all inputs have the type of input 0; else one that widens the others for it: constants once.
std::unique_ptr<Kernel> widen_half_operands(const NodeContext& node, CreateFunction create);

}  // namespace minnow
