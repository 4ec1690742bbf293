// Softmax and normalization.
#include <algorithm>

#include "kernels/core/infer.h"
#include "kernels/gpu/dense/layer.h"

namespace minnow::gpu {
namespace {

bool supports_floats(const NodeContext& node, std::string* why) { return has_types(node, kFloats, why); }

class SoftmaxKernel final : public GpuKernel {
 public:
  explicit SoftmaxKernel(bool logarithm) : logarithm_(logarithm) {}

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const Shape& x = node.in[0]->shape;
    int axis = 0;
    MINNOW_RETURN_IF_ERROR(normalize_axis(node.attrs.i("axis", -1), x.rank(), &axis));
    n_ = x[axis];
    inner_ = x.count(axis + 1, x.rank());
    rows_ = x.count(0, axis) * inner_;
    wide_ = n_ >= 32 && (inner_ == 1 || rows_ < 1024);
    return device_of(node).program("dense_softmax",
                                   {{"TYPE_X", type_of(node, 0)},
                                    {"TYPE_Y", type_of(node.out[0]->dtype)},
                                    {"WIDE", wide_ ? 1 : 0},
                                    {"LOGARITHM", logarithm_ ? 1 : 0}},
                                   &program_);
  }
  Status enqueue(const RunContext& context, Stream& stream) override {
    if (rows_ == 0 || n_ == 0) return ok();
    Arguments arguments;
    arguments.buffer(context.in[0]->data).buffer(context.out[0]->data);
    arguments.add(to_i32(rows_)).add(to_i32(n_)).add(to_i32(inner_));
    const int64_t groups = wide_ ? rows_ : groups_for(rows_, program_->text.group);
    return stream.launch(*program_, arguments, {std::min<int64_t>(groups, 65535)});
  }

 private:
  const bool logarithm_;
  bool wide_ = false;
  int64_t rows_ = 0, n_ = 0, inner_ = 1;
  const Program* program_ = nullptr;
};

template <bool Logarithm>
std::unique_ptr<Kernel> create_gpu_softmax(const NodeContext&) {
  return std::make_unique<SoftmaxKernel>(Logarithm);
}

enum class RowNorm { kLayer, kRms, kInstance, kGroup };

class NormKernel final : public GpuKernel {
 public:
  explicit NormKernel(RowNorm kind) : kind_(kind) {}

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const Shape& x = node.in[0]->shape;
    epsilon_ = static_cast<float>(node.attrs.f("epsilon", 1e-5));
    period_ = row_scales_ = inner_ = 1;
    if (kind_ == RowNorm::kLayer || kind_ == RowNorm::kRms) {
      int axis = 0;
      MINNOW_RETURN_IF_ERROR(normalize_axis(node.attrs.i("axis", -1), x.rank(), &axis));
      n_ = x.count(axis, x.rank());
      rows_ = x.count(0, axis);
    } else {
      const int64_t groups = kind_ == RowNorm::kInstance ? x[1] : node.attrs.i("num_groups", 1);
      period_ = std::max<int64_t>(groups, 1);
      row_scales_ = x[1] / period_;
      inner_ = x.count(2, x.rank());
      rows_ = x[0] * groups;
      n_ = row_scales_ * inner_;
    }
    for (size_t i : {1, 2}) parameters_[i - 1] = i < node.in.size() && node.in[i] != nullptr ? node.in[i]->count() : 0;
    return device_of(node).program("dense_norm",
                                   {{"TYPE_X", type_of(node, 0)},
                                    {"TYPE_SCALE", type_of(node, 1)},
                                    {"TYPE_BIAS", type_of(node, 2)},
                                    {"TYPE_Y", type_of(node.out[0]->dtype)},
                                    {"RMS", kind_ == RowNorm::kRms ? 1 : 0}},
                                   &program_);
  }
  Status enqueue(const RunContext& context, Stream& stream) override {
    if (rows_ * n_ == 0) return ok();
    void* y = context.out[0]->data;
    Arguments arguments;
    arguments.buffer(context.in[0]->data).buffer(input_or(context, 1, y)).buffer(input_or(context, 2, y)).buffer(y);
    for (int64_t v : {rows_, n_, period_, row_scales_, inner_, std::max<int64_t>(parameters_[0], 1)})
      arguments.add(to_i32(v));
    arguments.add((parameters_[0] > 0 ? 1 : 0) | (parameters_[1] > 0 ? 2 : 0));
    arguments.add(to_i32(std::max<int64_t>(parameters_[1], 1))).add(epsilon_);
    return stream.launch(*program_, arguments, {std::min<int64_t>(rows_, 65535)});
  }

 private:
  const RowNorm kind_;
  int64_t rows_ = 0, n_ = 0, period_ = 1, row_scales_ = 1, inner_ = 1, parameters_[2] = {0, 0};
  float epsilon_ = 0;
  const Program* program_ = nullptr;
};

template <RowNorm Kind>
std::unique_ptr<Kernel> create_gpu_norm(const NodeContext&) {
  return std::make_unique<NormKernel>(Kind);
}

