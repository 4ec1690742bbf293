#include "kernels/cuda/depthwise_op.h"

#include <limits>

#include "kernels/cuda/constants.h"
#include "kernels/cuda/depthwise.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/read_activation.h"
#include "kernels/cuda/window.h"

namespace minnow::cuda {
namespace {

enum Input { kX, kW, kBias, kResidual, kGate };

class DepthwiseKernel final : public gpu::GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    MINNOW_RETURN_IF_ERROR(layer_.reshape(node));
    p_ = layer_.problem();
    macs_ = node.out[0]->count() * p_.kernel_height * p_.kernel_width;
    return ok();
  }
  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    Depthwise p = p_;
    p.x = context.in[kX]->data;
    p.residual = data_of(context, kResidual);
    p.y = context.out[0]->data;
    return check(depthwise(p, target_of(stream)), "to convolve");
  }
  bool reads(int i) const override { return i != kW && i != kBias; }
  int schemes() const override { return depthwise_schemes(p_); }
  void choose(int scheme) override { p_.scheme = scheme; }
  Profile profile() const override {
    return {p_.scheme < 0 ? "depthwise" : "depthwise_" + std::to_string(p_.scheme), macs_};
  }

 private:
  DepthwiseLayer layer_;
  Depthwise p_;
  int64_t macs_ = 0;
};

}  // namespace

Status DepthwiseLayer::reshape(const NodeContext& node) {
  const TensorType& x = *node.in[kX];
  gpu::WindowArguments window;
  MINNOW_RETURN_IF_ERROR(window.read_conv(node));
  p_ = Depthwise();
  p_.dtype = x.dtype;
  p_.images = number(x.shape[0]);
  p_.channels = number(round_channels(x.shape[1]));
  set_image_window(window, &p_);
  MINNOW_RETURN_IF_ERROR(read_activation(node.attrs, &p_.activation));
  const int64_t channels = x.shape[1], taps = window.taps(), padded = p_.channels;
  const Tensor *weights = constant_of(node, kW), *bias = constant_of(node, kBias);
  // [taps][channels], which are [channels][taps] in the file.
  weights_.make(node, {kW}, std::string("depthwise_") + dtype_name(x.dtype),
                taps * padded * static_cast<int64_t>(dtype_size(x.dtype)), [&](void* to) {
                  const std::vector<float> from = host_floats(*weights);
                  std::vector<float> turned(static_cast<size_t>(taps * padded));
                  for (int64_t c = 0; c < channels; ++c)
                    for (int64_t t = 0; t < taps; ++t)
                      turned[static_cast<size_t>(t * padded + c)] = from[static_cast<size_t>(c * taps + t)];
                  store_floats(turned.data(), taps * padded, x.dtype, to);
                });
  p_.weights = weights_.as<void>();
  if (bias != nullptr) {
    bias_.make(node, {kBias}, "channels_f32", 4 * padded, [&](void* to) {
      std::vector<float> from = host_floats(*bias);
      from.resize(static_cast<size_t>(padded));
      store_floats(from.data(), padded, DType::kF32, to);
    });
    p_.bias = bias_.data();
  }
  return ok();
}

bool supports_depthwise(const NodeContext& node, std::string* why) {
  if (!gpu::is_depthwise(node)) {
    *why = "computes depthwise convolutions of one or two axes here";
  } else if (!is_kernel_float(node.in[kX]->dtype)) {
    *why = std::string("convolves no ") + dtype_name(node.in[kX]->dtype);
  } else if (constant_of(node, kW) == nullptr || (has_input(node, kBias) && constant_of(node, kBias) == nullptr)) {
    *why = "takes constant weights of depthwise convolutions";
  } else if (has_input(node, kGate)) {
    *why = "takes no gate of depthwise convolutions";
  } else if (node.in[kX]->count() >= int64_t{1} << 31 || node.out[0]->count() >= int64_t{1} << 31) {
    *why = "computes tensors of less than 2^31 elements";
  } else {
    return true;
  }
  return false;
}

std::unique_ptr<Kernel> create_depthwise(const NodeContext&) { return std::make_unique<DepthwiseKernel>(); }

}  // namespace minnow::cuda
