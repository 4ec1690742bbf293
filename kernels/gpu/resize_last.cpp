#include "kernels/gpu/channels_last.h"
#include "kernels/gpu/resize.h"

namespace minnow::gpu {
namespace {

int64_t round_up(int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

Status ResizeLastKernel::reshape(const NodeContext& node, int64_t* workspace) {
  *workspace = 0;
  portable_ = nullptr;
  const TensorType &x = *node.in[0], &y = *node.out[0];
  is_empty_ = y.count() == 0;
  if (x.layout == Layout::kPlain) return plan_portable(node, workspace);
  ResizeSettings settings;
  MINNOW_RETURN_IF_ERROR(read_resize_settings(node.attrs, &settings));
  blends_ = settings.mode != ResizeSettings::Mode::kNearest;
  std::array<ResizeAxis, kMaxRank> axes;
  if (!is_empty_) MINNOW_RETURN_IF_ERROR(resize_axes(node, settings, &axes));
  if (!axes[0].identity() || !axes[1].identity()) return plan_portable(node, workspace);
  if (is_empty_) return ok();
  dtype_ = x.dtype;
  images_ = x.shape[0];
  channels_ = round_channels(x.shape[1]);
  outside_ = settings.extrapolation;
  const bool has_rows = x.shape.rank() == 4;
  Device& device = device_of(node);
  MINNOW_RETURN_IF_ERROR(rows_.make(device, settings, has_rows ? axes[2] : ResizeAxis()));
  MINNOW_RETURN_IF_ERROR(columns_.make(device, settings, axes[has_rows ? 3 : 2]));
  return prepare(node);
}

Status ResizeLastKernel::enqueue(const RunContext& context, Stream& stream) {
  if (portable_ != nullptr) return enqueue_portable(context, stream);
  return is_empty_ ? ok() : resize(context, stream);
}

Profile ResizeLastKernel::profile() const {
  if (portable_ != nullptr) return portable_->profile();
  return {blends_ ? "blend_channels_last" : "nearest_channels_last"};
}

// In plain layout, with conversions before and behind it where that is another one.
Status ResizeLastKernel::plan_portable(const NodeContext& node, int64_t* workspace) {
  std::unique_ptr<Kernel> kernel = create_resize(node);
  portable_.reset(static_cast<GpuKernel*>(kernel.release()));
  x_ = *node.in[0];
  y_ = *node.out[0];
  converts_ = x_.layout != Layout::kPlain;
  x_.layout = y_.layout = Layout::kPlain;
  NodeContext plain = node;
  plain.in[0] = &x_;
  plain.out[0] = &y_;
  MINNOW_RETURN_IF_ERROR(portable_->reshape(plain, workspace));
  if (!converts_) return ok();
  before_ = device_of(node).create_conversion(*node.in[0], x_);
  behind_ = device_of(node).create_conversion(y_, *node.out[0]);
  *workspace += round_up(x_.bytes()) + round_up(y_.bytes());
  return ok();
}

Status ResizeLastKernel::enqueue_portable(const RunContext& context, Stream& stream) {
  if (!converts_) return portable_->enqueue(context, stream);
  if (is_empty_) return ok();
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
    return static_cast<GpuKernel&>(kernel).enqueue(one, stream);
  };
  MINNOW_RETURN_IF_ERROR(convert(*before_, context.in[0], &x));
  MINNOW_RETURN_IF_ERROR(portable_->enqueue(inner, stream));
  return convert(*behind_, &y, context.out[0]);
}

bool supports_resize_last(const NodeContext& node, std::string* why) {
  if (!supports_resize(node, why)) return false;
  const TensorType &x = *node.in[0], &y = *node.out[0];
  const int rank = x.shape.rank();
  if (!is_kernel_float(x.dtype) || x.dtype != y.dtype || (rank != 3 && rank != 4) || x.shape[0] != y.shape[0] ||
      x.shape[1] != y.shape[1]) {
    *why = "resizes images of one or two axes in this layout";
    return false;
  }
  return true;
}

}  // namespace minnow::gpu
