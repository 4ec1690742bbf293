// The functions of one element that layers apply to their results (attributes activation, alpha and beta), and the ops
// that they are. As FUNCTIONS in schema/ops/epilogue.py says it.
#pragma once

#include <string_view>

#include "kernels/core/attrs.h"

namespace minnow {

struct ActivationOp {
  // Arrays, and no pointers: these would take another 24 bytes of the library each.
  char name[12], op[12];
  char alpha[6], beta[6];          // what the op calls alpha and beta; empty: it does not take them
  bool fixed;                      // the attributes have always these values
  double alpha_value, beta_value;  // where the attribute is missing; of a function without any, what it clamps to
};

// Null for a name that is none.
const ActivationOp* find_activation(std::string_view name);
// What a node is as an activation; null where it is none.
const ActivationOp* as_activation(std::string_view op, const Attrs& attrs);
// The attributes of the op, given those of the layer.
Attrs op_attrs(const ActivationOp& activation, const Attrs& layer);

// All of them. The first one that an op may be is its name.
const ActivationOp* begin_activations();
const ActivationOp* end_activations();

}  // namespace minnow
