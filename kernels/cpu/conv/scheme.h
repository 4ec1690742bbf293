// Convolution in f32 on packed tensors: its geometry, and the schemes it can be computed by. Each scheme is a file.
#pragma once

#include <memory>

#include "kernels/cpu/gemm/activation.h"
#include "kernels/cpu/machine/cost.h"
#include "kernels/core/rounding.h"
#include "kernels/core/window.h"

namespace minnow {

// A 2-D convolution; 1-D ones have height 1.
struct ConvShape {
  int64_t n, ic, ih, iw, oc, oh, ow, group;
  int64_t kh, kw, sh, sw, dh, dw;  // kernel, strides, dilations
  int64_t top, left;               // padding before the input; what is after it follows from the output's size
  Activation activation;
  int threads = 1;
  Precision precision = Precision::kHigh;
  bool plain_input = false;  // x is not packed: few channels, and one group

  int64_t icg() const { return ic / group; }
  int64_t ocg() const { return oc / group; }
  int64_t macs() const { return Shape{n, oc, oh, ow, icg(), kh, kw}.count(); }
};

struct ConvCall {
  const float* x;         // packed, but where the shape says it is not
  const float* w;         // as pack() left it
  const float* bias;      // padded with zeros to whole blocks of channels, or null
  const float* residual;  // packed as the output, or null
  float* y;               // packed
  void* workspace;        // aligned to 64 bytes
  ThreadPool* pool;
};

class ConvScheme {
 public:
  virtual ~ConvScheme() = default;
  virtual const char* name() const = 0;
  // Weights packed for one scheme serve all schemes of equal `packing` (and equal kernel and groups), whatever the
  // input's size.
  virtual const char* packing() const = 0;
  virtual int64_t packed_floats() const = 0;
  virtual int64_t table_bytes() const { return 0; }                              // of memory that it keeps
  virtual void pack(const float* w, float* packed, ThreadPool* pool) const = 0;  // the pool may be null
  virtual int64_t workspace_bytes() const = 0;
  virtual void run(const ConvCall& call) const = 0;
  // For the choice between schemes; nothing where there is no choice.
  virtual Work work() const { return {}; }
};

std::unique_ptr<ConvScheme> make_conv_direct(const ConvShape& shape);
// Groups of which whole ones fill a block of output channels, and no more than a block of input channels.
class DepthwiseScheme : public ConvScheme {
 public:
  // Rows of one block of output channels, all pointers at the beginning of their block. Only the input rows under these
  // windows are read.
  virtual void run_rows(const ConvCall& block, int64_t y_begin, int64_t y_end) const = 0;
  virtual int64_t block_floats() const = 0;  // of packed weights
};
std::unique_ptr<DepthwiseScheme> make_conv_depthwise(const ConvShape& shape);
// Kernel 3x3, stride and dilation 1, one group; output tiles of 2x2 or 4x4.
std::unique_ptr<ConvScheme> make_conv_winograd(const ConvShape& shape, int tile);

// With weights and input as one or two numbers of bf16: how many times faster than in f32, by the precision; 1: f32 it
// is.
double conv_bf16_gain(const ConvShape& shape);
std::unique_ptr<ConvScheme> make_conv_bf16(const ConvShape& shape);
// Images of one pixel with precision "low": weights of bf16, half the bytes to read.
bool conv_is_rows(const ConvShape& shape);
std::unique_ptr<ConvScheme> make_conv_rows(const ConvShape& shape);

// With these constant weights, of which many are 0; null where that would take longer than `seconds` by the estimate.
std::unique_ptr<ConvScheme> make_conv_sparse(const ConvShape& shape, const float* w, double seconds);

// Constant weights, input `input` of the node, as the scheme wants them.
void pack_weights(const NodeContext& node, size_t input, const ConvScheme& scheme, int64_t group, Packed* packed);

// Sizes of a packed f32 convolution of rank 3 or 4, and its activation. `as_row`: an image one pixel wide is laid down.
Status read_conv_shape(const Attrs& attrs, const Shape& x, const Shape& w, const Shape& y, bool as_row, ConvShape* s);

// Any dtype and rank in the plain layout: correct, and not made to be fast.
std::unique_ptr<Kernel> make_conv_plain(const NodeContext& node);

}  // namespace minnow
