// The op DeformConv.
#include <algorithm>

#include "kernels/gpu/dense/layer.h"
#include "kernels/gpu/dense/window_arguments.h"

namespace minnow::gpu {
namespace {

class DeformConvKernel final : public GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const Shape &x = node.in[0]->shape, &w = node.in[1]->shape, &y = node.out[0]->shape;
    WindowArguments window;
    MINNOW_RETURN_IF_ERROR(window.read_conv(node));
    const Window& v = window.window();
    const int64_t groups = node.attrs.i("group", 1);
    numbers_ = {x[2],
                x[3],
                y[2],
                y[3],
                w[2],
                w[3],
                v.stride[1],
                v.stride[2],
                v.dilation[1],
                v.dilation[2],
                v.begin[1],
                v.begin[2],
                x[0],
                x[1] / groups,
                y[1] / groups,
                groups,
                node.attrs.i("offset_group", 1)};
    return device_of(node).program("dense_conv_deformable",
                                   {{"TYPE_X", type_of(node, 0)},
                                    {"TYPE_W", type_of(node, 1)},
                                    {"TYPE_OFFSET", type_of(node, 2)},
                                    {"TYPE_BIAS", type_of(node, 3)},
                                    {"TYPE_MASK", type_of(node, 4)},
                                    {"TYPE_Y", type_of(node.out[0]->dtype)}},
                                   &program_);
  }
  Status enqueue(const RunContext& context, Stream& stream) override {
    const int64_t n = context.out[0]->count();
    if (n == 0) return ok();
    const void* y = context.out[0]->data;
    Arguments arguments;
    for (size_t i = 0; i < 5; ++i) arguments.buffer(input_or(context, i, y));
    arguments.buffer(y);
    for (int64_t v : numbers_) arguments.add(to_i32(v));
    arguments.add((input_data(context, 3) != nullptr ? 1 : 0) | (input_data(context, 4) != nullptr ? 2 : 0));
    return stream.launch(*program_, arguments, {std::min<int64_t>(groups_for(n, program_->text.group), 65535)});
  }

 private:
  std::vector<int64_t> numbers_;
  const Program* program_ = nullptr;
};

std::unique_ptr<Kernel> create_gpu_deform_conv(const NodeContext&) { return std::make_unique<DeformConvKernel>(); }

bool supports_gpu_deform_conv(const NodeContext& node, std::string* why) {
  if (node.precision == Precision::kLow) {
    *why = "does not move taps in precision \"low\", in which their places have too few bits";
    return false;
  }
  return has_types(node, kFloats, why);
}

}  // namespace

MINNOW_GPU_KERNEL("DeformConv", create_gpu_deform_conv, supports_gpu_deform_conv);

}  // namespace minnow::gpu
