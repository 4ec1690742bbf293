// The ops Conv and ConvTranspose.
#include <algorithm>

#include "kernels/core/window.h"
#include "kernels/gpu/dense/matmul.h"
#include "kernels/gpu/dense/window_arguments.h"

namespace minnow::gpu {
namespace {

constexpr size_t kGateInput = 4, kMoreInput = 5;
// With fewer channels than that in a group, a tile of a product would be mostly empty.
constexpr int64_t kFewChannels = 8;

class ConvKernel final : public GpuKernel {
 public:
  explicit ConvKernel(bool transposed) : transposed_(transposed) {}

  Status reshape(const NodeContext& node, int64_t* workspace) override;
  Status enqueue(const RunContext& context, Stream& stream) override;
  bool reads(int i) const override { return i != 1 || (packed_.empty() && !(pointwise_ && product_.packs(1))); }
  Profile profile() const override { return {scheme_, macs_, {}}; }

 private:
  const bool transposed_;
  const char* scheme_ = "";
  int64_t macs_ = 0;
  LayerActivation activation_;
  WindowArguments window_;
  int64_t images_ = 0, inputs_ = 0, outputs_ = 0, groups_ = 1, k_ = 0;
  bool pointwise_ = false, direct_ = false;
  ProductLaunch product_;
  Tile tile_;
  Packed packed_;
  Parts parts_;
  Finish finish_;
  const Program* program_ = nullptr;
};

Status ConvKernel::reshape(const NodeContext& node, int64_t* workspace) {
  const Shape &x = node.in[0]->shape, &w = node.in[1]->shape, &y = node.out[0]->shape;
  Device& device = device_of(node);
  *workspace = 0;
  MINNOW_RETURN_IF_ERROR(read_layer_activation(node.attrs, &activation_));
  MINNOW_RETURN_IF_ERROR(window_.read_conv(node));
  groups_ = node.attrs.i("group", 1);
  images_ = x[0];
  inputs_ = x[1] / groups_;
  outputs_ = y[1] / groups_;
  k_ = inputs_ * window_.taps();
  macs_ = transposed_ ? x.count() * w.count(1, w.rank()) : y.count() * k_;
  const int64_t pixels = window_.pixels();
  pointwise_ = !transposed_ && groups_ == 1 && window_.is_pointwise();
  if (pointwise_) {
    scheme_ = "gemm_1x1";
    Product p;
    p.m = outputs_;
    p.n = pixels;
    p.k = k_;
    p.products = images_;
    p.a_row = k_;
    p.a_column = 1;
    p.b_row = pixels;
    p.b_column = 1;
    p.one_a = true;
    return product_.prepare(node, std::move(p), 1, 0, activation_, true, 1, workspace);
  }
  const bool gated = node.in.size() > kGateInput && node.in[kGateInput] != nullptr;
  if (gated) return fail(Code::kInternal, "a gate on a convolution that is not pointwise");
  direct_ = transposed_ || inputs_ * window_.taps() < kFewChannels || inputs_ == 1 || outputs_ < kFewChannels;
  const int64_t results = y.count();
  if (!direct_) {
    pack_columns(node, 1, groups_, outputs_, k_, &packed_);
    tile_ = choose_tile(device, outputs_, images_ * pixels, groups_);
    parts_ = choose_parts(device, groups_ * tile_.count(outputs_, images_ * pixels), k_, results);
    *workspace = parts_.count > 1 ? parts_.count * results * 4 : 0;
    if (parts_.count > 1)
      MINNOW_RETURN_IF_ERROR(finish_.prepare(node, activation_, results, parts_.count, pixels, y[1]));
  } else {
    parts_ = Parts();
    packed_.clear();
  }
  scheme_ = transposed_ ? "transposed" : !direct_ ? "implicit_gemm" : inputs_ == 1 ? "depthwise" : "direct";
  const std::string text = transposed_ ? "dense_conv_transposed"
                           : direct_   ? "dense_conv_direct"
                                       : std::string("dense_conv") + tile_.suffix;
  const bool whole = parts_.count == 1;
  return device.program(text.c_str(),
                        {{"TYPE_X", type_of(node, 0)},
                         {"TYPE_W", type_of(node, 1)},
                         {"TYPE_BIAS", type_of(node, 2)},
                         {"TYPE_Y", whole ? type_of(node.out[0]->dtype) : type_of(DType::kF32)},
                         {"ACTIVATION", whole ? activation_.kind : 0},
                         {"KERNEL_D", window_.kernel(0)},
                         {"KERNEL_H", window_.kernel(1)},
                         {"KERNEL_W", window_.kernel(2)}},
                        &program_);
}

Status ConvKernel::enqueue(const RunContext& context, Stream& stream) {
  const int64_t results = context.out[0]->count();
  if (results == 0) return ok();
  if (pointwise_) return product_.enqueue(context, stream, kGateInput);
  const bool whole = parts_.count == 1;
  const void* y = whole ? context.out[0]->data : context.workspace;
  int32_t flags = 0;
  if (whole && input_data(context, 2) != nullptr) flags |= kBiasOfColumn;
  if (whole && input_data(context, 3) != nullptr) flags |= kResidual;
  Arguments arguments;
  for (size_t i = 0; i < 4; ++i)
    arguments.buffer(i == 1 && !packed_.empty() ? packed_.data() : input_or(context, i, y));
  arguments.buffer(y);
  window_.add_to(&arguments);
  for (int64_t v : {images_, inputs_, outputs_, groups_}) arguments.add(to_i32(v));
  arguments.add(flags);
  int64_t launched = groups_for(results, program_->text.group);
  if (!direct_) {
    arguments.add(to_i32(parts_.count)).add(to_i32(parts_.k));
    launched = groups_ * tile_.count(outputs_, images_ * window_.pixels()) * parts_.count;
  }
  arguments.add(activation_.alpha).add(activation_.beta);
  if (!direct_) {
    arguments.add(to_i32(packed_.empty() ? k_ : 1)).add(to_i32(packed_.empty() ? 1 : outputs_));
  }
  MINNOW_RETURN_IF_ERROR(stream.launch(*program_, arguments, {std::min<int64_t>(launched, 65535)}));
  return whole ? ok() : finish_.enqueue(context, stream);
}

std::unique_ptr<Kernel> create_gpu_conv(const NodeContext&) { return std::make_unique<ConvKernel>(false); }
std::unique_ptr<Kernel> create_gpu_conv_transpose(const NodeContext&) { return std::make_unique<ConvKernel>(true); }

bool supports_gpu_conv(const NodeContext& node, std::string* why) {
  if (node.in.size() <= kMoreInput || node.in[kMoreInput] == nullptr) return has_types(node, kFloats, why);
  *why = "convolves one image";
  return false;
}

}  // namespace

MINNOW_GPU_KERNEL("Conv", create_gpu_conv, supports_gpu_conv);
MINNOW_GPU_KERNEL("ConvTranspose", create_gpu_conv_transpose, supports_gpu_conv);

}  // namespace minnow::gpu
