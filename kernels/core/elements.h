// What the engine does with elements of tensors wherever it is on the host. The CPU's kernels compute it
// (kernels/cpu/convert, kernels/cpu/elementwise).
#pragma once

#include <cstdint>

#include "kernels/core/dtype.h"

namespace minnow {

// Converts n elements as the op Cast does. `in` and `out` may be the same memory if the types have one size.
void convert_elements(DType from, const void* in, DType to, void* out, int64_t n);

// Whether 32 bits are enough for each of n numbers.
bool fit_i32(const int64_t* x, int64_t n);

}  // namespace minnow
