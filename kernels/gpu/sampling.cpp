// GridSample, RoiAlign and MaxRoiPool: images at places that are data.
#include <algorithm>

#include "kernels/gpu/uploaded.h"

namespace minnow::gpu {
namespace {

// What the places are, f16 cannot tell.
bool supports_places(const NodeContext& node, std::string* why) {
  if (node.precision == Precision::kLow && node.in[0]->dtype == DType::kF32) {
    *why = "keeps no places in an image with precision \"low\"";
    return false;
  }
  for (size_t i : {0, 1})
    if (node.in[i]->dtype != DType::kF32) {
      *why = std::string("samples no ") + dtype_name(node.in[i]->dtype);
      return false;
    }
  if (std::max(node.in[0]->count(), node.out[0]->count()) >= int64_t{1} << 31) {
    *why = "computes tensors of less than 2^31 elements";
    return false;
  }
  return true;
}

class GridSample final : public GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    device_ = &device_of(node);
    *workspace = 0;
    const std::string mode = node.attrs.s("mode", "linear"), padding = node.attrs.s("padding", "zeros");
    mode_ = mode == "nearest" ? 0 : mode == "linear" ? 1 : 2;
    padding_ = padding == "zeros" ? 0 : padding == "border" ? 1 : 2;
    aligned_ = node.attrs.b("align_corners", false);
    return ok();
  }

  Status enqueue(const RunContext& context, Stream& stream) override {
    const Shape &x = context.in[0]->shape(), &y = context.out[0]->shape();
    if (y.count() == 0) return ok();
    const int axes = x.rank() - 2;
    const Program* program = nullptr;
    MINNOW_RETURN_IF_ERROR(device_->program("grid_sample",
                                            {{"MODE", mode_},
                                             {"PADDING", padding_},
                                             {"ALIGNED", aligned_ ? 1 : 0},
                                             {"AXES", axes},
                                             {"CHANNELS", kChannels}},
                                            &program));
    const int64_t places = y.count(2, y.rank());
    Arguments arguments;
    arguments.buffer(context.in[0]->data).buffer(context.in[1]->data).buffer(context.out[0]->data);
    for (int64_t number : {places, x[1], x.at(-1), axes > 1 ? x.at(-2) : 1, axes > 2 ? x.at(-3) : 1})
      arguments.add(static_cast<int32_t>(number));
    return stream.launch(*program, arguments, {groups_of(*program, places).x, groups_for(x[1], kChannels), x[0]});
  }

 private:
  static constexpr int kChannels = 16;  // of an item
  Device* device_ = nullptr;
  int mode_ = 1, padding_ = 0;
  bool aligned_ = false;
};

bool supports_grid_sample(const NodeContext& node, std::string* why) {
  const Shape& x = node.in[0]->shape;
  if (!supports_places(node, why)) return false;
  if (groups_for(x[1], 16) > 65535 || x[0] > 65535) *why = "samples no more than 65535 images";
  return groups_for(x[1], 16) <= 65535 && x[0] <= 65535;
}

// Which image a region is of: the first one that is not there.
Status wrong_image(const int32_t* words) {
  return fail(Code::kUsage, "region %d is of image %d; there are %d", words[1], words[2], words[3]);
}

class RoiAlign final : public GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    device_ = &device_of(node);
    *workspace = 0;
    const Attrs& a = node.attrs;
    max_ = a.s("mode", "avg") == "max";
    half_pixel_ = a.s("coordinate_mode", "half_pixel") == "half_pixel";
    ratio_ = static_cast<int32_t>(a.i("sampling_ratio", 0));
    scale_ = static_cast<float>(a.f("spatial_scale", 1));
    return ok();
  }

  Status enqueue(const RunContext& context, Stream& stream) override {
    const Shape &x = context.in[0]->shape(), &y = context.out[0]->shape();
    const int64_t n = y.count();
    if (context.in[2]->count() == 0) return ok();
    const Program* program = nullptr;
    MINNOW_RETURN_IF_ERROR(device_->program("roi_align",
                                            {{"TYPE_IMAGE", static_cast<int>(context.in[2]->type.dtype)},
                                             {"MAX", max_ ? 1 : 0},
                                             {"HALF_PIXEL", half_pixel_ ? 1 : 0}},
                                            &program));
    void* error = nullptr;
    MINNOW_RETURN_IF_ERROR(stream.error_slot(context, wrong_image, &error));
    Arguments arguments;
    arguments.buffer(context.in[0]->data).buffer(context.in[1]->data).buffer(context.in[2]->data);
    arguments.buffer(context.out[0]->data).buffer(error);
    for (int64_t number : {n, y[0], x[0], x[1], x[2], x[3], y[2], y[3], int64_t{ratio_}})
      arguments.add(static_cast<int32_t>(number));
    arguments.add(scale_);
    return stream.launch(*program, arguments, groups_of(*program, std::max(n, y[0])));
  }

 private:
  Device* device_ = nullptr;
  bool max_ = false, half_pixel_ = true;
  int32_t ratio_ = 0;
  float scale_ = 1;
};

class MaxRoiPool final : public GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    device_ = &device_of(node);
    *workspace = 0;
    scale_ = static_cast<float>(node.attrs.f("scale", 1));
    return ok();
  }

  Status enqueue(const RunContext& context, Stream& stream) override {
    const Shape &x = context.in[0]->shape(), &y = context.out[0]->shape();
    const int64_t n = y.count();
    if (y[0] == 0) return ok();
    const Program* program = nullptr;
    MINNOW_RETURN_IF_ERROR(device_->program("roi_pool", {}, &program));
    void* error = nullptr;
    MINNOW_RETURN_IF_ERROR(stream.error_slot(context, wrong_image, &error));
    Arguments arguments;
    arguments.buffer(context.in[0]->data).buffer(context.in[1]->data).buffer(context.out[0]->data).buffer(error);
    for (int64_t number : {n, y[0], x[0], x[1], x[2], x[3], y[2], y[3]}) arguments.add(static_cast<int32_t>(number));
    arguments.add(scale_);
    return stream.launch(*program, arguments, groups_of(*program, std::max(n, y[0])));
  }

 private:
  Device* device_ = nullptr;
  float scale_ = 1;
};

template <typename Kind>
std::unique_ptr<Kernel> create(const NodeContext&) {
  return std::make_unique<Kind>();
}

}  // namespace

MINNOW_GPU_KERNEL("GridSample", create<GridSample>, supports_grid_sample);
MINNOW_GPU_KERNEL("RoiAlign", create<RoiAlign>, supports_places);
MINNOW_GPU_KERNEL("MaxRoiPool", create<MaxRoiPool>, supports_places);

}  // namespace minnow::gpu
