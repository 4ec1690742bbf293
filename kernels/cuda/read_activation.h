// The activation of a layer, from its attributes.
#pragma once

#include "kernels/core/attrs.h"
#include "kernels/core/status.h"
#include "kernels/cuda/activation.h"

namespace minnow::cuda {

// From the attributes activation, alpha and beta. kUnsupported for a name that is none.
Status read_activation(const Attrs& attrs, Activation* out);

}  // namespace minnow::cuda
