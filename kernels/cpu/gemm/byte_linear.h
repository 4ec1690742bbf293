// A kernel for the op QuantizedMatMul.
#pragma once

#include <memory>

#include "kernels/core/kernel.h"

namespace minnow {

// Where a unit multiplies constant weights by terms (byte_terms.h), and there are rows enough; else null.
std::unique_ptr<Kernel> create_byte_linear(const NodeContext& node);

}  // namespace minnow
