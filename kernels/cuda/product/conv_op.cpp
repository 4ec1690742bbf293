// The op Conv: depthwise ones by their own kernel, others as products.
#include <algorithm>

#include "kernels/cuda/constants.h"
#include "kernels/cuda/depthwise_op.h"
#include "kernels/cuda/product/layer.h"
#include "kernels/cuda/product/rearrange.h"
#include "kernels/cuda/separable_op.h"
#include "kernels/cuda/window.h"

namespace minnow::cuda {
namespace {

// An image of so many channels would be mostly padding in channels-last layout: blocks of pixels are gathered instead.
constexpr int64_t kImageChannels = 4;
constexpr int64_t kMostBlock = 16;

bool is_image(const TensorType& x) { return x.shape.rank() == 4 && x.shape[1] <= kImageChannels; }

// What the node is as a product; `block` is the side of the blocks that become pixels, 0: none.
struct ConvProduct {
  Product product;
  WeightForm form;
  BlockGather gather;
  Window window;
  int64_t inputs = 0;  // channels of a group
  int block = 0;
  int columns = 1;  // taps of a row of a window of blocks
};

Status read_conv(const NodeContext& node, ConvProduct* out) {
  const TensorType &x = *node.in[kX], &y = *node.out[0];
  gpu::WindowArguments image;
  MINNOW_RETURN_IF_ERROR(image.read_conv(node));
  const Window& window = out->window = image.window();
  const bool joined = has_input(node, kMore);
  const int64_t groups = node.attrs.i("group", 1), outputs = y.shape[1] / groups;
  out->inputs = (joined ? 2 : 1) * x.shape[1] / groups;
  Product& p = out->product;
  p.element = element_of(x.dtype, node.precision);
  p.images = number(x.shape[0]);
  p.batch = number(groups);
  ProductArguments& s = p.shape;
  set_product_window(image, &s);
  s.C = number(out->inputs);
  s.pixel = number(round_channels(x.shape[1]));
  s.split = joined ? number(x.shape[1]) : 0;
  const int64_t stride = window.stride[1], block_bytes = window.stride[1] * window.stride[2] * x.shape[1];
  if (is_image(x)) {
    const bool square = stride == window.stride[2] && stride >= 1 && stride <= kMostBlock && block_bytes <= 4096 &&
                        window.dilation[1] == 1 && window.dilation[2] == 1 && groups == 1;
    if (!square) return fail(Code::kUnsupported, "no blocks");
    out->block = number(stride);
    BlockGather& g = out->gather;
    g.element = p.element;
    g.images = p.images;
    g.channels = number(x.shape[1]);
    g.height = s.H, g.width = s.W;
    g.block = out->block;
    g.pad_h = s.pad_h, g.pad_w = s.pad_w;
    s.R = (s.R + g.block - 1) / g.block, s.S = (s.S + g.block - 1) / g.block;
    g.out_height = s.H = s.P + s.R - 1;
    g.out_width = s.W = s.Q + s.S - 1;
    s.stride_h = s.stride_w = 1;
    s.pad_h = s.pad_w = 0;
    s.C = g.channels * g.block * g.block;
    s.pixel = number(round_channels(s.C));
  }
  s.M = p.images * s.P * s.Q;
  s.N = number(outputs);
  s.x_batch = out->inputs;
  s.y_batch = outputs;
  s.bias_batch = number(outputs);
  s.end.row = round_channels(y.shape[1]);
  s.end.columns = number(groups == 1 ? s.end.row : outputs);
  s.end.bias_count = number(outputs);
  s.end.wide = groups == 1 || outputs % 8 == 0;
  out->form.rows = y.shape[1];
  out->form.taps = int64_t{s.R} * s.S;
  out->form.channels = s.C;
  s.depth = number(out->form.depth());
  s.w_batch = outputs * s.depth;
  out->columns = s.S;
  if (out->block != 0 && s.S > 1) merge_taps(&p);
  return ok();
}

class ConvKernel final : public LayerKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    ConvProduct conv;
    MINNOW_RETURN_IF_ERROR(read_conv(node, &conv));
    product_ = conv.product;
    gather_ = conv.gather;
    block_ = conv.block;
    const int64_t taps_h = conv.window.kernel[1], taps_w = conv.window.kernel[2], inputs = conv.inputs;
    macs_ = node.out[0]->count() * inputs * taps_h * taps_w;
    packs_weights_ = true;
    if (block_ == 0) {
      pack_weights(
          node, kW, conv.form,
          [&](int64_t row, int64_t tap, int64_t c) { return (row * inputs + c) * taps_h * taps_w + tap; }, &weights_);
    } else {
      const int64_t b = block_, wide = conv.columns;
      conv.form.form = "blocks" + std::to_string(b) + "_";
      pack_weights(
          node, kW, conv.form,
          [&](int64_t row, int64_t tap, int64_t c) -> int64_t {
            const int64_t h = tap / wide * b + c / b % b, w = tap % wide * b + c % b;
            if (h >= taps_h || w >= taps_w) return -1;
            return ((row * inputs + c / (b * b)) * taps_h + h) * taps_w + w;
          },
          &weights_);
    }
    const int64_t bytes = bytes_of(product_.element);
    gathered_ =
        block_ == 0
            ? 0
            : round_up(int64_t{gather_.images} * gather_.out_height * gather_.out_width * product_.shape.pixel * bytes);
    gated_ = has_input(node, kGate);
    scaled_ = gated_ ? round_up(conv.form.rows * product_.shape.depth * bytes) : 0;
    if (gated_) product_.shape.constant_w = false;
    MINNOW_RETURN_IF_ERROR(prepare(node, workspace));
    *workspace += gathered_ + scaled_;
    return prepare_few_rows(node);
  }

  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    const cudaStream_t to = target_of(stream).stream;
    char* space = static_cast<char*>(context.workspace);
    const void *x = context.in[kX]->data, *w = weights_.as<void>();
    if (block_ != 0) {
      BlockGather gather = gather_;
      gather.from = x;
      gather.to = space;
      MINNOW_RETURN_IF_ERROR(gather_blocks(gather, to));
      x = space;
      space += gathered_;
    }
    if (gated_) {
      WeightScaling scaling;
      scaling.element = product_.element;
      scaling.rows = product_.shape.N;
      scaling.columns = product_.shape.depth;
      scaling.gates = product_.shape.C;
      scaling.weights = w;
      scaling.gate = context.in[kGate]->data;
      scaling.to = space;
      MINNOW_RETURN_IF_ERROR(scale_weights(scaling, to));
      w = space;
      space += scaled_;
    }
    return multiply(context, stream, x, w, space);
  }

 private:
  // Images of a few pixels in all, as those that gates are made of.
  Status prepare_few_rows(const NodeContext& node) {
    const ProductArguments& s = product_.shape;
    const bool fits = product_.is_matrix() && product_.batch == 1 && block_ == 0 && !gated_ && s.split == 0 &&
                      s.M <= kMostFewRows && s.C % 8 == 0;
    if (!fits) return ok();
    FewRows sizes;
    sizes.rows = s.M, sizes.n = s.N, sizes.k = s.C;
    sizes.x_row = s.pixel, sizes.y_row = s.end.row;
    return add_few_rows(node, sizes);
  }
  static int64_t round_up(int64_t bytes) { return (bytes + 255) / 256 * 256; }

  BlockGather gather_;
  int block_ = 0;
  bool gated_ = false;
  int64_t gathered_ = 0, scaled_ = 0;
};

