// Ops whose result is their operand, under another shape.
#include "kernels/gpu/device.h"

namespace minnow::gpu {
namespace {

class CopyKernel final : public GpuKernel {
 public:
  Status enqueue(const RunContext& context, Stream& stream) override {
    const Tensor& x = *context.in[0];
    Tensor& y = *context.out[0];
    return x.data == y.data || y.type.bytes() == 0 ? ok() : stream.copy(x.data, y.data, y.type.bytes());
  }
};

std::unique_ptr<Kernel> create_copy(const NodeContext&) { return std::make_unique<CopyKernel>(); }

bool supports_copy(const NodeContext&, std::string*) { return true; }

// Bits of an f32 that is stored as f16 are other bits.
bool supports_bit_cast(const NodeContext& node, std::string* why) {
  const DType from = node.in[0]->dtype, to = node.out[0]->dtype;
  const bool fits = node.precision != Precision::kLow ||
                    (from != DType::kF32 && to != DType::kF32 && dtype_size(from) == dtype_size(to));
  if (!fits) *why = "stores f32 as f16 with precision low, which has other bits";
  return fits;
}

}  // namespace

MINNOW_GPU_KERNEL("Identity", create_copy, supports_copy, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_GPU_KERNEL("BitCast", create_copy, supports_bit_cast, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_GPU_KERNEL("ConvertLayout", create_copy, supports_copy, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_GPU_KERNEL("Reshape", create_copy, supports_copy, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_GPU_KERNEL("Flatten", create_copy, supports_copy, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_GPU_KERNEL("Squeeze", create_copy, supports_copy, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_GPU_KERNEL("Unsqueeze", create_copy, supports_copy, LayoutRule::kPlain, /*in_place=*/true);

}  // namespace minnow::gpu
