// A function of a small integer, as the table of its values.
#pragma once

#include "kernels/core/tensor.h"

namespace minnow {

// y[i] = table[x[first + i] - lowest] for n elements.
void look_up(const Tensor& table, const Tensor& x, int64_t first, int64_t n, void* y);

}  // namespace minnow
