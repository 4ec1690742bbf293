// The function that a layer applies to its results, as the text activation.inc computes it.
#pragma once

#include "kernels/core/attrs.h"
#include "kernels/core/status.h"

namespace minnow::gpu {

struct LayerActivation {
  int32_t kind = 0;  // 0: none
  float alpha = 0, beta = 0;
};

// From the attributes activation, alpha and beta. kUnsupported for a name that is none.
Status read_layer_activation(const Attrs& attrs, LayerActivation* out);

}  // namespace minnow::gpu
