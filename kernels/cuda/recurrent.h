// LSTM, GRU and RNN: see schema/ops/recurrent.py. The products with the input are one matrix product over all steps;
// then one kernel goes through the steps, with a cluster of blocks for each direction and part of the batch.
#pragma once

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/cuda/launch.h"

namespace minnow::cuda {

struct RecurrentFunction {
  enum class Kind : int32_t {
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
  float alpha = 0, beta = 0;
};

struct Recurrent {
  enum class Layer : int32_t { kLstm, kGru, kRnn };

  Layer layer = Layer::kLstm;
  DType dtype = DType::kF16;  // of x, w, r, h0, c0 and the results: kF16, kBF16 or kF32; states are f32 between steps
  int steps = 0, batch = 0, features = 0, hidden = 0;
  int directions = 1;
  bool backward[2] = {false, true};  // by direction
  RecurrentFunction functions[2][3];
  float clip = 0, cell_clip = 0;  // 0: none
  bool input_forget = false, linear_before_reset = false;
  bool peepholes = false;  // LSTM: `extra` is given

  const void* x = nullptr;      // [steps, batch, features]; null: the workspace has its products with w, and the bias
  const void* w = nullptr;      // [directions, gates * hidden, features]
  const void* r = nullptr;      // as pack_recurrent() has made it
  const float* bias = nullptr;  // [directions, gates * hidden], those of w and r together, or null
  // LSTM: the weights of the peepholes [directions, 3 * hidden], or null. GRU with linear_before_reset: the bias of r
  // of the last gate [directions, hidden], which `bias` then does not have, or null.
  const float* extra = nullptr;
  const void* lengths = nullptr;  // [batch], or null: all steps
  bool wide_lengths = false;      // 64-bit integers, else 32-bit ones
  const void* h0 = nullptr;       // [directions, batch, hidden], or null: zeros
  const void* c0 = nullptr;       // LSTM: the same
  void* y = nullptr;              // [steps, directions, batch, hidden], or null
  void* y_h = nullptr;            // [directions, batch, hidden], or null
  void* y_c = nullptr;            // LSTM: the same
  float* workspace = nullptr;     // of recurrent_workspace() bytes
};

constexpr int gates_of(Recurrent::Layer layer) {
  return layer == Recurrent::Layer::kLstm ? 4 : layer == Recurrent::Layer::kGru ? 3 : 1;
}

int64_t recurrent_workspace(const Recurrent& problem);
// Numbers of packed recurrent weights, and these: of r [directions, gates * hidden, hidden]. They depend on the device
// and on all of the problem but `steps`, `batch`, `features` and addresses.
int64_t packed_recurrent_count(const Recurrent& problem, const Target& target);
void pack_recurrent(const Recurrent& problem, const Target& target, const float* r, float* packed);
cudaError_t recurrent(const Recurrent& problem, const Target& target);

}  // namespace minnow::cuda
