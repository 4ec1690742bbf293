// Depthwise convolutions as layers: of Conv, and of what Conv is fused with.
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/depthwise.h"
#include "kernels/gpu/device.h"

namespace minnow::cuda {

// The sizes of a node that is a depthwise convolution, and its constants in the device's memory.
class DepthwiseLayer {
 public:
  Status reshape(const NodeContext& node);
  // All but x, y and the residual.
  const Depthwise& problem() const { return p_; }

 private:
  Depthwise p_;
  Packed weights_, bias_;
};

std::unique_ptr<Kernel> create_depthwise(const NodeContext& node);
bool supports_depthwise(const NodeContext& node, std::string* why);

}  // namespace minnow::cuda
