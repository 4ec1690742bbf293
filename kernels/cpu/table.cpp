#include "kernels/cpu/table.h"

namespace minnow {

// A function's static, because rows are added while other statics are initialized, in any order.
KernelTable& cpu_kernels() {
  static KernelTable table;
  return table;
}

CpuKernelRegistrar::CpuKernelRegistrar(const char* op, CreateFunction create, LayoutRule layout, bool in_place,
                                       LayoutFunction layout_for, Pieces pieces, LayoutFunction layout_half) {
  cpu_kernels().add(op, {create, layout, layout_for, in_place, pieces, nullptr, layout_half});
}

}  // namespace minnow
