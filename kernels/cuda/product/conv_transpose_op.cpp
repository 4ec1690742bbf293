// The op ConvTranspose as one convolution: the results of a block of stride x stride pixels are the columns of a
// product, and a window holds the inputs that add to any of them; weights of those that do not add to a result are 0.
// The ending writes each column to its pixel.
#include <algorithm>
#include <numeric>

#include "kernels/cuda/constants.h"
#include "kernels/cuda/product/layer.h"
#include "kernels/cuda/window.h"

namespace minnow::cuda {
namespace {

constexpr int64_t kMostStride = 64, kMostKernel = 1024;
// Blocks of more elements than the weights have: beyond that, most are zeros for nothing.
constexpr int64_t kMostZeros = 16, kFewElements = 1 << 22;

// One axis. Result `place` gets tap k of the kernel from the input (place + pad - k * dilation) / stride, where that is
// whole. So result `phase` of a block gets it from the input `offset` places after the block's own.
struct Axis {
  int64_t kernel = 1, stride = 1, dilation = 1, pad = 0;
  int64_t taps = 0, first = 0, step = 1;  // of the window: offsets first, first + step, ...

  Axis(int64_t k, int64_t s, int64_t d, int64_t p) : kernel(k), stride(s), dilation(d), pad(p) {
    std::vector<int64_t> offsets;
    for (int64_t phase = 0; phase < stride; ++phase)
      for (int64_t tap = 0; tap < kernel; ++tap) {
        const int64_t from = phase + pad - tap * dilation;
        if (from % stride == 0) offsets.push_back(from / stride);
      }
    const auto [least, most] = std::minmax_element(offsets.begin(), offsets.end());
    first = *least;
    int64_t divisor = 0;
    for (int64_t offset : offsets) divisor = std::gcd(divisor, offset - first);
    step = std::max<int64_t>(divisor, 1);
    taps = (*most - first) / step + 1;
  }

  // Which tap of the kernel tap `i` of the window is for a result; below 0: none.
  int64_t tap_of(int64_t phase, int64_t i) const {
    const int64_t from = phase + pad - stride * (first + i * step);
    return from >= 0 && from % dilation == 0 && from / dilation < kernel ? from / dilation : -1;
  }
  bool is_dense() const { return taps * stride <= 4 * (kernel + stride); }
};

struct TransposedProduct {
  Product product;
  WeightForm form;
  std::vector<Axis> axes;  // two
  int64_t channels = 0;    // of the result, up to a multiple of 8
};

Status read_transposed(const NodeContext& node, TransposedProduct* out) {
  const TensorType &x = *node.in[kX], &y = *node.out[0];
  gpu::WindowArguments image;
  MINNOW_RETURN_IF_ERROR(image.read_conv(node));
  const Window& window = image.window();
  const std::array<int64_t, 3>&in = image.in(), &to = image.out();
  for (size_t i = 1; i < 3; ++i) {
    if (window.stride[i] > kMostStride || window.kernel[i] > kMostKernel)
      return fail(Code::kUnsupported, "a large stride or kernel");
    out->axes.emplace_back(window.kernel[i], window.stride[i], window.dilation[i], window.begin[i]);
    if (!out->axes.back().is_dense()) return fail(Code::kUnsupported, "few weights in a window");
  }
  const Axis &down = out->axes[0], &across = out->axes[1];
  const int64_t blocks = down.stride * across.stride;
  out->channels = round_channels(y.shape[1]);
  WeightForm& form = out->form;
  form.rows = blocks * out->channels;
  form.taps = down.taps * across.taps;
  form.channels = x.shape[1];
  form.form = "transposed";
  for (int64_t v : {down.stride, across.stride, down.dilation, across.dilation, down.pad, across.pad})
    form.form += "_" + std::to_string(v);
  form.form += "_";
  if (form.rows * form.depth() > std::max(kMostZeros * node.in[kW]->count(), kFewElements))
    return fail(Code::kUnsupported, "few weights in a window");

  Product& p = out->product;
  p.element = element_of(x.dtype, node.precision);
  p.images = number(x.shape[0]);
  ProductArguments& s = p.shape;
  s.H = number(in[1]), s.W = number(in[2]);
  s.P = number((to[1] + down.stride - 1) / down.stride), s.Q = number((to[2] + across.stride - 1) / across.stride);
  s.R = number(down.taps), s.S = number(across.taps);
  s.dilation_h = number(down.step), s.dilation_w = number(across.step);
  s.pad_h = number(-down.first), s.pad_w = number(-across.first);
  s.C = number(x.shape[1]);
  s.pixel = number(round_channels(x.shape[1]));
  s.M = p.images * s.P * s.Q;
  s.N = number(form.rows);
  s.depth = number(form.depth());
  s.end.row = form.rows;
  s.end.columns = s.end.bias_count = s.N;
  s.end.wide = true;
  // Blocks of one row that fill their image lie in memory as the columns do.
  if (down.stride > 1 || to[2] != int64_t{s.Q} * across.stride) {
    Spread& spread = s.end.spread;
    spread.rows = number(down.stride), spread.columns = number(across.stride);
    spread.height = number(to[1]), spread.width = number(to[2]);
    spread.by_channels = Divisor(number(out->channels));
    spread.by_columns = Divisor(spread.columns);
    spread.by_grid_rows = Divisor(s.P);
    spread.by_grid_columns = Divisor(s.Q);
  }
  return ok();
}

class ConvTransposeKernel final : public LayerKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    TransposedProduct conv;
    MINNOW_RETURN_IF_ERROR(read_transposed(node, &conv));
    product_ = conv.product;
    const Shape& w = node.in[kW]->shape;
    const int64_t outputs = w[1], taps = w.count(2, w.rank());
    const Axis &down = conv.axes[0], &across = conv.axes[1];
    macs_ = node.in[kX]->count() * outputs * taps;
    packs_weights_ = true;
    pack_weights(
        node, kW, conv.form,
        [&](int64_t row, int64_t tap, int64_t c) -> int64_t {
          const int64_t block = row / conv.channels, channel = row % conv.channels;
          const int64_t h = down.tap_of(block / across.stride, tap / across.taps);
          const int64_t v = across.tap_of(block % across.stride, tap % across.taps);
          return channel < outputs && h >= 0 && v >= 0 ? (c * outputs + channel) * taps + h * across.kernel + v : -1;
        },
        &weights_);
    bias_copies_ = down.stride * across.stride;
    return prepare(node, workspace);
  }
  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    return multiply(context, stream, context.in[kX]->data, weights_.as<void>(), context.workspace);
  }
};

std::unique_ptr<Kernel> create(const NodeContext&) { return std::make_unique<ConvTransposeKernel>(); }

bool supports(const NodeContext& node, std::string* why) {
  if (!supports_layer(node, why)) return false;
  const int rank = node.in[kX]->shape.rank();
  TransposedProduct conv;
  if (rank != 3 && rank != 4) {
    *why = "convolves along one or two axes";
  } else if (constant_of(node, kW) == nullptr) {
    *why = "takes constant weights of convolutions";
  } else if (node.attrs.i("group", 1) != 1) {
    *why = "takes transposed convolutions of one group";
  } else if (!read_transposed(node, &conv).ok() || product_configs(conv.product, 1).empty()) {
    *why = "has no kernel for a transposed convolution of this shape";
  } else {
    return true;
  }
  return false;
}

}  // namespace

MINNOW_CUDA_KERNEL("ConvTranspose", create, supports, LayoutRule::kPacked);

}  // namespace minnow::cuda
