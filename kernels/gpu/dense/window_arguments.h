// The sliding window of a layer over one to three axes, as kernels on GPUs take it: always three axes, those that are
// missing come first and have size 1. Images are x[N, C, spatial...], results y[N, C', spatial...].
#pragma once

#include "kernels/core/window.h"
#include "kernels/gpu/device.h"

namespace minnow::gpu {

class WindowArguments {
 public:
  // Of a convolution, whose second input are the weights [C', C, window...] or, transposed, [C, C', window...]; and of
  // a pooling, whose window is cut to the input. kFormat where the attributes do not fit.
  Status read_conv(const NodeContext& node);
  Status read_pool(const NodeContext& node);

  const Window& window() const { return window_; }
  int32_t kernel(size_t axis) const { return static_cast<int32_t>(window_.kernel[axis]); }
  int64_t taps() const { return window_.kernel[0] * window_.kernel[1] * window_.kernel[2]; }
  int64_t pixels() const { return out_[0] * out_[1] * out_[2]; }
  const std::array<int64_t, 3>& in() const { return in_; }
  const std::array<int64_t, 3>& out() const { return out_; }
  // Every result is made of one element, at its own place.
  bool is_pointwise() const;

  // in_d in_h in_w out_h out_w stride_d .. _w dilation_d .. _w pad_d .. _w pixels
  void add_to(Arguments* arguments) const;

 private:
  Status read(const NodeContext& node, const std::vector<int64_t>& kernel);

  Window window_;
  std::array<int64_t, 3> in_{1, 1, 1}, out_{1, 1, 1};
};

}  // namespace minnow::gpu
