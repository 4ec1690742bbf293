// The op Resize, of images with channels last; the portable kernel computes all others.
#include "kernels/gpu/dense/layer.h"
#include "kernels/gpu/resize.h"
#include "kernels/vulkan/device_table.h"

namespace minnow::vulkan {
namespace {

class ResizeKernel final : public gpu::ResizeLastKernel {
  Status prepare(const NodeContext& node) override {
    items_ = images_ * rows_.out * columns_.out * (channels_ / 8);
    return gpu::device_of(node).program("resize_last", {{"TYPE", gpu::type_of(dtype_)}, {"BLENDS", blends_ ? 1 : 0}},
                                        &program_);
  }
  Status resize(const RunContext& context, gpu::Stream& stream) const override {
    gpu::Arguments arguments;
    arguments.buffer(context.in[0]->data);
    // The text does not read weights where there are none, but its argument is an address.
    for (const gpu::UploadedAxis* axis : {&rows_, &columns_})
      arguments.buffer(axis->index.data()).buffer(blends_ ? axis->weight.data() : axis->index.data());
    arguments.buffer(context.out[0]->data);
    for (int64_t v : {channels_, rows_.in, columns_.in, rows_.out, columns_.out, int64_t{rows_.taps},
                      int64_t{columns_.taps}, items_})
      arguments.add(gpu::to_i32(v));
    arguments.add(outside_);
    return stream.launch(*program_, arguments, gpu::groups_of(*program_, items_));
  }

  int64_t items_ = 0;
  const gpu::Program* program_ = nullptr;
};

std::unique_ptr<Kernel> create(const NodeContext&) { return std::make_unique<ResizeKernel>(); }

}  // namespace

MINNOW_VULKAN_KERNEL("Resize", create, gpu::supports_resize_last, LayoutRule::kFollow);

}  // namespace minnow::vulkan
