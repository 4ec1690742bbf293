// The steps of LSTM layers whose recurrent weights fit in the registers of a cluster.
#pragma once

#include "kernels/cuda/recurrent.h"

namespace minnow::cuda {

// f16 and bf16, up to 512 units, the usual functions and no options, on Hopper.
bool is_common_lstm(const Recurrent& problem, const Target& target);
int64_t packed_lstm_count(const Recurrent& problem);
void pack_lstm(const Recurrent& problem, const float* r, float* packed);
// The products with the input are in the workspace, with the bias.
cudaError_t lstm_steps(const Recurrent& problem, const Target& target);

}  // namespace minnow::cuda
