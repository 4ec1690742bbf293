// Multiply-accumulates of the ops that take a model's time, for estimates before there is a kernel.
#pragma once

#include <cstdint>

namespace minnow {

struct NodeContext;

// in[1] are weights, output channels first: each element of the result takes as many as one channel has.
int64_t macs_per_output(const NodeContext& node);
// in[1] are weights, input channels first: each element of the input takes as many as one channel has.
int64_t macs_per_input(const NodeContext& node);
// A matrix product: each element of the result takes as many as in[0] has columns, or rows where it is transposed.
int64_t macs_of_product(const NodeContext& node);

}  // namespace minnow
