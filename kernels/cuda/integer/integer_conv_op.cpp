// ConvInteger and QuantizedConv, channels last: as products on tensor cores, or by kernels of their own.
#include <algorithm>

#include "kernels/cuda/integer/integer_layer.h"
#include "kernels/cuda/window.h"

namespace minnow::cuda {
namespace {

enum class ConvForm : uint8_t { kProduct, kDepthwise, kGroups };

struct ConvSizes {
  ConvForm form = ConvForm::kProduct;
  IntegerProduct product;
  int images = 1;
  int64_t groups = 1, inputs = 0, outputs = 0, taps = 0;  // of a group
};

Status read_sizes(const NodeContext& node, ConvSizes* out) {
  const TensorType &x = *node.in[kLeft], &y = *node.out[0];
  gpu::WindowArguments window;
  MINNOW_RETURN_IF_ERROR(window.read_conv(node));
  const int64_t groups = out->groups = node.attrs.i("group", 1);
  const int64_t inputs = out->inputs = x.shape[1] / groups, outputs = out->outputs = y.shape[1] / groups;
  out->images = number(x.shape[0]);
  IntegerProduct& p = out->product;
  IntegerArguments& a = p.a;
  set_product_window(window, &a);
  a.C = number(inputs);
  a.pixel = number(round_channels(x.shape[1]));
  a.M = out->images * a.P * a.Q;
  a.N = number(outputs);
  a.end.row = round_channels(y.shape[1]);
  a.end.columns = number(groups == 1 ? a.end.row : outputs);
  a.end.wide = true;
  out->taps = int64_t{a.R} * a.S;
  p.chunk = a.pixel % 16 == 0 && (groups == 1 || inputs % 16 == 0) ? 16 : 8;
  a.depth = number(round_up(out->taps * round_up(inputs, p.chunk), 16));
  p.batch = number(groups);
  a.x_batch = inputs;
  a.w_batch = outputs * a.depth;
  a.y_batch = outputs;
  a.column_batch = number(outputs);
  if (groups > 1 && inputs == 1 && outputs == 1) {
    out->form = ConvForm::kDepthwise;
  } else if (groups > 1 && (inputs % 8 != 0 || outputs % 8 != 0)) {
    out->form = ConvForm::kGroups;
  }
  if (out->form != ConvForm::kProduct) a.end.columns = number(a.end.row);
  if (int64_t{out->images} * a.H * a.W * a.pixel >= int64_t{1} << 31 || int64_t{a.M} * a.end.row >= int64_t{1} << 31 ||
      a.H > 30000 || a.W > 30000 || a.pad_h > 1000 || a.pad_w > 1000 || int64_t{a.R} * a.dilation_h > 1000 ||
      int64_t{a.S} * a.dilation_w > 1000)
    return fail(Code::kUnsupported, "too large");
  return ok();
}

class IntegerConvKernel final : public IntegerLayerKernel {
 public:
  bool reads(int i) const override { return i == kLeft || (i == kLeftZero && !has_x_zero_) || i == kTerm; }

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    sizes_ = ConvSizes();
    MINNOW_RETURN_IF_ERROR(read_sizes(node, &sizes_));
    product_ = sizes_.product;
    IntegerArguments& a = product_.a;
    const int64_t groups = sizes_.groups, inputs = sizes_.inputs, outputs = sizes_.outputs, taps = sizes_.taps;
    const int64_t all = groups * outputs;
    macs_ = node.out[0]->count() * inputs * taps;
    MINNOW_RETURN_IF_ERROR(read_ending(node, all));
    const std::vector<int> w = host_bytes(*constant_of(node, kRight));
    const Tensor* zero = constant_of(node, kRightZero);
    const int none = node.in[kRight]->dtype == DType::kU8 ? -128 : 0;
    std::vector<int> zeros(static_cast<size_t>(all), none), sums(static_cast<size_t>(all));
    if (zero != nullptr) {
      const std::vector<int> given = host_bytes(*zero);
      for (size_t i = 0; i < zeros.size(); ++i) zeros[i] = given[given.size() == 1 ? 0 : i];
    }
    for (size_t i = 0; i < w.size(); ++i) sums[i / static_cast<size_t>(inputs * taps)] += w[i];
    switch (sizes_.form) {
      case ConvForm::kProduct:
        pack(node, w);
        MINNOW_RETURN_IF_ERROR(add_corrections(node, sums, zeros, inputs * taps));
        MINNOW_RETURN_IF_ERROR(find_configs(node));
        break;
      case ConvForm::kDepthwise: {
        form_ = "int8_depthwise";
        pack_words(node, w, zeros);
        for (size_t i = 0; i < sums.size(); ++i) sums[i] -= static_cast<int>(taps) * zeros[i];
        std::fill(zeros.begin(), zeros.end(), 0);
        MINNOW_RETURN_IF_ERROR(add_corrections(node, sums, zeros, 0));
        break;
      }
      case ConvForm::kGroups:
        form_ = "int8_groups";
        pack(node, w);
        // The kernel takes the zero point of x away itself.
        std::fill(sums.begin(), sums.end(), 0);
        MINNOW_RETURN_IF_ERROR(add_corrections(node, sums, zeros, 0));
        a.end.correction = nullptr;
        break;
    }
    const std::vector<uint8_t> outside(16, static_cast<uint8_t>(x_zero_raw_));
    MINNOW_RETURN_IF_ERROR(pad_.make(gpu::device_of(node), outside));
    a.pad = pad_.data();
    if (!has_x_zero_) *workspace = 64;
    return ok();
  }

  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    const Target target = target_of(stream);
    IntegerArguments a = product_.a;
    a.x = context.in[kLeft]->data;
    a.end.y = context.out[0]->data;
    a.end.other = term(context);
    if (!has_x_zero_) {
      a.end.x_zero = data_of(context, kLeftZero);
      if (sizes_.form != ConvForm::kGroups && !product_.is_matrix()) {
        MINNOW_RETURN_IF_ERROR(check(spread_byte(a.end.x_zero, context.workspace, target), "to fill the padding"));
        a.pad = context.workspace;
      }
    }
    switch (sizes_.form) {
      case ConvForm::kProduct:
        a.w = weights_.as<int8_t>();
        return multiply(stream, a);
      case ConvForm::kDepthwise: {
        IntegerDepthwise p;
        p.images = sizes_.images;
        p.channels = a.pixel;
        p.words = weights_.as<int32_t>();
        p.shape = a;
        return check(integer_depthwise(p, target), "to convolve");
      }
      case ConvForm::kGroups:
        break;
    }
    IntegerGroups p;
    p.images = sizes_.images;
    p.groups = number(sizes_.groups), p.inputs = number(sizes_.inputs), p.outputs = number(sizes_.outputs);
    p.w = weights_.as<int8_t>();
    p.x_zero = x_zero_;
    p.x_zero_at = a.end.x_zero;
    p.shape = a;
    return check(integer_groups(p, target), "to convolve");
  }

