// Softmax, LogSoftmax, LayerNorm, RMSNorm, and the norms of channels.
#include "kernels/cuda/constants.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/group_norm.h"
#include "kernels/cuda/rows.h"

namespace minnow::cuda {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 31;

bool is_small_float(const NodeContext& node, std::string* why) {
  const TensorType& x = *node.in[0];
  if (!is_kernel_float(x.dtype)) {
    *why = std::string("computes no ") + dtype_name(x.dtype);
  } else if (x.count() >= kMostElements) {
    *why = "computes tensors of less than 2^31 elements";
  } else {
    return true;
  }
  return false;
}

int axis_of(const NodeContext& node, int rank) {
  const int64_t axis = node.attrs.i("axis", -1);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

bool supports_softmax(const NodeContext& node, std::string* why) { return is_small_float(node, why); }

class SoftmaxKernel final : public gpu::GpuKernel {
 public:
  explicit SoftmaxKernel(bool log) : log_(log) {}

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const TensorType& x = *node.in[0];
    const int rank = x.shape.rank(), axis = axis_of(node, rank);
    p_ = Softmax();
    p_.dtype = x.dtype;
    p_.log = log_;
    if (rank == 0) {
      p_.outer = p_.length = p_.inner = 1;
      return ok();
    }
    if (axis < 0 || axis >= rank) return fail(Code::kFormat, "axis %d of rank %d", axis, rank);
    p_.outer = x.shape.count(0, axis);
    p_.length = x.shape[axis];
    p_.inner = x.shape.count(axis + 1, rank);
    return ok();
  }
  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    Softmax p = p_;
    p.x = context.in[0]->data;
    p.y = context.out[0]->data;
    return check(softmax(p, target_of(stream)), "to compute the softmax");
  }

 private:
  const bool log_;
  Softmax p_;
};

template <bool log>
std::unique_ptr<Kernel> create_softmax(const NodeContext&) {
  return std::make_unique<SoftmaxKernel>(log);
}

// Scale and bias: constants become f32, others are read as they are, in their whole size.
class Parameters {
 public:
  void reshape(const NodeContext& node, const Shape& shape) {
    for (size_t i : {size_t{1}, size_t{2}}) {
      const Tensor* constant = constant_of(node, i);
      is_constant_[i] = constant != nullptr;
      if (constant == nullptr) continue;
      own_[i].make(node, {i}, "f32" + shape.str(), 4 * shape.count(), [&](void* to) {
        store_floats(stretched_floats(*constant, shape).data(), shape.count(), DType::kF32, to);
      });
    }
  }
  bool reads(int i) const { return i != 1 && i != 2 ? true : !is_constant_[static_cast<size_t>(i)]; }
  // All are of this type.
  DType dtype(DType of_x) const { return is_constant_[1] || is_constant_[2] ? DType::kF32 : of_x; }
  const void* data(const RunContext& context, size_t i) const {
    return is_constant_[i] ? own_[i].as<void>() : data_of(context, i);
  }

 private:
  Packed own_[3];
  bool is_constant_[3] = {};
};

// Whether those of a node can be: of both kinds at once only where that is one type.
bool fits_parameters(const NodeContext& node, int64_t count, std::string* why) {
  bool constant = false, other = false;
  for (size_t i : {size_t{1}, size_t{2}}) {
    if (!has_input(node, i)) continue;
    const bool is_constant = constant_of(node, i) != nullptr;
    (is_constant ? constant : other) = true;
    if (!is_constant && node.in[i]->shape.count() != count) {
      *why = "takes a scale and a bias that are not constant in their whole size only";
      return false;
    }
  }
  if (constant && other) *why = "takes a scale and a bias that are both constant, or neither";
  return !(constant && other);
}

bool supports_norm(const NodeContext& node, std::string* why) {
  const Shape& x = node.in[0]->shape;
  const int axis = axis_of(node, x.rank());
  return is_small_float(node, why) && fits_parameters(node, x.count(axis, x.rank()), why);
}

