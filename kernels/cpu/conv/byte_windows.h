// Windows over one plane of bytes, four neighbors of a line in each step: depthwise convolution where the processor has
// instructions that move any byte to any place, and add up products of four.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/core/kernel.h"

namespace minnow {

struct ByteWindows {
  const uint8_t* plane = nullptr;  // with its padding; 64 bytes from each place are read
  int64_t line = 0;                // bytes of a line
  uint8_t flip = 0;                // of each byte, to see it as an unsigned one
  int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, dilation[2] = {1, 1}, out[2] = {0, 0};
  const uint32_t* weights = nullptr;  // lanes_of_line() for each line of the kernel: four signed bytes, 0 for no tap
  int32_t start = 0;                  // of each sum
  int32_t factor = 0;                 // of the sum of the window's bytes, which is added

  int64_t lanes_of_line() const { return (kernel[1] + 3) / 4; }
  // What is read at once holds the windows of 16 neighbors.
  bool fits() const { return 15 * stride[1] + (kernel[1] - 1) * dilation[1] < 64 && kernel[1] <= 8; }
};

bool has_byte_windows();
// One line of sums behind the other; 16 lanes beyond the last one may be written.
void convolve_bytes(const ByteWindows& w, int32_t* sums);

// A kernel for the op ConvInteger, null where it does not fit.
std::unique_ptr<Kernel> create_depthwise_bytes(const NodeContext& node);

}  // namespace minnow
