// The ops Conv and ConvTranspose of images with channels last, and Linear, as products.
#include <algorithm>

#include "kernels/gpu/dense/layer.h"
#include "kernels/gpu/dense/window_arguments.h"
#include "kernels/vulkan/constants.h"
#include "kernels/vulkan/depthwise_op.h"
#include "kernels/vulkan/product.h"

namespace minnow::vulkan {
namespace {

enum Input : size_t { kX, kW, kBias, kResidual, kGate, kMore };

// An image of so many channels is read in plain layout: it would be mostly padding in the other one.
constexpr int64_t kImageChannels = 4;
constexpr int64_t kMostElements = int64_t{1} << 31;

bool is_image(const TensorType& x) { return x.shape.rank() >= 3 && x.shape[1] <= kImageChannels; }

// A layer as a product with packed weights.
class LayerKernel : public gpu::GpuKernel {
 public:
  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    if (product_.rows == 0 || product_.columns == 0) return ok();
    ProductOperands operands;
    operands.x = context.in[kX]->data;
    operands.w = weights_.as<void>();
    operands.bias = bias_.empty() ? nullptr : bias_.as<void>();
    operands.residual = gpu::input_data(context, kResidual);
    operands.gate = product_.gated    ? gpu::input_data(context, kGate)
                    : product_.joined ? gpu::input_data(context, kMore)
                                      : nullptr;
    operands.y = context.out[0]->data;
    operands.sums = context.workspace;
    return schemes_.launch(operands, stream);
  }
  bool reads(int i) const override { return i != kW && i != kBias; }
  int schemes() const override { return std::max(1, schemes_.count()); }
  void choose(int scheme) override {
    if (schemes_.count() > 0) schemes_.choose(scheme);
  }
  Profile profile() const override { return {schemes_.name(), macs_}; }

 protected:
  Status prepare(const NodeContext& node, int64_t* workspace) {
    MINNOW_RETURN_IF_ERROR(gpu::read_layer_activation(node.attrs, &product_.activation));
    bias_.clear();
    if (has_input(node, kBias)) pack_channels(node, kBias, &bias_);
    product_.dtype = node.out[0]->dtype;
    product_.image = node.in[kX]->dtype;
    *workspace = 0;
    return product_.rows == 0 || product_.columns == 0 ? ok() : schemes_.prepare(node, product_, workspace);
  }

  Product product_;
  Packed weights_, bias_;
  int64_t macs_ = 0;

 private:
  ProductSchemes schemes_;
};

class ConvKernel final : public LayerKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    const TensorType &x = *node.in[kX], &y = *node.out[0];
    gpu::WindowArguments image;
    MINNOW_RETURN_IF_ERROR(image.read_conv(node));
    const Window& window = image.window();
    const std::array<int64_t, 3>&in = image.in(), &out = image.out();
    const bool joined = has_input(node, kMore);
    const int64_t groups = node.attrs.i("group", 1), inputs = (joined ? 2 : 1) * x.shape[1] / groups;
    const int64_t taps = image.taps();
    macs_ = y.count() * inputs * taps;
    product_ = Product();
    Product& p = product_;
    p.rows = x.shape[0] * out[1] * out[2];
    p.columns = y.shape[1] / groups;
    p.groups = groups;
    p.height = in[1], p.width = in[2];
    p.out_height = out[1], p.out_width = out[2];
    p.stride_h = window.stride[1], p.stride_w = window.stride[2];
    p.dilation_h = window.dilation[1], p.dilation_w = window.dilation[2];
    p.pad_h = window.begin[1], p.pad_w = window.begin[2];
    p.kernel_w = window.kernel[2];
    p.y_row = round_channels(y.shape[1]);
    p.gated = has_input(node, kGate);
    p.joined = joined;
    const DType dtype = y.dtype;
    if (is_image(x)) {
      p.from = Rows::kImage;
      p.channels = inputs;
      p.x_row = taps;
      const int64_t k = inputs * taps;
      p.depth = round_channels(k);
      pack_constant(
          node, kW, "image", dtype, y.shape[1], p.depth,
          [&](int64_t row, int64_t c) { return c < k ? row * k + c : -1; }, &weights_);
      return prepare(node, workspace);
    }
    p.from = image.is_pointwise() ? Rows::kMatrix : Rows::kWindows;
    p.channels = round_channels(inputs);
    p.tail = inputs % kChannelRound;
    p.x_row = round_channels(x.shape[1]);
    p.depth = taps * p.channels;
    pack_constant(
        node, kW, "taps" + std::to_string(taps), dtype, y.shape[1], p.depth,
        [&](int64_t row, int64_t k) {
          const int64_t tap = k / p.channels, c = k % p.channels;
          return c < inputs ? (row * inputs + c) * taps + tap : -1;
        },
        &weights_);
    return prepare(node, workspace);
  }
};

// Where windows neither overlap nor leave gaps: each pixel becomes a square, and each place in it is a group.
class ConvTransposeKernel final : public LayerKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    const TensorType &x = *node.in[kX], &y = *node.out[0];
    const std::array<int64_t, 3> in = spatial_3d(x.shape);
    const int64_t inputs = x.shape[1], outputs = y.shape[1], side = node.in[kW]->shape[2];
    macs_ = x.count() * outputs * side * side;
    product_ = Product();
    Product& p = product_;
    p.rows = x.shape[0] * in[1] * in[2];
    p.columns = outputs;
    p.groups = side * side;
    p.spread = side;
    p.out_width = in[2];
    p.channels = round_channels(inputs);
    p.tail = inputs % kChannelRound;
    p.x_row = p.depth = p.channels;
    p.y_row = round_channels(outputs);
    // [place, output, input], which are [input, output, place] in the file.
    pack_constant(
        node, kW, "places", y.dtype, side * side * outputs, p.depth,
        [&](int64_t row, int64_t c) {
          return c < inputs ? (c * outputs + row % outputs) * side * side + row / outputs : -1;
        },
        &weights_);
    return prepare(node, workspace);
  }
};

