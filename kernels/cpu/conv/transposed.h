// Transposed convolution: the parts its packed and its plain kernel share.
#pragma once

#include "kernels/core/kernel.h"
#include "kernels/core/window.h"

namespace minnow {

// The window of a transposed convolution and its output's sizes, from the attributes strides, dilations, pads,
// output_padding and auto_pad. The window's `begin` is what the formula takes off at the beginning.
Status read_deconv(const Attrs& attrs, const Shape& x, const Shape& w, Window* window, std::array<int64_t, 3>* out);

// Along one axis, the output positions `phase`, `phase` + stride, ... are a convolution of their own, with stride 1 and
// every so-manieth tap of the kernel in backward order: no zero is ever multiplied.
struct DeconvPhase {
  int64_t count;            // output positions
  int64_t taps;             // taps of the kernel that reach them
  int64_t last_tap, step;   // tap t of the phase is tap last_tap - t * step of the kernel
  int64_t start, dilation;  // tap t of position j reads the input at start + j + t * dilation
};
DeconvPhase deconv_phase(int64_t out, int64_t kernel, int64_t stride, int64_t dilation, int64_t begin, int64_t phase);

// Any dtype and rank in the plain layout: correct, and not made to be fast.
std::unique_ptr<Kernel> make_deconv_plain(const NodeContext& node);

}  // namespace minnow
