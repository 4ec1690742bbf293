// Which layout the operands of a node have, by the layout rule of its kernel.
#pragma once

#include <vector>

#include "kernels/core/kernel_table.h"
#include "runtime/src/backend/backend.h"

namespace minnow {

// Operand of a convolution that is added to its result; it has the layout of the output.
constexpr size_t kResidual = 3;
// Operand of a convolution of two images whose channels follow each other: the second one. It has the layout of the
// first.
constexpr size_t kMoreChannels = 5;
// Operands of a pointwise convolution that are the weights, and the bias, of a depthwise one that is computed before it
// (fuse_separable); the attributes are those of the depthwise one.
constexpr size_t kDepthwiseWeights = 6, kDepthwiseBias = 7;
// The other operand of QuantizedSum, of bytes. It has the layout of the first.
constexpr size_t kOtherTerm = 4;
// What a layer of bytes adds to its result (fuse_quantized_tables). It has the layout of the output.
constexpr size_t kQuantizedTerm = 9;

// Whether the node may run packed, given which of its inputs are there in the packed layout. For LayoutRule::kPacked
// it must then. `inputs` are null where missing, their own layout does not count; `out` is the type of output 0.
// `channel_block`: that of the backend.
bool can_be_packed(const KernelRow& row, const Attrs& attrs, const std::vector<const TensorType*>& inputs,
                   const std::vector<bool>& packed, const TensorType& out, int channel_block);

// The layout of input i of a node that runs packed, or does not.
Layout operand_layout(LayoutRule rule, size_t i, const TensorType& type, bool packed);

}  // namespace minnow
