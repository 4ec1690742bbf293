#include "kernels/gpu/device.h"
#include "kernels/gpu/elementwise.h"

namespace minnow::gpu {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 31;

}  // namespace

std::vector<const KernelRow*> Device::rows(const OpSpec& op) const {
  std::vector<const KernelRow*> all;
  for (const KernelTable* table : {own_kernels(), static_cast<const KernelTable*>(&PortableKernels::table())}) {
    const KernelRow* row = table == nullptr ? nullptr : table->find(op);
    if (row != nullptr) all.push_back(row);
  }
  return all;
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
