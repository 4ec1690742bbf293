// The activations of recurrent layers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/core/attrs.h"
#include "kernels/core/status.h"

namespace minnow {

// The function of a gate. Alpha and beta are what ONNX calls them.
struct GateFunction {
  enum class Kind : uint8_t {
    kSigmoid,
    kTanh,
    kRelu,
    kSoftsign,
    kSoftplus,
    kLeakyRelu,
    kThresholdedRelu,
    kElu,
    kHardSigmoid,
    kScaledTanh,
    kAffine
  };
  Kind kind = Kind::kSigmoid;
  double alpha = 0, beta = 0;
};

enum class RecurrentLayer : uint8_t { kLstm, kGru, kRnn };
constexpr int64_t gates_of(RecurrentLayer layer) {
  return layer == RecurrentLayer::kLstm ? 4 : layer == RecurrentLayer::kGru ? 3 : 1;
}
constexpr int functions_of(RecurrentLayer layer) {
  return layer == RecurrentLayer::kLstm ? 3 : layer == RecurrentLayer::kGru ? 2 : 1;
}

// The functions of all directions, from the names and parameters that a node has.
Status read_gate_functions(const Attrs& attrs, RecurrentLayer layer, int directions,
                           std::vector<GateFunction>* functions);

}  // namespace minnow
