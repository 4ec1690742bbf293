// MaxPool, AveragePool and the pooling of whole images, in channels-last layout.
#include <limits>

#include "kernels/cuda/constants.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/pool.h"
#include "kernels/cuda/window.h"

namespace minnow::cuda {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 31;

bool is_byte(DType t) { return t == DType::kI8 || t == DType::kU8; }

bool is_image(const NodeContext& node, bool bytes, std::string* why) {
  const TensorType& x = *node.in[0];
  if (!is_kernel_float(x.dtype) && !(bytes && is_byte(x.dtype))) {
    *why = std::string("pools no ") + dtype_name(x.dtype) + " in this layout";
  } else if (x.shape.rank() != 3 && x.shape.rank() != 4) {
    *why = "pools images of one or two axes in this layout";
  } else if (x.count() >= kMostElements) {
    *why = "computes tensors of less than 2^31 elements";
  } else {
    return true;
  }
  return false;
}

bool supports_image(const NodeContext& node, std::string* why) { return is_image(node, false, why); }

template <bool maximum>
bool supports_pool(const NodeContext& node, std::string* why) {
  if (node.out.size() > 1 && node.out[1] != nullptr) {
    *why = "gives no places of the largest elements in this layout";
    return false;
  }
  if (node.in[0]->count() == 0 && is_byte(node.in[0]->dtype)) {
    *why = "computes nothing of no elements";
    return false;
  }
  return is_image(node, maximum, why);
}

class PoolKernel final : public gpu::GpuKernel {
 public:
  explicit PoolKernel(bool maximum) : maximum_(maximum) {}

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const TensorType& x = *node.in[0];
    gpu::WindowArguments window;
    MINNOW_RETURN_IF_ERROR(window.read_pool(node));
    p_ = Pool();
    p_.dtype = x.dtype;
    p_.maximum = maximum_;
    p_.images = number(x.shape[0]);
    p_.channels = number(round_channels(x.shape[1]));
    set_image_window(window, &p_);
    p_.pad_y_end = number(window.window().end[1]), p_.pad_x_end = number(window.window().end[2]);
    p_.count_padding = node.attrs.b("count_include_pad");
    return ok();
  }
  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    Pool p = p_;
    p.x = context.in[0]->data;
    p.y = context.out[0]->data;
    const cudaError_t error = is_byte(p.dtype) ? max_pool_bytes(p, target_of(stream)) : pool(p, target_of(stream));
    return check(error, "to pool");
  }
  Profile profile() const override { return {"channels_last"}; }

 private:
  const bool maximum_;
  Pool p_;
};

class GlobalPoolKernel final : public gpu::GpuKernel {
 public:
  explicit GlobalPoolKernel(bool maximum) : maximum_(maximum) {}

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const TensorType& x = *node.in[0];
    p_ = GlobalPool();
    p_.dtype = x.dtype;
    p_.maximum = maximum_;
    p_.images = static_cast<int>(x.shape[0]);
    p_.pixels = static_cast<int>(x.shape.count(2, x.shape.rank()));
    p_.channels = p_.kept_channels = p_.y_stride = static_cast<int>(round_channels(x.shape[1]));
    return ok();
  }
  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    GlobalPool p = p_;
    p.x = context.in[0]->data;
    p.y = context.out[0]->data;
    return check(global_pool(p, target_of(stream)), "to pool");
  }
  Profile profile() const override { return {"channels_last"}; }

 private:
  const bool maximum_;
  GlobalPool p_;
};

template <class Kind, bool maximum>
std::unique_ptr<Kernel> create(const NodeContext&) {
  return std::make_unique<Kind>(maximum);
}

}  // namespace

MINNOW_CUDA_KERNEL("MaxPool", (create<PoolKernel, true>), supports_pool<true>, LayoutRule::kPacked);
MINNOW_CUDA_KERNEL("AveragePool", (create<PoolKernel, false>), supports_pool<false>, LayoutRule::kPacked);
MINNOW_CUDA_KERNEL("GlobalMaxPool", (create<GlobalPoolKernel, true>), supports_image, LayoutRule::kPacked);
MINNOW_CUDA_KERNEL("GlobalAveragePool", (create<GlobalPoolKernel, false>), supports_image, LayoutRule::kPacked);

}  // namespace minnow::cuda
