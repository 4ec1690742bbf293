// Quantized convolution of images with channels last (Layout::kLast): by tiles of bytes, or by dot products of four.
#pragma once

#include <memory>
#include <vector>

#include "kernels/core/kernel.h"
#include "kernels/core/kernel_table.h"

namespace minnow {

// Of QuantizedConv, by the types of its inputs.
LayoutRule layout_of_quantized_conv(const std::vector<const TensorType*>& inputs);

constexpr int64_t kMostTapsOfOne = 64;    // where one channel makes each result
constexpr int64_t kMostTapsOfLast = 128;  // where all do

// The kernels for nodes whose result has its channels last: all channels in each result, or one.
std::unique_ptr<Kernel> create_conv_last();
std::unique_ptr<Kernel> create_conv_last_dot();
std::unique_ptr<Kernel> create_depthwise_last();

}  // namespace minnow
