// Programs on elements (kernels/gpu/elementwise.h) as kernels of their own, compiled at run time.
#pragma once

#include <memory>
#include <string>

#include "kernels/gpu/elementwise.h"

namespace minnow::cuda {

// Which kernel a program is, whatever the sizes: each form is compiled once.
struct ElementForm {
  struct Operand {
    DType dtype = DType::kF32;
    gpu::ElementIndex::Mode mode = gpu::ElementIndex::kSame;
    int step = 1;             // strided: the stride along the innermost dim, if it is 0 or 1, else 2
    bool whole = false;       // strided: neighbors of a thread are read at once
    bool is_bounded = false;  // strided: an index may be beyond the last one, which is read then
  };
  std::vector<Operand> operands;
  std::vector<DType> results;  // as they lie in memory
  int rank = 0;                // dims by which strided operands are read
  int together = 1;            // elements that a thread makes
  bool rows = false;           // those are along the innermost dim
};

// CUDA C of the kernel `elements`. Empty: it computes what there is no such kernel for.
std::string element_source(const gpu::ElementProgram& program, const ElementForm& form);

// Null where it is not compiled; the portable text runs the program then.
std::unique_ptr<gpu::CompiledElements> compile_elements(const gpu::ElementProgram& program, const NodeContext& node,
                                                        int capability);

}  // namespace minnow::cuda
