// Constant operands as kernels of this folder read them: of the host's numbers, in another float type and order.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/core/kernel.h"
#include "kernels/gpu/channels_last.h"

namespace minnow::cuda {

// The numbers of a float tensor in the host's memory.
std::vector<float> host_floats(const Tensor& tensor);
// `count` numbers, written as kF32, kF16 or kBF16.
void store_floats(const float* from, int64_t count, DType dtype, void* to);
// The same in `shape`, stretched to it by numpy's rules.
std::vector<float> stretched_floats(const Tensor& tensor, const Shape& shape);

using gpu::is_kernel_float;
// The constant contents of an input, or null.
inline const Tensor* constant_of(const NodeContext& node, size_t i) {
  return i < node.constant.size() && node.in[i] != nullptr ? node.constant[i] : nullptr;
}
inline bool has_input(const NodeContext& node, size_t i) { return i < node.in.size() && node.in[i] != nullptr; }
inline const void* data_of(const RunContext& context, size_t i) {
  return i < context.in.size() && context.in[i] != nullptr ? context.in[i]->data : nullptr;
}

}  // namespace minnow::cuda
