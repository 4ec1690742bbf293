// Pooling. GlobalAveragePool and its like are reductions (reduce.cpp).
#include <algorithm>

#include "kernels/gpu/dense/layer.h"
#include "kernels/gpu/dense/window_arguments.h"

namespace minnow::gpu {
namespace {

enum PoolMode : int32_t { kMaxPool = 0, kMeanPool = 1, kNormPool = 2 };

class PoolKernel final : public GpuKernel {
 public:
  explicit PoolKernel(PoolMode mode) : mode_(mode) {}

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const Shape& x = node.in[0]->shape;
    MINNOW_RETURN_IF_ERROR(window_.read_pool(node));
    with_pad_ = node.attrs.b("count_include_pad");
    p_ = static_cast<float>(node.attrs.i("p", 2));
    planes_ = x[0] * x[1];
    places_ = node.out.size() > 1 && node.out[1] != nullptr;
    return device_of(node).program("dense_pool",
                                   {{"TYPE_X", type_of(node, 0)},
                                    {"TYPE_Y", type_of(node.out[0]->dtype)},
                                    {"MODE", mode_},
                                    {"PLACES", places_ ? 1 : 0}},
                                   &program_);
  }
  Status enqueue(const RunContext& context, Stream& stream) override {
    Arguments arguments;
    void* y = context.out[0]->data;
    arguments.buffer(context.in[0]->data).buffer(y).buffer(places_ ? context.out[1]->data : y);
    window_.add_to(&arguments);
    const Window& w = window_.window();
    for (int64_t v : w.kernel) arguments.add(to_i32(v));
    for (size_t i = 0; i < 3; ++i) arguments.add(to_i32(window_.in()[i] + (with_pad_ ? w.end[i] : 0)));
    arguments.add(with_pad_ ? 1 : 0).add(to_i32(planes_)).add(p_);
    const int64_t groups = groups_for(context.out[0]->count(), program_->text.group);
    return stream.launch(*program_, arguments, {std::min<int64_t>(groups, 65535)});
  }

 private:
  const PoolMode mode_;
  WindowArguments window_;
  bool with_pad_ = false, places_ = false;
  float p_ = 2;
  int64_t planes_ = 0;
  const Program* program_ = nullptr;
};

template <PoolMode Mode>
std::unique_ptr<Kernel> create_gpu_pool(const NodeContext&) {
  return std::make_unique<PoolKernel>(Mode);
}

bool supports_gpu_pool(const NodeContext& node, std::string* why) {
  NodeContext first = node;
  first.out.resize(1);  // the places are i64
  return has_types(first, kFloats, why);
}

bool supports_gpu_max_pool(const NodeContext& node, std::string* why) {
  NodeContext first = node;
  first.out.resize(1);
  return has_types(
      first, {DType::kF32, DType::kF16, DType::kBF16, DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32},
      why);
}

}  // namespace

MINNOW_GPU_KERNEL("MaxPool", create_gpu_pool<kMaxPool>, supports_gpu_max_pool);
MINNOW_GPU_KERNEL("AveragePool", create_gpu_pool<kMeanPool>, supports_gpu_pool);
MINNOW_GPU_KERNEL("LpPool", create_gpu_pool<kNormPool>, supports_gpu_pool);

}  // namespace minnow::gpu
