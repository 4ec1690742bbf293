// Ops that only convert elements.
#include "kernels/gpu/convert.h"

namespace minnow::gpu {
namespace {

constexpr std::initializer_list<DType> kTypes = {DType::kF32, DType::kF16, DType::kBF16, DType::kI8,  DType::kU8,
                                                 DType::kI16, DType::kU16, DType::kI32,  DType::kBool};

class CopyKernel final : public GpuKernel {
 public:
  Status enqueue(const RunContext& context, Stream& stream) override {
    const Tensor& x = *context.in[0];
    Tensor& y = *context.out[0];
    return x.data == y.data ? ok() : stream.copy(x.data, y.data, y.type.bytes());
  }
};

std::unique_ptr<Kernel> create_copy(const NodeContext&) { return std::make_unique<CopyKernel>(); }

bool supports_copy(const NodeContext&, std::string*) { return true; }

class CastKernel final : public GpuKernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    device_ = &device_of(node);
    *workspace = 0;
    return ok();
  }
  Status enqueue(const RunContext& context, Stream& stream) override {
    const Tensor& x = *context.in[0];
    Tensor& y = *context.out[0];
    return enqueue_convert(*device_, stream, x.data, x.type.dtype, y.data, y.type.dtype, y.count());
  }

 private:
  Device* device_ = nullptr;
};

std::unique_ptr<Kernel> create_cast(const NodeContext&) { return std::make_unique<CastKernel>(); }

bool supports_cast(const NodeContext& node, std::string* why) { return has_types(node, kTypes, why); }

}  // namespace

MINNOW_GPU_KERNEL("Identity", create_copy, supports_copy, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_GPU_KERNEL("Reshape", create_copy, supports_copy, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_GPU_KERNEL("Flatten", create_copy, supports_copy, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_GPU_KERNEL("Squeeze", create_copy, supports_copy, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_GPU_KERNEL("Unsqueeze", create_copy, supports_copy, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_GPU_KERNEL("Cast", create_cast, supports_cast);
MINNOW_GPU_KERNEL("CastLike", create_cast, supports_cast);

}  // namespace minnow::gpu
