// The operands of recurrent layers.
#pragma once

#include "kernels/core/attrs.h"

namespace minnow {

enum RecurrentInput {
  kX,
  kW,
  kR,
  kBias,
  kLens,
  kH0,
  kC0,
  kPeephole,
  kInputs,
  // Of DynamicLSTM: the scales of both weights, and their zero points.
  kScales = kInputs,
  kZeros = kScales + 2,
  kDynamicInputs = kZeros + 2
};

inline bool is_weight(int i) { return i == kW || i == kR; }

inline int directions_of(const Attrs& attrs) { return attrs.s("direction", "forward") == "bidirectional" ? 2 : 1; }

}  // namespace minnow
