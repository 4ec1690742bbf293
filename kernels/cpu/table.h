// The CPU's kernels: a row for each op, beside the code that computes it, in kernels/cpu/<family>/.
//
//   MINNOW_KERNEL("Softmax", create_softmax, LayoutRule::kPlain, /*in_place=*/true);
#pragma once

#include "kernels/core/kernel_table.h"

namespace minnow {

KernelTable& cpu_kernels();

// Arguments, and no data, as for OpRegistrar.
struct CpuKernelRegistrar {
  CpuKernelRegistrar(const char* op, CreateFunction create, LayoutRule layout = LayoutRule::kPlain,
                     bool in_place = false, LayoutFunction layout_for = nullptr, Pieces pieces = Pieces::kNone,
                     LayoutFunction layout_half = nullptr);
};

#define MINNOW_KERNEL(...) MINNOW_REGISTER(::minnow::CpuKernelRegistrar, MINNOW_UNIQUE(kernel_registrar_), __VA_ARGS__)

}  // namespace minnow