std::unique_ptr<Kernel> create_conv(const NodeContext& node) {
  if (is_separable(node)) return create_separable(node);
  if (gpu::is_depthwise(node) && !has_input(node, kMore)) return create_depthwise(node);
  return std::make_unique<ConvKernel>();
}

bool supports_conv(const NodeContext& node, std::string* why) {
  if (is_separable(node)) return supports_separable(node, why);
  if (gpu::is_depthwise(node) && !is_image(*node.in[kX]) && !has_input(node, kMore))
    return supports_depthwise(node, why);
  if (!supports_layer(node, why)) return false;
  const int rank = node.in[kX]->shape.rank();
  ConvProduct conv;
  if (rank != 3 && rank != 4) {
    *why = "convolves along one or two axes";
  } else if (constant_of(node, kW) == nullptr) {
    *why = "takes constant weights of convolutions";
  } else if (has_input(node, kGate) &&
             (node.in[kW]->shape.count(2, rank) != 1 || node.attrs.i("group", 1) != 1 || is_image(*node.in[kX]))) {
    *why = "takes a gate of pointwise convolutions";
  } else if (has_input(node, kMore) &&
             (node.in[kMore]->shape != node.in[kX]->shape || node.in[kMore]->dtype != node.in[kX]->dtype ||
              node.attrs.i("group", 1) != 1 || has_input(node, kGate))) {
    *why = "joins two images of one shape";
  } else if (!read_conv(node, &conv).ok() || product_configs(conv.product, 1).empty()) {
    *why = "has no kernel for a convolution of this shape";
  } else {
    return true;
  }
  return false;
}

// The first convolution takes a plain image.
LayoutRule layout_of_conv(const std::vector<const TensorType*>& inputs) {
  return is_image(*inputs[kX]) ? LayoutRule::kPacks : LayoutRule::kPacked;
}

}  // namespace

MINNOW_CUDA_KERNEL("Conv", create_conv, supports_conv, layout_of_conv);

}  // namespace minnow::cuda