 private:
  // [outputs, taps, inputs], with the zeros that a product wants.
  void pack(const NodeContext& node, const std::vector<int>& w) {
    const int64_t inputs = sizes_.inputs, taps = sizes_.taps, rows = sizes_.groups * sizes_.outputs;
    const bool product = sizes_.form == ConvForm::kProduct;
    const int64_t padded = product ? round_up(inputs, product_.chunk) : inputs;
    const int64_t depth = product ? product_.a.depth : inputs * taps;
    const std::string form = product ? "integer_" + std::to_string(product_.chunk) : "integer_groups";
    weights_.make(node, {kRight}, form, rows * depth, [&](void* to) {
      int8_t* packed = static_cast<int8_t*>(to);
      std::fill(packed, packed + rows * depth, int8_t{0});
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < inputs; ++c)
          for (int64_t t = 0; t < taps; ++t)
            packed[r * depth + t * padded + c] =
                static_cast<int8_t>(w[static_cast<size_t>((r * inputs + c) * taps + t)]);
    });
  }

  // Those of a depthwise convolution, less their zero points, see IntegerDepthwise.
  void pack_words(const NodeContext& node, const std::vector<int>& w, const std::vector<int>& zeros) {
    const int64_t taps = sizes_.taps, channels = sizes_.groups, padded = product_.a.pixel;
    weights_.make(node, {kRight, kRightZero}, "integer_depthwise", taps * padded * 4, [&](void* to) {
      int32_t* words = static_cast<int32_t*>(to);
      std::fill(words, words + taps * padded, 0);
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t t = 0; t < taps; ++t) {
          const int one = w[static_cast<size_t>(c * taps + t)] - zeros[static_cast<size_t>(c)];
          words[t * padded + c] = c % 2 == 0 ? one & 0xffff : static_cast<int32_t>(static_cast<uint32_t>(one) << 16);
        }
    });
  }

  ConvSizes sizes_;
  Packed weights_;
  gpu::Uploaded pad_;
};

std::unique_ptr<Kernel> create_conv(const NodeContext&) { return std::make_unique<IntegerConvKernel>(); }

bool supports_conv(const NodeContext& node, std::string* why) {
  if (!supports_integer_layer(node, why)) return false;
  const int rank = node.in[kLeft]->shape.rank();
  ConvSizes sizes;
  if (rank != 3 && rank != 4) {
    *why = "convolves along one or two axes";
  } else if (constant_of(node, kRight) == nullptr ||
             (has_input(node, kRightZero) && constant_of(node, kRightZero) == nullptr)) {
    *why = "takes constant weights of convolutions";
  } else if (!read_sizes(node, &sizes).ok()) {
    *why = "has no kernel for a convolution of this shape";
  } else {
    return true;
  }
  return false;
}

}  // namespace

MINNOW_CUDA_KERNEL("ConvInteger", create_conv, supports_conv, LayoutRule::kPacked);
MINNOW_CUDA_KERNEL("QuantizedConv", create_conv, supports_conv, LayoutRule::kPacked);

}  // namespace minnow::cuda
