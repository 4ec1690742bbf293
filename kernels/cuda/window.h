// The sizes of a window over an image, in the arguments of the kernels of this folder.
#pragma once

#include "kernels/gpu/dense/window_arguments.h"

namespace minnow::cuda {

constexpr int number(int64_t v) { return static_cast<int>(v); }

// In those of products: ProductArguments, IntegerArguments.
template <typename Arguments>
void set_product_window(const gpu::WindowArguments& from, Arguments* to) {
  const Window& w = from.window();
  to->H = number(from.in()[1]), to->W = number(from.in()[2]);
  to->P = number(from.out()[1]), to->Q = number(from.out()[2]);
  to->R = number(w.kernel[1]), to->S = number(w.kernel[2]);
  to->stride_h = number(w.stride[1]), to->stride_w = number(w.stride[2]);
  to->dilation_h = number(w.dilation[1]), to->dilation_w = number(w.dilation[2]);
  to->pad_h = number(w.begin[1]), to->pad_w = number(w.begin[2]);
}

// In those of kernels that go over images themselves: Depthwise, Pool.
template <typename Arguments>
void set_image_window(const gpu::WindowArguments& from, Arguments* to) {
  const Window& w = from.window();
  to->height = number(from.in()[1]), to->width = number(from.in()[2]);
  to->out_height = number(from.out()[1]), to->out_width = number(from.out()[2]);
  to->kernel_height = number(w.kernel[1]), to->kernel_width = number(w.kernel[2]);
  to->stride_y = number(w.stride[1]), to->stride_x = number(w.stride[2]);
  to->dilation_y = number(w.dilation[1]), to->dilation_x = number(w.dilation[2]);
  to->pad_y = number(w.begin[1]), to->pad_x = number(w.begin[2]);
}

}  // namespace minnow::cuda
