// Resize. Tables of elements and weights are made on the host for each axis that changes; a launch applies two of them.
#include "kernels/gpu/resize.h"

#include <algorithm>
#include <array>

namespace minnow::gpu {
namespace {

using Mode = ResizeSettings::Mode;
using Coordinate = ResizeSettings::Coordinate;

bool is_given(const NodeContext& node, size_t i) {
  return i < node.in.size() && node.in[i] != nullptr && node.in[i]->count() > 0;
}

float f32_at(const Tensor& t, int64_t i) { return t.as<float>()[i]; }

}  // namespace

bool supports_resize(const NodeContext& node, std::string* why) {
  ResizeSettings settings;
  const Status status = read_resize_settings(node.attrs, &settings);
  if (!status.ok()) {
    *why = status.message();
    return false;
  }
  const DType dtype = node.in[0]->dtype;
  const bool moves = settings.mode == Mode::kNearest;
  for (const TensorType* type : {node.in[0], node.out[0]})
    if (type->count() >= int64_t{1} << 31) {
      *why = "computes tensors of less than 2^31 elements";
      return false;
    }
  if ((!moves || settings.coordinate == Coordinate::kCrop) &&
      (dtype == DType::kF64 || dtype == DType::kI64 || dtype == DType::kU64)) {
    *why = std::string("interpolates and fills no ") + dtype_name(dtype);
    return false;
  }
  // Sizes follow from the types; all else is made into tables before the run.
  const bool crops = settings.coordinate == Coordinate::kCrop;
  for (size_t i : {1, 2, 3}) {
    const bool needed = i == 1   ? crops
                        : i == 2 ? is_given(node, 2)
                                 : settings.aspect != ResizeSettings::Aspect::kStretch || crops;
    if (!needed || !is_given(node, i)) continue;
    if (node.constant[i] == nullptr) {
      *why = std::string("needs constant ") + (i == 1 ? "regions" : i == 2 ? "scales" : "sizes");
      return false;
    }
    if (i < 3 && node.in[i]->dtype != DType::kF32) {
      *why = std::string("takes no ") + (i == 1 ? "regions" : "scales") + " of " + dtype_name(node.in[i]->dtype);
      return false;
    }
  }
  if (!crops) return true;
  int changed = 0;
  for (int k = 0; k < node.in[0]->shape.rank(); ++k) changed += node.in[0]->shape[k] != node.out[0]->shape[k];
  if (changed > 2) *why = "crops no more than two axes";
  return changed <= 2;
}

Status resize_axes(const NodeContext& node, const ResizeSettings& settings, std::array<ResizeAxis, kMaxRank>* axes) {
  const Shape &x = node.in[0]->shape, &y = node.out[0]->shape;
  for (int k = 0; k < x.rank(); ++k)
    (*axes)[static_cast<size_t>(k)] = {x[k], y[k], static_cast<float>(y[k]) / static_cast<float>(x[k]), 0, 1};
  ResizeOperands operands{f32_at};
  const auto constant = [&](size_t i) { return is_given(node, i) ? node.constant[i] : nullptr; };
  operands.roi = constant(1);
  operands.scales = constant(2);
  operands.sizes = constant(3);
  if (operands.scales != nullptr || operands.sizes != nullptr)
    MINNOW_RETURN_IF_ERROR(resolve_resize(node.attrs, settings, x, operands, axes));
  for (int k = 0; k < x.rank(); ++k)
    if ((*axes)[static_cast<size_t>(k)].out != y[k])
      return fail(Code::kInternal, "the operands changed after the shapes were inferred");
  return ok();
}

ResizeTable resize_table(const ResizeSettings& settings, const ResizeAxis& axis) {
  ResizeTable table;
  if (settings.mode != Mode::kNearest && !axis.identity()) {
    table.build(settings, axis);
  } else {
    table.taps = 1;
    for (int64_t i = 0; i < axis.out; ++i)
      table.index.push_back(static_cast<int32_t>(resize_nearest(settings, axis, i)));
    table.weight.assign(static_cast<size_t>(axis.out), 1.0f);
  }
  for (int64_t i = 0; i < axis.out; ++i)
    if (!axis.identity() && resize_outside(settings, axis, resize_coordinate(settings, axis, i)))
      table.index[static_cast<size_t>(i)] = -1;
  return table;
}

Status UploadedAxis::make(Device& device, const ResizeSettings& settings, const ResizeAxis& axis) {
  const ResizeTable table = resize_table(settings, axis);
  in = axis.in;
  out = axis.out;
  taps = table.taps;
  MINNOW_RETURN_IF_ERROR(index.make(device, table.index));
  return settings.mode == Mode::kNearest ? ok() : weight.make(device, table.weight);
}

namespace {

class ResizeKernel final : public GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    device_ = &device_of(node);
    *workspace = 0;
    launches_.clear();
    MINNOW_RETURN_IF_ERROR(read_resize_settings(node.attrs, &settings_));
    x_ = *node.in[0];
    y_ = *node.out[0];
    if (y_.count() == 0) return ok();
    std::array<ResizeAxis, kMaxRank> axes;
    MINNOW_RETURN_IF_ERROR(resize_axes(node, settings_, &axes));
    std::vector<int> changed;
    for (int k = 0; k < x_.shape.rank(); ++k)
      if (!axes[static_cast<size_t>(k)].identity()) changed.push_back(k);
    if (changed.size() > 2 && settings_.coordinate == Coordinate::kCrop)
      return fail(Code::kUnsupported, "%s crops no more than two axes", device_->name().c_str());
    Shape now = x_.shape;
    for (size_t i = 0; i < changed.size(); i += 2) {
      Launch& launch = launches_.emplace_back();
      launch.x = now;
      launch.first = changed[i];
      launch.second = i + 1 < changed.size() ? changed[i + 1] : -1;
      MINNOW_RETURN_IF_ERROR(launch.a.make(*device_, settings_, axes[static_cast<size_t>(launch.first)]));
      const ResizeAxis none;
      const ResizeAxis& other = launch.second < 0 ? none : axes[static_cast<size_t>(launch.second)];
      MINNOW_RETURN_IF_ERROR(launch.b.make(*device_, settings_, other));
      for (int k : {launch.first, launch.second})
        if (k >= 0) now[k] = axes[static_cast<size_t>(k)].out;
      launch.y = now;
      largest_ = std::max(i == 0 ? 0 : largest_, now.count() * 8);
    }
    if (launches_.size() > 1) *workspace = 2 * largest_;
    return ok();
  }

