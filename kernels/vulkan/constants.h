// Constant operands as the kernels of this folder read them: of the host's numbers, in another type and order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/core/thread_pool.h"
#include "kernels/core/kernel.h"
#include "kernels/gpu/channels_last.h"

namespace minnow::vulkan {

using gpu::is_kernel_float;
// The constant contents of an input of these types, or null.
const Tensor* constant_of(const NodeContext& node, size_t i);
inline bool has_input(const NodeContext& node, size_t i) { return i < node.in.size() && node.in[i] != nullptr; }

// Packs a constant input as `rows` x `columns` numbers of a type. `place(row, column)` is where the host's numbers have
// it; below 0: it is 0 there. `form` names what the places follow from.
void pack_constant(const NodeContext& node, size_t input, const std::string& form, DType dtype, int64_t rows,
                   int64_t columns, FunctionRef<int64_t(int64_t, int64_t)> place, Packed* to);
// A number of f32 for each channel, up to a multiple of 8.
void pack_channels(const NodeContext& node, size_t input, Packed* to);

}  // namespace minnow::vulkan
