// A sliding window over one to three axes, as parameters of kernel texts: always three axes, the first of size 1.
#pragma once

#include "kernels/core/window.h"
#include "kernels/gpu/device.h"

namespace minnow::gpu {

class WindowArguments {
 public:
  // For images x[N, C, spatial...] and results y[N, C', spatial...]. kFormat where the attributes do not fit.
  Status read(const Attrs& attrs, const Shape& x, const std::vector<int64_t>& kernel, const Shape& y);

  const Window& window() const { return window_; }
  int32_t kernel(size_t axis) const { return static_cast<int32_t>(window_.kernel[axis]); }
  int64_t taps() const { return window_.kernel[0] * window_.kernel[1] * window_.kernel[2]; }
  int64_t pixels() const { return out_[0] * out_[1] * out_[2]; }
  const std::array<int64_t, 3>& in() const { return in_; }
  // Every result is made of one element, at its own place.
  bool is_pointwise() const;
  void cut_to_input() { cut_kernel(&window_, in_); }

  // in_d in_h in_w out_h out_w stride_d .. _w dilation_d .. _w pad_d .. _w pixels
  void add_to(Arguments* arguments) const;

 private:
  Window window_;
  std::array<int64_t, 3> in_{1, 1, 1}, out_{1, 1, 1};
};

}  // namespace minnow::gpu
