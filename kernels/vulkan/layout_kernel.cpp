#include "kernels/vulkan/layout_kernel.h"

#include "kernels/gpu/dense/layer.h"

namespace minnow::vulkan {
namespace {

class LayoutKernel final : public gpu::GpuKernel {
 public:
  LayoutKernel(gpu::Device& device, DType dtype, bool packs) : packs_(packs) {
    const auto size = gpu::to_i32(static_cast<int64_t>(dtype_size(dtype)));
    compiled_ = device.program("layout", {{"SIZE", size}, {"PACKS", packs_ ? 1 : 0}}, &program_);
  }
  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    const Shape& shape = context.in[0]->type.shape;
    if (shape.count() == 0) return ok();
    MINNOW_RETURN_IF_ERROR(Status(compiled_));
    const int64_t pixels = shape.count(2, shape.rank()), stored = round_channels(shape[1]);
    gpu::Arguments arguments;
    arguments.buffer(context.in[0]->data).buffer(context.out[0]->data);
    for (int64_t v : {shape[0], shape[1], stored, pixels}) arguments.add(gpu::to_i32(v));
    const int64_t tiles = shape[0] * gpu::groups_for(pixels, 32) * gpu::groups_for(stored, 32);
    return stream.launch(*program_, arguments, {std::min<int64_t>(tiles, 65535)});
  }
  Profile profile() const override { return {packs_ ? "pack" : "unpack"}; }

 private:
  const bool packs_;
  const gpu::Program* program_ = nullptr;
  Status compiled_;
};

}  // namespace

std::unique_ptr<Kernel> create_layout_kernel(gpu::Device& device, DType dtype, bool packs) {
  return std::make_unique<LayoutKernel>(device, dtype, packs);
}

}  // namespace minnow::vulkan