class LinearKernel final : public LayerKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Shape &x = node.in[kX]->shape, &w = node.in[kW]->shape;
    const int64_t k = w[1];
    product_ = Product();
    Product& p = product_;
    p.rows = k == 0 ? 0 : x.count() / k;
    p.columns = p.y_row = w[0];
    p.depth = p.x_row = p.channels = k;
    macs_ = x.count() * w[0];
    pack_constant(
        node, kW, "rows", node.out[0]->dtype, w[0], k, [&](int64_t row, int64_t c) { return row * k + c; }, &weights_);
    return prepare(node, workspace);
  }
};

// What holds for all of them.
bool supports_layer(const NodeContext& node, std::string* why) {
  const TensorType &x = *node.in[kX], &y = *node.out[0];
  if (!is_kernel_float(x.dtype) || x.dtype != y.dtype) {
    *why = std::string("multiplies no ") + dtype_name(x.dtype);
  } else if (constant_of(node, kW) == nullptr || (has_input(node, kBias) && constant_of(node, kBias) == nullptr)) {
    *why = "takes constant weights";
  } else if (has_input(node, kResidual) && node.in[kResidual]->dtype != y.dtype) {
    *why = "takes a residual of the type of the result";
  } else if (x.count() >= kMostElements || y.count() >= kMostElements || x.count() == 0 || y.count() == 0) {
    *why = "computes tensors of less than 2^31 elements";
  } else {
    return true;
  }
  return false;
}

bool supports_conv(const NodeContext& node, std::string* why) {
  if (gpu::is_depthwise(node) && !is_image(*node.in[kX])) return supports_depthwise(node, why);
  if (!supports_layer(node, why)) return false;
  const Shape &x = node.in[kX]->shape, &w = node.in[kW]->shape, &y = node.out[0]->shape;
  const int64_t groups = node.attrs.i("group", 1);
  const bool gated = has_input(node, kGate);
  if (x.rank() != 3 && x.rank() != 4) {
    *why = "convolves along one or two axes";
  } else if (has_input(node, kMore) &&
             (node.in[kMore]->shape != node.in[kX]->shape || node.in[kMore]->dtype != node.in[kX]->dtype ||
              groups != 1 || gated || x[1] % kChannelRound != 0 || x.rank() != 4)) {
    *why = "joins two images of one shape";
  } else if (groups != 1 &&
             (is_image(*node.in[kX]) || x[1] / groups % kChannelRound != 0 || y[1] / groups % kChannelRound != 0)) {
    *why = "convolves groups of multiples of 8 channels";
  } else if (gated && (w.count(2, w.rank()) != 1 || groups != 1 || x[1] % kChannelRound != 0 || x[0] != 1 ||
                       is_image(*node.in[kX]) || node.in[kGate]->count() != x[1] ||
                       node.in[kGate]->dtype != node.in[kX]->dtype)) {
    *why = "takes a gate of pointwise convolutions";
  } else {
    return true;
  }
  return false;
}

bool supports_conv_transpose(const NodeContext& node, std::string* why) {
  if (!supports_layer(node, why)) return false;
  const Shape &x = node.in[kX]->shape, &w = node.in[kW]->shape, &y = node.out[0]->shape;
  const bool fits = x.rank() == 4 && node.attrs.i("group", 1) == 1 && w[2] == w[3] && !has_input(node, kGate) &&
                    !has_input(node, kMore) && y[2] == x[2] * w[2] && y[3] == x[3] * w[2];
  gpu::WindowArguments window;
  if (fits && window.read_conv(node).ok()) {
    const Window& all = window.window();
    if (all.stride[1] == w[2] && all.stride[2] == w[2] && all.dilation[1] == 1 && all.dilation[2] == 1 &&
        all.begin[1] == 0 && all.begin[2] == 0)
      return true;
  }
  *why = "takes apart images into squares of the size of the stride";
  return false;
}

bool supports_linear(const NodeContext& node, std::string* why) {
  if (!supports_layer(node, why)) return false;
  const Shape& w = node.in[kW]->shape;
  if (w.rank() == 2 && w[0] % kChannelRound == 0 && w[1] % kChannelRound == 0) return true;
  *why = "multiplies rows of multiples of 8 numbers";
  return false;
}

std::unique_ptr<Kernel> create_conv(const NodeContext& node) {
  if (gpu::is_depthwise(node) && !is_image(*node.in[kX])) return create_depthwise(node);
  return std::make_unique<ConvKernel>();
}
std::unique_ptr<Kernel> create_conv_transpose(const NodeContext&) { return std::make_unique<ConvTransposeKernel>(); }
std::unique_ptr<Kernel> create_linear(const NodeContext&) { return std::make_unique<LinearKernel>(); }

// The first convolution takes a plain image.
LayoutRule layout_of_conv(const std::vector<const TensorType*>& inputs) {
  return is_image(*inputs[kX]) ? LayoutRule::kPacks : LayoutRule::kPacked;
}

}  // namespace

MINNOW_VULKAN_KERNEL("Conv", create_conv, supports_conv, layout_of_conv);
MINNOW_VULKAN_KERNEL("ConvTranspose", create_conv_transpose, supports_conv_transpose, LayoutRule::kPacked);
MINNOW_VULKAN_KERNEL("Linear", create_linear, supports_linear);

}  // namespace minnow::vulkan
