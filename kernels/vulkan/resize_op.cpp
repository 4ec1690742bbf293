// The op Resize, of images with channels last; the portable kernel computes all others.
#include "kernels/gpu/resize.h"

#include "kernels/gpu/dense/layer.h"
#include "kernels/gpu/uploaded.h"
#include "kernels/vulkan/constants.h"
#include "kernels/vulkan/device_table.h"

namespace minnow::vulkan {
namespace {

int64_t round_up(int64_t bytes) { return (bytes + 255) / 256 * 256; }

class ResizeKernel final : public gpu::GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    portable_ = nullptr;
    items_ = 0;
    const TensorType &x = *node.in[0], &y = *node.out[0];
    if (x.layout == Layout::kPlain) return plan_portable(node, workspace);
    MINNOW_RETURN_IF_ERROR(read_resize_settings(node.attrs, &settings_));
    blends_ = settings_.mode != ResizeSettings::Mode::kNearest;
    std::array<ResizeAxis, kMaxRank> axes;
    if (y.count() > 0) MINNOW_RETURN_IF_ERROR(gpu::resize_axes(node, settings_, &axes));
    if (!axes[0].identity() || !axes[1].identity()) return plan_portable(node, workspace);
    if (y.count() == 0) return ok();
    const bool has_rows = x.shape.rank() == 4;
    MINNOW_RETURN_IF_ERROR(make_table(node, has_rows ? axes[2] : ResizeAxis(), &rows_));
    MINNOW_RETURN_IF_ERROR(make_table(node, axes[has_rows ? 3 : 2], &columns_));
    channels_ = round_channels(x.shape[1]);
    items_ = x.shape[0] * rows_.out * columns_.out * (channels_ / 8);
    return gpu::device_of(node).program("resize_last", {{"TYPE", gpu::type_of(x.dtype)}, {"BLENDS", blends_ ? 1 : 0}},
                                        &program_);
  }
  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    if (portable_ != nullptr) return enqueue_portable(context, stream);
    if (items_ == 0) return ok();
    gpu::Arguments arguments;
    arguments.buffer(context.in[0]->data);
    for (const Table* table : {&rows_, &columns_}) arguments.buffer(table->index.data()).buffer(table->weight.data());
    arguments.buffer(context.out[0]->data);
    for (int64_t v : {channels_, rows_.in, columns_.in, rows_.out, columns_.out, rows_.taps, columns_.taps, items_})
      arguments.add(gpu::to_i32(v));
    arguments.add(settings_.extrapolation);
    return stream.launch(*program_, arguments, gpu::groups_of(*program_, items_));
  }
  Profile profile() const override {
    if (portable_ != nullptr) return portable_->profile();
    return {blends_ ? "blend_channels_last" : "nearest_channels_last"};
  }

 private:
  struct Table {
    gpu::Uploaded index, weight;
    int64_t in = 1, out = 1, taps = 1;
  };

  Status make_table(const NodeContext& node, const ResizeAxis& axis, Table* table) const {
    const ResizeTable made = gpu::resize_table(settings_, axis);
    table->in = axis.in;
    table->out = axis.out;
    table->taps = made.taps;
    MINNOW_RETURN_IF_ERROR(table->index.make(gpu::device_of(node), made.index));
    return table->weight.make(gpu::device_of(node), made.weight);
  }

  // In plain layout, with conversions before and behind it where that is another one.
  Status plan_portable(const NodeContext& node, int64_t* workspace) {
    std::unique_ptr<Kernel> kernel = gpu::create_resize(node);
    portable_.reset(static_cast<gpu::GpuKernel*>(kernel.release()));
    x_ = *node.in[0];
    y_ = *node.out[0];
    converts_ = x_.layout != Layout::kPlain;
    x_.layout = y_.layout = Layout::kPlain;
    NodeContext plain = node;
    plain.in[0] = &x_;
    plain.out[0] = &y_;
    MINNOW_RETURN_IF_ERROR(portable_->reshape(plain, workspace));
    if (!converts_) return ok();
    before_ = gpu::device_of(node).create_conversion(*node.in[0], x_);
    behind_ = gpu::device_of(node).create_conversion(y_, *node.out[0]);
    *workspace += round_up(x_.bytes()) + round_up(y_.bytes());
    return ok();
  }
  Status enqueue_portable(const RunContext& context, gpu::Stream& stream) {
    if (!converts_) return portable_->enqueue(context, stream);
    if (y_.count() == 0) return ok();
    char* const space = static_cast<char*>(context.workspace);
    Tensor x{x_, space}, y{y_, space + round_up(x_.bytes())};
    RunContext inner = context;
    inner.in[0] = &x;
    inner.out[0] = &y;
    inner.workspace = space + round_up(x_.bytes()) + round_up(y_.bytes());
    const auto convert = [&](Kernel& kernel, const Tensor* from, Tensor* to) {
      RunContext one;
      one.in = {from};
      one.out = {to};
      return static_cast<gpu::GpuKernel&>(kernel).enqueue(one, stream);
    };
    MINNOW_RETURN_IF_ERROR(convert(*before_, context.in[0], &x));
    MINNOW_RETURN_IF_ERROR(portable_->enqueue(inner, stream));
    return convert(*behind_, &y, context.out[0]);
  }

  ResizeSettings settings_;
  bool blends_ = false;
  Table rows_, columns_;
  int64_t channels_ = 0, items_ = 0;
  const gpu::Program* program_ = nullptr;
  std::unique_ptr<gpu::GpuKernel> portable_;
  std::unique_ptr<Kernel> before_, behind_;
  TensorType x_, y_;  // plain
  bool converts_ = false;
};

std::unique_ptr<Kernel> create(const NodeContext&) { return std::make_unique<ResizeKernel>(); }

bool supports(const NodeContext& node, std::string* why) {
  if (!gpu::supports_resize(node, why)) return false;
  const TensorType &x = *node.in[0], &y = *node.out[0];
  const int rank = x.shape.rank();
  if (!is_kernel_float(x.dtype) || x.dtype != y.dtype || (rank != 3 && rank != 4) || x.shape[0] != y.shape[0] ||
      x.shape[1] != y.shape[1]) {
    *why = "resizes images of one or two axes in this layout";
    return false;
  }
  return true;
}

}  // namespace

MINNOW_VULKAN_KERNEL("Resize", create, supports, LayoutRule::kFollow);

}  // namespace minnow::vulkan
