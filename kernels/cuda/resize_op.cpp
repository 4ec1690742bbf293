// The op Resize, of images in channels-last layout; the portable kernel computes all others.
#include "kernels/cuda/resize.h"

#include "kernels/cuda/device.h"
#include "kernels/gpu/resize.h"

namespace minnow::cuda {
namespace {

class ResizeKernel final : public gpu::ResizeLastKernel {
  Status prepare(const NodeContext&) override {
    const auto axis_of = [&](const gpu::UploadedAxis& table) {
      Resize::Axis axis;
      axis.in = static_cast<int>(table.in);
      axis.out = static_cast<int>(table.out);
      axis.taps = table.taps;
      axis.index = static_cast<const int*>(table.index.data());
      if (blends_) axis.weight = static_cast<const float*>(table.weight.data());
      return axis;
    };
    r_ = Resize();
    r_.dtype = dtype_;
    r_.images = static_cast<int>(images_);
    r_.channels = static_cast<int>(channels_);
    r_.rows = axis_of(rows_);
    r_.columns = axis_of(columns_);
    r_.outside = outside_;
    return ok();
  }
  Status resize(const RunContext& context, gpu::Stream& stream) const override {
    Resize r = r_;
    r.x = context.in[0]->data;
    r.y = context.out[0]->data;
    return check(cuda::resize(r, target_of(stream)), "to resize");
  }

  Resize r_;
};

std::unique_ptr<Kernel> create(const NodeContext&) { return std::make_unique<ResizeKernel>(); }

}  // namespace

MINNOW_CUDA_KERNEL("Resize", create, gpu::supports_resize_last, LayoutRule::kFollow);

}  // namespace minnow::cuda
