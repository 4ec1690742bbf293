#include "kernels/cuda/device.h"

namespace minnow::cuda {

// A function's static, because rows are added while other statics are initialized, in any order.
KernelTable& cuda_kernels() {
  static KernelTable table;
  return table;
}

CudaKernelRegistrar::CudaKernelRegistrar(const char* op, CreateFunction create, SupportsFunction supports,
                                         LayoutRule layout, bool in_place) {
  KernelRow row;
  row.create = create;
  row.layout = layout;
  row.in_place = in_place;
  row.supports = supports;
  cuda_kernels().add(op, row);
}

}  // namespace minnow::cuda
