// Quantized convolution of images with channels last (Layout::kLast): by tiles of bytes, or by dot products of four.
#pragma once

#include <memory>
#include <vector>

#include "kernels/core/kernel.h"
#include "kernels/core/kernel_table.h"
#include "kernels/cpu/quant/requantize.h"

namespace minnow {

// Of QuantizedConv, by the types of its inputs.
LayoutRule layout_of_quantized_conv(const std::vector<const TensorType*>& inputs);

constexpr int64_t kMostTapsOfOne = 64;    // where one channel makes each result
constexpr int64_t kMostTapsOfLast = 128;  // where all do

struct FixedLanes;

// What the sums of `padded` channels begin with, of which `count` are there, and what makes results of them: a scale
// for each, or multipliers and shifts for each 16. `sums`: of each channel's weights; `zero`: what is taken off each
// byte that they are multiplied with; `depth`: how many of these there are, at most.
struct ChannelEnds {
  int32_t* start;
  float* scale;
  FixedLanes* fixed;
};
void prepare_ends(const Requantization& quantized, const int32_t* sums, uint32_t zero, int64_t depth, int64_t count,
                  int64_t padded, const ChannelEnds& to);

// The kernels for nodes whose result has its channels last: all channels in each result, or one.
std::unique_ptr<Kernel> create_conv_last();
std::unique_ptr<Kernel> create_conv_last_dot();
std::unique_ptr<Kernel> create_depthwise_last();

}  // namespace minnow