// Scales that are repeated as a whole.
bool supports_layer_norm(const NodeContext& node, std::string* why) {
  const Shape& x = node.in[0]->shape;
  for (size_t i = 1; i < node.in.size(); ++i) {
    if (node.in[i] == nullptr || node.in[i]->count() == 1) continue;
    const Shape& own = node.in[i]->shape;
    int known = 1;
    while (known <= own.rank() && known <= x.rank() && own.at(-known) == x.at(-known)) ++known;
    if (own.count(0, std::max(0, own.rank() - known + 1)) == 1) continue;
    *why = "normalizes with scales and biases of the last axes only";
    return false;
  }
  return has_types(node, kFloats, why);
}

class ChannelNormKernel final : public GpuKernel {
 public:
  explicit ChannelNormKernel(bool statistics) : statistics_(statistics) {}

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const Shape& x = node.in[0]->shape;
    channels_ = x.rank() > 1 ? x[1] : 1;
    inner_ = x.rank() > 1 ? x.count(2, x.rank()) : x.count();
    epsilon_ = static_cast<float>(node.attrs.f("epsilon", 1e-5));
    return device_of(node).program("dense_channel_norm",
                                   {{"TYPE_X", type_of(node, 0)},
                                    {"TYPE_C", type_of(node, 1)},
                                    {"TYPE_Y", type_of(node.out[0]->dtype)},
                                    {"STATISTICS", statistics_ ? 1 : 0}},
                                   &program_);
  }
  Status enqueue(const RunContext& context, Stream& stream) override {
    const int64_t n = context.out[0]->count();
    if (n == 0) return ok();
    Arguments arguments;
    void* y = context.out[0]->data;
    for (size_t i = 0; i < 5; ++i) arguments.buffer(input_or(context, i, y));
    arguments.buffer(y).add(to_i32(n)).add(to_i32(channels_)).add(to_i32(inner_)).add(epsilon_);
    return stream.launch(*program_, arguments, {std::min<int64_t>(groups_for(n, program_->text.group), 65535)});
  }

 private:
  const bool statistics_;
  int64_t channels_ = 1, inner_ = 1;
  float epsilon_ = 0;
  const Program* program_ = nullptr;
};

template <bool Statistics>
std::unique_ptr<Kernel> create_gpu_channel_norm(const NodeContext&) {
  return std::make_unique<ChannelNormKernel>(Statistics);
}

class LrnKernel final : public GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const Shape& x = node.in[0]->shape;
    channels_ = x[1];
    inner_ = x.count(2, x.rank());
    size_ = node.attrs.i("size", 1);
    factor_ = static_cast<float>(node.attrs.f("alpha", 1e-4) / static_cast<double>(size_));
    beta_ = static_cast<float>(node.attrs.f("beta", 0.75));
    bias_ = static_cast<float>(node.attrs.f("bias", 1));
    return device_of(node).program("dense_lrn", {{"TYPE_X", type_of(node, 0)}, {"TYPE_Y", type_of(node.out[0]->dtype)}},
                                   &program_);
  }
  Status enqueue(const RunContext& context, Stream& stream) override {
    const int64_t n = context.out[0]->count();
    if (n == 0) return ok();
    Arguments arguments;
    arguments.buffer(context.in[0]->data).buffer(context.out[0]->data);
    for (int64_t v : {n, channels_, inner_, size_}) arguments.add(to_i32(v));
    arguments.add(factor_).add(beta_).add(bias_);
    return stream.launch(*program_, arguments, {std::min<int64_t>(groups_for(n, program_->text.group), 65535)});
  }

 private:
  int64_t channels_ = 1, inner_ = 1, size_ = 1;
  float factor_ = 0, beta_ = 0, bias_ = 0;
  const Program* program_ = nullptr;
};

std::unique_ptr<Kernel> create_gpu_lrn(const NodeContext&) { return std::make_unique<LrnKernel>(); }

}  // namespace

MINNOW_GPU_KERNEL("Softmax", create_gpu_softmax<false>, supports_floats);
MINNOW_GPU_KERNEL("LogSoftmax", create_gpu_softmax<true>, supports_floats);
MINNOW_GPU_KERNEL("LayerNorm", create_gpu_norm<RowNorm::kLayer>, supports_layer_norm);
MINNOW_GPU_KERNEL("RMSNorm", create_gpu_norm<RowNorm::kRms>, supports_layer_norm);
MINNOW_GPU_KERNEL("InstanceNorm", create_gpu_norm<RowNorm::kInstance>, supports_floats);
MINNOW_GPU_KERNEL("GroupNorm", create_gpu_norm<RowNorm::kGroup>, supports_floats);
MINNOW_GPU_KERNEL("BatchNorm", create_gpu_channel_norm<true>, supports_floats);
MINNOW_GPU_KERNEL("Scale", create_gpu_channel_norm<false>, supports_floats);
MINNOW_GPU_KERNEL("LRN", create_gpu_lrn, supports_floats);

}  // namespace minnow::gpu