  Status enqueue(const RunContext& context, Stream& stream) override {
    if (y_.count() == 0) return ok();
    const Tensor& x = *context.in[0];
    Tensor& y = *context.out[0];
    if (launches_.empty()) return stream.copy(x.data, y.data, y.type.bytes());
    const void* from = x.data;
    for (size_t i = 0; i < launches_.size(); ++i) {
      const bool last = i + 1 == launches_.size();
      void* to = last ? y.data : static_cast<char*>(context.workspace) + static_cast<int64_t>(i % 2) * largest_;
      // What is between two launches is f32.
      const bool blends = settings_.mode != Mode::kNearest;
      const DType type_x = i > 0 && blends ? DType::kF32 : x_.dtype, type_y = !last && blends ? DType::kF32 : y_.dtype;
      MINNOW_RETURN_IF_ERROR(enqueue(launches_[i], stream, from, type_x, to, type_y));
      from = to;
    }
    return ok();
  }

  Profile profile() const override { return {settings_.mode == Mode::kNearest ? "nearest" : "blend"}; }

 private:
  struct Launch {
    Shape x, y;
    int first = 0, second = -1;  // axes; -1: one of length 1 behind all
    UploadedAxis a, b;
  };

  Status enqueue(const Launch& launch, Stream& stream, const void* x, DType type_x, void* y, DType type_y) {
    const bool blends = settings_.mode != Mode::kNearest;
    const Program* program = nullptr;
    if (blends) {
      MINNOW_RETURN_IF_ERROR(device_->program(
          "resize_blend", {{"TYPE_X", static_cast<int>(type_x)}, {"TYPE_Y", static_cast<int>(type_y)}}, &program));
    } else {
      const int type = static_cast<int>(type_x);
      MINNOW_RETURN_IF_ERROR(device_->program("resize_nearest", {{"TYPE", type}}, &program));
    }
    const int rank = launch.y.rank(), second = launch.second < 0 ? rank : launch.second;
    const int64_t n = launch.y.count();
    const auto middle = static_cast<int32_t>(launch.y.count(launch.first + 1, second));
    const auto inner = static_cast<int32_t>(second == rank ? 1 : launch.y.count(second + 1, rank));
    Arguments arguments;
    arguments.buffer(x).buffer(y).buffer(launch.a.index.data());
    if (blends) arguments.buffer(launch.a.weight.data());
    arguments.buffer(launch.b.index.data());
    if (blends) arguments.buffer(launch.b.weight.data());
    arguments.add(static_cast<int32_t>(n));
    const auto axis = [&](const UploadedAxis& table) {
      arguments.add(static_cast<int32_t>(table.in)).add(static_cast<int32_t>(table.out));
      if (blends) arguments.add(static_cast<int32_t>(table.taps));
    };
    axis(launch.a);
    arguments.add(middle);
    axis(launch.b);
    arguments.add(inner);
    arguments.add(settings_.extrapolation);
    return stream.launch(*program, arguments, groups_of(*program, n));
  }

  Device* device_ = nullptr;
  ResizeSettings settings_;
  TensorType x_, y_;
  std::vector<Launch> launches_;
  int64_t largest_ = 0;  // bytes between two launches
};

}  // namespace

std::unique_ptr<Kernel> create_resize(const NodeContext&) { return std::make_unique<ResizeKernel>(); }

MINNOW_GPU_KERNEL("Resize", create_resize, supports_resize);

}  // namespace minnow::gpu
