// Convolution of images of bf16 with channels last (Layout::kLast), for precision "low".
#pragma once

#include <memory>
#include <vector>

#include "kernels/core/kernel.h"
#include "kernels/core/kernel_table.h"

namespace minnow {

// Of such a convolution, by the types of its inputs: kLast, kMakesLast for an image of a few channels, or `other` where
// there is no kernel for it.
LayoutRule layout_of_half_images(const std::vector<const TensorType*>& inputs, LayoutRule other);
// Of a transposed one, each of whose results comes from one pixel.
LayoutRule layout_of_half_deconv(const std::vector<const TensorType*>& inputs, LayoutRule other);
std::unique_ptr<Kernel> create_conv_half(bool transposed);
// Whether each result comes from one channel, by the types of image and weights.
bool is_half_depthwise(const TensorType& image, const TensorType& weights);
std::unique_ptr<Kernel> create_depthwise_half();

}  // namespace minnow
