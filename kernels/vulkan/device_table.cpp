#include "kernels/vulkan/device_table.h"

#include "kernels/vulkan/gpu.h"

namespace minnow::vulkan {

// A function's static, because rows are added while other statics are initialized, in any order.
KernelTable& vulkan_kernels() {
  static KernelTable table;
  return table;
}

VulkanKernelRegistrar::VulkanKernelRegistrar(const char* op, CreateFunction create, SupportsFunction supports,
                                             LayoutRule layout, LayoutFunction layout_for) {
  KernelRow row;
  row.create = create;
  row.layout = layout;
  row.layout_for = layout_for;
  row.supports = supports;
  vulkan_kernels().add(op, row);
}

const Machine& machine_of(const NodeContext& node) {
  return static_cast<const VulkanDevice&>(gpu::device_of(node)).context.machine;
}

}  // namespace minnow::vulkan
