// Rows that are put side by side: what concatenation is along any axis, in any layout.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"

namespace minnow::cuda {

// Some of the parts of all rows. Sizes are in bytes.
struct Concat {
  static constexpr int kMostParts = 16;
  struct Part {
    const void* from = nullptr;
    int64_t run = 0;     // of a row, at least 1
    int64_t stride = 0;  // from one row to the next
  };
  int parts = 0;
  Part part[kMostParts];
  int64_t rows = 0;
  int64_t stride = 0;  // from one row of the result to the next
  void* to = nullptr;  // where the first part of the first row begins
};

// Copies the widest elements that all sizes and addresses are multiples of, at most 2e9 of them.
cudaError_t concat(const Concat& problem, const Target& target);

}  // namespace minnow::cuda
