#include "kernels/vulkan/depthwise_op.h"

#include "kernels/gpu/dense/layer.h"
#include "kernels/gpu/dense/window_arguments.h"
#include "kernels/gpu/uploaded.h"
#include "kernels/vulkan/constants.h"

namespace minnow::vulkan {
namespace {

enum Input : size_t { kX, kW, kBias, kResidual, kGate, kMore };

constexpr int64_t kMostElements = int64_t{1} << 31;
constexpr int64_t kMostTaps = 11;       // along an axis: a row of weights is kept in registers
constexpr int64_t kRuns[] = {1, 2, 4};  // pixels by a work-item
constexpr int64_t kItemsOfUnit = 1024;  // that hide each other's waiting

class DepthwiseKernel final : public gpu::GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const TensorType& x = *node.in[kX];
    MINNOW_RETURN_IF_ERROR(window_.read_conv(node));
    MINNOW_RETURN_IF_ERROR(gpu::read_layer_activation(node.attrs, &activation_));
    dtype_ = x.dtype;
    images_ = x.shape[0];
    channels_ = round_channels(x.shape[1]);
    device_ = &gpu::device_of(node);
    const int64_t channels = x.shape[1], taps = window_.taps();
    macs_ = node.out[0]->count() * taps;
    pack_constant(
        node, kW, "depthwise" + std::to_string(channels), dtype_, taps, channels_,
        [&](int64_t tap, int64_t c) { return c < channels ? c * taps + tap : -1; }, &weights_);
    bias_.clear();
    if (has_input(node, kBias)) pack_channels(node, kBias, &bias_);
    schemes_ = window_.window().dilation[2] == 1 ? static_cast<int>(std::size(kRuns)) : 1;
    // As many pixels as leave enough work-items.
    int scheme = 0;
    const int64_t enough = gpu::has_many_units(*device_) ? kItemsOfUnit * machine_of(node).units : 1;
    while (scheme + 1 < schemes_ && items(kRuns[scheme + 1]) >= enough) ++scheme;
    choose(scheme);
    return Status(compiled_);
  }
  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    MINNOW_RETURN_IF_ERROR(Status(compiled_));
    void* y = context.out[0]->data;
    const void* residual = gpu::input_data(context, kResidual);
    gpu::Arguments arguments;
    arguments.buffer(context.in[kX]->data).buffer(weights_.as<void>());
    arguments.buffer(bias_.empty() ? y : bias_.as<void>()).buffer(residual == nullptr ? y : residual).buffer(y);
    const Window& w = window_.window();
    for (int64_t v : {channels_, window_.in()[1], window_.in()[2], window_.out()[1], window_.out()[2], w.stride[1],
                      w.dilation[1], w.begin[1], w.begin[2]})
      arguments.add(gpu::to_i32(v));
    const int flags = (bias_.empty() ? 0 : int{gpu::kBiasOfColumn}) | (residual == nullptr ? 0 : int{gpu::kResidual});
    const int64_t count = items(kRuns[scheme_]);
    arguments.add(flags).add(gpu::to_i32(count)).add(activation_.alpha).add(activation_.beta);
    return stream.launch(*program_, arguments, gpu::groups_of(*program_, count));
  }
  bool reads(int i) const override { return i != kW && i != kBias; }
  int schemes() const override { return schemes_; }
  void choose(int scheme) override {
    scheme_ = scheme;
    compiled_ = device_->program("depthwise",
                                 {{"TYPE", gpu::type_of(dtype_)},
                                  {"ACTIVATION", activation_.kind},
                                  {"KERNEL_H", window_.kernel(1)},
                                  {"KERNEL_W", window_.kernel(2)},
                                  {"STRIDE", gpu::to_i32(window_.window().stride[2])},
                                  {"DILATION", gpu::to_i32(window_.window().dilation[2])},
                                  {"RUN", gpu::to_i32(kRuns[scheme])}},
                                 &program_);
  }
  Profile profile() const override { return {"depthwise_run" + std::to_string(kRuns[scheme_]), macs_}; }

 private:
  int64_t items(int64_t run) const {
    return images_ * window_.out()[1] * gpu::groups_for(window_.out()[2], run) * (channels_ / 8);
  }

  gpu::Device* device_ = nullptr;
  const gpu::Program* program_ = nullptr;
  Status compiled_;
  gpu::WindowArguments window_;
  gpu::LayerActivation activation_;
  DType dtype_ = DType::kF16;
  int64_t images_ = 0, channels_ = 0, macs_ = 0;
  Packed weights_, bias_;
  int schemes_ = 1, scheme_ = 0;
};

}  // namespace

bool supports_depthwise(const NodeContext& node, std::string* why) {
  const TensorType &x = *node.in[kX], &y = *node.out[0];
  const Shape& w = node.in[kW]->shape;
  if (!is_kernel_float(x.dtype) || x.dtype != y.dtype) {
    *why = std::string("convolves no ") + dtype_name(x.dtype);
  } else if (constant_of(node, kW) == nullptr || (has_input(node, kBias) && constant_of(node, kBias) == nullptr)) {
    *why = "takes constant weights of depthwise convolutions";
  } else if (has_input(node, kGate) || has_input(node, kMore) ||
             (has_input(node, kResidual) && node.in[kResidual]->dtype != y.dtype)) {
    *why = "takes one image and a residual of its type";
  } else if (w.at(-1) > kMostTaps || (w.rank() == 4 && w[2] > kMostTaps)) {
    *why = "convolves with windows of at most 11 x 11";
  } else if (x.count() >= kMostElements || y.count() >= kMostElements || x.count() == 0 || y.count() == 0) {
    *why = "computes tensors of less than 2^31 elements";
  } else {
    return true;
  }
  return false;
}

std::unique_ptr<Kernel> create_depthwise(const NodeContext&) { return std::make_unique<DepthwiseKernel>(); }

}  // namespace minnow::vulkan
