#include "kernels/gpu/device.h"
#include "kernels/gpu/elementwise.h"

namespace minnow::gpu {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 31;

}  // namespace

// A function's static, because rows are added while other statics are initialized, in any order.
KernelTable& gpu_kernels() {
  static KernelTable table;
  return table;
}

GpuKernelRegistrar::GpuKernelRegistrar(const char* op, CreateFunction create, SupportsFunction supports,
                                       LayoutRule layout, bool in_place) {
  KernelRow row;
  row.create = create;
  row.layout = layout;
  row.in_place = in_place;
  row.supports = supports;
  gpu_kernels().add(op, row);
}

std::vector<const KernelRow*> Device::rows(const OpSpec& op) const {
  const KernelRow* portable = gpu_kernels().find(op);
  return portable == nullptr ? std::vector<const KernelRow*>() : std::vector<const KernelRow*>{portable};
}

std::unique_ptr<CompiledElements> Device::compile(const ElementProgram&, const NodeContext&) { return nullptr; }

std::unique_ptr<Kernel> Device::create_conversion(const TensorType&, const TensorType&) { return nullptr; }

bool has_types(const NodeContext& node, std::initializer_list<DType> types, std::string* why) {
  for (const auto* tensors : {&node.in, &node.out})
    for (const TensorType* type : *tensors) {
      if (type == nullptr) continue;
      bool known = false;
      for (DType t : types) known = known || t == type->dtype;
      if (!known) {
        *why = std::string("computes no ") + dtype_name(type->dtype);
        return false;
      }
      if (type->count() >= kMostElements) {
        *why = "computes tensors of less than 2^31 elements";
        return false;
      }
    }
  return true;
}

}  // namespace minnow::gpu
