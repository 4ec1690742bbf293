// Elementwise ops that follow each other, in one pass over memory: piece by piece, so that what lies between them stays
// in the cache.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/core/op_spec.h"

namespace minnow {

// What the op Fused computes for each element; the planner makes it, and files do not have it. Values are counted: the
// operands first, then what each step makes, which has the shape of the results. The kernel may write result 0 to the
// memory of an operand of its size: it comes last, when all else has been read.
struct Program : Attrs {  // which tell programs apart
  struct Step {
    const OpSpec* op = nullptr;  // an elementwise one
    std::shared_ptr<const Attrs> attrs;
    std::vector<int> in;
    DType dtype = DType::kF32;
  };
  int operands = 0;
  std::vector<Step> steps;
  std::vector<int> results;  // the values that are outputs; the first is that of the last step

  void seal();                // to be called when all is there: makes the attributes
  std::string names() const;  // of the ops of the steps
};

}  // namespace minnow
