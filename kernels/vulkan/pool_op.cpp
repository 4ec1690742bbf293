// MaxPool, AveragePool and the pooling of whole images, with channels last.
#include "kernels/gpu/dense/layer.h"
#include "kernels/gpu/dense/window_arguments.h"
#include "kernels/gpu/uploaded.h"
#include "kernels/vulkan/constants.h"
#include "kernels/vulkan/device_table.h"

namespace minnow::vulkan {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 31;
constexpr int64_t kManyPixels = 1024;  // a work-group reads so many for few channels at a time

bool is_image(const NodeContext& node, std::string* why) {
  const TensorType& x = *node.in[0];
  if (!is_kernel_float(x.dtype) || node.out[0]->dtype != x.dtype) {
    *why = std::string("pools no ") + dtype_name(x.dtype) + " in this layout";
  } else if (x.shape.rank() != 3 && x.shape.rank() != 4) {
    *why = "pools images of one or two axes in this layout";
  } else if (x.count() >= kMostElements || x.count() == 0) {
    *why = "computes tensors of less than 2^31 elements";
  } else {
    return true;
  }
  return false;
}

bool supports_pool(const NodeContext& node, std::string* why) {
  if (node.out.size() > 1 && node.out[1] != nullptr) {
    *why = "gives no places of the largest elements in this layout";
    return false;
  }
  return is_image(node, why);
}

template <bool Maximum>
class PoolKernel final : public gpu::GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const TensorType& x = *node.in[0];
    gpu::WindowArguments window;
    MINNOW_RETURN_IF_ERROR(window.read_pool(node));
    const Window& w = window.window();
    const std::array<int64_t, 3>&in = window.in(), &out = window.out();
    const int64_t channels = round_channels(x.shape[1]);
    const bool with_pad = node.attrs.b("count_include_pad");
    items_ = x.shape[0] * out[1] * out[2] * (channels / 8);
    numbers_ = {channels,
                in[1],
                in[2],
                out[1],
                out[2],
                w.kernel[1],
                w.kernel[2],
                w.stride[1],
                w.stride[2],
                w.dilation[1],
                w.dilation[2],
                w.begin[1],
                w.begin[2],
                in[1] + (with_pad ? w.end[1] : 0),
                in[2] + (with_pad ? w.end[2] : 0),
                with_pad ? 1 : 0,
                items_};
    return gpu::device_of(node).program("window_pool", {{"TYPE", gpu::type_of(x.dtype)}, {"MEAN", Maximum ? 0 : 1}},
                                        &program_);
  }
  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    if (items_ == 0) return ok();
    gpu::Arguments arguments;
    arguments.buffer(context.in[0]->data).buffer(context.out[0]->data);
    for (int64_t v : numbers_) arguments.add(gpu::to_i32(v));
    return stream.launch(*program_, arguments, gpu::groups_of(*program_, items_));
  }
  Profile profile() const override { return {"channels_last"}; }

 private:
  const gpu::Program* program_ = nullptr;
  std::vector<int64_t> numbers_;
  int64_t items_ = 0;
};

template <bool Maximum>
class WholePoolKernel final : public gpu::GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const TensorType& x = *node.in[0];
    images_ = x.shape[0];
    channels_ = round_channels(x.shape[1]);
    pixels_ = x.shape.count(2, x.shape.rank());
    side_ = pixels_ >= kManyPixels ? 1 : 8;
    return gpu::device_of(node).program(
        "whole_pool", {{"TYPE", gpu::type_of(x.dtype)}, {"MEAN", Maximum ? 0 : 1}, {"SIDE", gpu::to_i32(side_)}},
        &program_);
  }
  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    gpu::Arguments arguments;
    arguments.buffer(context.in[0]->data).buffer(context.out[0]->data);
    arguments.add(gpu::to_i32(channels_)).add(gpu::to_i32(pixels_)).add(gpu::to_i32(images_));
    const int64_t groups = images_ * gpu::groups_for(channels_ / 8, side_);
    return stream.launch(*program_, arguments, {std::min<int64_t>(groups, 65535)});
  }
  Profile profile() const override { return {"channels_last"}; }

 private:
  const gpu::Program* program_ = nullptr;
  int64_t images_ = 0, channels_ = 0, pixels_ = 0, side_ = 1;
};

template <class Kind>
std::unique_ptr<Kernel> create(const NodeContext&) {
  return std::make_unique<Kind>();
}

}  // namespace

MINNOW_VULKAN_KERNEL("MaxPool", create<PoolKernel<true>>, supports_pool, LayoutRule::kPacked);
MINNOW_VULKAN_KERNEL("AveragePool", create<PoolKernel<false>>, supports_pool, LayoutRule::kPacked);
MINNOW_VULKAN_KERNEL("GlobalMaxPool", create<WholePoolKernel<true>>, is_image, LayoutRule::kPacked);
MINNOW_VULKAN_KERNEL("GlobalAveragePool", create<WholePoolKernel<false>>, is_image, LayoutRule::kPacked);

}  // namespace minnow::vulkan
