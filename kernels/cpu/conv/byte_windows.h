// Windows over one plane of bytes, four neighbors of a line in each step: depthwise convolution where the processor has
// instructions that move any byte to any place, and add up products of four (AVX-512), or of two (AVX2).
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/core/kernel.h"

namespace minnow {

struct ByteWindows {
  const uint8_t* plane = nullptr;  // with its padding; 64 bytes from each place are read
  int64_t line = 0;                // bytes of a line
  int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, dilation[2] = {1, 1}, out[2] = {0, 0};
  const uint32_t* weights = nullptr;  // lanes_of_line() for each line of the kernel: four signed bytes, 0 for no tap
  // What is added to these, where they are a part of the weights: with AVX2, those of a pair may be 128 together. Or
  // null.
  const uint32_t* rest = nullptr;
  int32_t start = 0;   // of each sum
  int32_t factor = 0;  // of the sum of the window's bytes, which is added; 0 with AVX2
  // The sums, one line behind the other, ...
  int32_t* sums = nullptr;
  // ... or bytes: saturate(round(sum * scale) + zero), halves to even.
  uint8_t* bytes = nullptr;
  float scale = 0;
  int32_t zero = 0;
  bool is_signed = false;
  // Made of the above by prepare(): lines of results in one vector, where they are short, and what each byte of a step
  // is in what is read at once.
  int64_t together = 1;
  uint8_t place[2][64];

  void prepare();
  int64_t lanes_of_line() const { return (kernel[1] + 3) / 4; }
  // What is read at once holds the windows of 16 neighbors, or with AVX2, of 4.
  bool fits() const {
    const bool few = adds_pairs();
    const int64_t last = few ? 4 * lanes_of_line() - 1 : kernel[1] - 1;
    return (few ? 3 : 15) * stride[1] + last * dilation[1] < (few ? 16 : 64) && kernel[1] <= 8;
  }
  static bool adds_pairs();  // by AVX2
};

bool has_byte_windows();
void convolve_bytes(const ByteWindows& w);
void convolve_bytes_avx2(const ByteWindows& w);

// Lines of so many bytes, one behind the other, into those of a plane. Up to 63 bytes behind each are padding then, or
// the next line.
void place_lines(const uint8_t* from, int64_t lines, int64_t width, uint8_t flip, uint8_t padding, int64_t line,
                 uint8_t* plane);

void place_lines_avx2(const uint8_t* from, int64_t lines, int64_t width, uint8_t flip, int64_t line, uint8_t* plane);

// An input of a node; null where it is left out.
inline const Tensor* operand(const std::vector<const Tensor*>& in, size_t i) { return i < in.size() ? in[i] : nullptr; }

// A kernel for the op ConvInteger, null where it does not fit.
std::unique_ptr<Kernel> create_depthwise_bytes(const NodeContext& node);

}  // namespace minnow