class NormKernel final : public gpu::GpuKernel {
 public:
  explicit NormKernel(bool centered) : centered_(centered) {}

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const TensorType& x = *node.in[0];
    const int rank = x.shape.rank(), axis = axis_of(node, rank);
    if (axis < 0 || axis >= rank) return fail(Code::kFormat, "axis %d of rank %d", axis, rank);
    Shape tail;
    for (int i = axis; i < rank; ++i) tail.push_back(x.shape[i]);
    parameters_.reshape(node, tail);
    p_ = RowNorm();
    p_.dtype = x.dtype;
    p_.parameter_dtype = parameters_.dtype(x.dtype);
    p_.centered = centered_;
    p_.rows = x.shape.count(0, axis);
    p_.length = tail.count();
    p_.epsilon = static_cast<float>(node.attrs.f("epsilon", 1e-5));
    p_.constant_parameters =
        (!has_input(node, 1) || !parameters_.reads(1)) && (!has_input(node, 2) || !parameters_.reads(2));
    return ok();
  }
  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    RowNorm p = p_;
    p.x = context.in[0]->data;
    p.y = context.out[0]->data;
    p.scale = parameters_.data(context, 1);
    p.bias = parameters_.data(context, 2);
    return check(row_norm(p, target_of(stream)), "to normalize rows");
  }
  bool reads(int i) const override { return parameters_.reads(i); }

 private:
  const bool centered_;
  Parameters parameters_;
  RowNorm p_;
};

template <bool centered>
std::unique_ptr<Kernel> create_norm(const NodeContext&) {
  return std::make_unique<NormKernel>(centered);
}

constexpr int64_t kMostChannels = 4096;

bool supports_group(const NodeContext& node, std::string* why) {
  if (!is_small_float(node, why) || !fits_parameters(node, node.in[0]->shape[1], why)) return false;
  if (node.in[0]->shape[1] <= kMostChannels) return true;
  *why = "normalizes images of " + std::to_string(kMostChannels) + " channels or fewer";
  return false;
}

class GroupKernel final : public gpu::GpuKernel {
 public:
  explicit GroupKernel(bool instance) : instance_(instance) {}

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const TensorType& x = *node.in[0];
    const int64_t channels = x.shape[1], groups = instance_ ? channels : node.attrs.i("num_groups");
    const int64_t pixels = x.shape.count(2, x.shape.rank());
    parameters_.reshape(node, Shape{channels});
    const auto epsilon = static_cast<float>(node.attrs.f("epsilon", 1e-5));
    is_empty_ = x.count() == 0;
    if (is_empty_) return ok();
    channels_last_ = x.layout == Layout::kPacked;
    group_ = GroupNorm();
    group_.dtype = x.dtype;
    group_.parameter_dtype = parameters_.dtype(x.dtype);
    group_.images = static_cast<int>(x.shape[0]);
    group_.pixels = static_cast<int>(pixels);
    group_.channels = static_cast<int>(channels);
    group_.groups = static_cast<int>(groups);
    group_.epsilon = epsilon;
    if (channels_last_) *workspace = group_norm_workspace(group_);
    row_ = RowNorm();
    row_.dtype = x.dtype;
    row_.parameter_dtype = group_.parameter_dtype;
    row_.rows = x.shape[0] * groups;
    row_.row_channels = channels / groups;
    row_.length = row_.row_channels * pixels;
    row_.channel_size = pixels;
    row_.channels = channels;
    row_.epsilon = epsilon;
    return ok();
  }
  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    if (is_empty_) return ok();
    const void *scale = parameters_.data(context, 1), *bias = parameters_.data(context, 2);
    if (channels_last_) {
      GroupNorm p = group_;
      p.x = context.in[0]->data;
      p.y = context.out[0]->data;
      p.scale = scale;
      p.bias = bias;
      p.workspace = static_cast<float*>(context.workspace);
      return check(group_norm(p, target_of(stream)), "to normalize groups of channels");
    }
    RowNorm p = row_;
    p.x = context.in[0]->data;
    p.y = context.out[0]->data;
    p.scale = scale;
    p.bias = bias;
    return check(row_norm(p, target_of(stream)), "to normalize groups of channels");
  }
  bool reads(int i) const override { return parameters_.reads(i); }
  Profile profile() const override { return {channels_last_ ? "channels_last" : "rows"}; }

 private:
  const bool instance_;
  Parameters parameters_;
  bool channels_last_ = false, is_empty_ = false;
  GroupNorm group_;
  RowNorm row_;
};

template <bool instance>
std::unique_ptr<Kernel> create_group(const NodeContext&) {
  return std::make_unique<GroupKernel>(instance);
}

}  // namespace

MINNOW_CUDA_KERNEL("Softmax", create_softmax<false>, supports_softmax, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_CUDA_KERNEL("LogSoftmax", create_softmax<true>, supports_softmax, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_CUDA_KERNEL("LayerNorm", create_norm<true>, supports_norm, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_CUDA_KERNEL("RMSNorm", create_norm<false>, supports_norm, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_CUDA_KERNEL("InstanceNorm", create_group<true>, supports_group, LayoutRule::kFollow, /*in_place=*/true);
MINNOW_CUDA_KERNEL("GroupNorm", create_group<false>, supports_group, LayoutRule::kFollow, /*in_place=*/true);

}  // namespace minnow::cuda
