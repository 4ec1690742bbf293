// One step of one sequence of a recurrent layer: what follows the two matrix products.
#pragma once

#include <cstdint>

#include "kernels/core/gate_function.h"

namespace minnow {

struct CellOptions {
  GateFunction functions[3];  // f, g, h of ONNX
  double clip = 0;            // bounds what f and g are given; 0: no bound
  double cell_clip = 0;       // bounds the new c of an LSTM; 0: no bound
  bool input_forget = false;
  bool linear_before_reset = false;
};

// The units [begin, end) of one sequence; all pointers are to unit 0.
template <typename T>
struct CellRow {
  T* gates;            // x W + b, [gates][n]; destroyed
  const T* recurrent;  // h R, [gates][recurrent_stride]
  int64_t recurrent_stride;
  const T* extra;     // LSTM: weights of the peepholes [3][n], or null. GRU: bias of the recurrent candidate, or null
  const T* previous;  // h[n] of the step before
  T* state;           // h[n]
  T* cell;            // LSTM: c[n], replaced. GRU: r * h[n], given by gru_gates
  int64_t n;
  int64_t begin, end;
};

// LSTM, gates i, o, f, c.
void lstm_cell(const CellRow<float>& row, const CellOptions& options);
void lstm_cell(const CellRow<double>& row, const CellOptions& options);
// RNN.
void rnn_cell(const CellRow<float>& row, const CellOptions& options);
void rnn_cell(const CellRow<double>& row, const CellOptions& options);
// GRU, gates z, r, h, in two halves: the first makes z and r (and r * h), the second the candidate and the state. With
// `linear_before_reset` both see h R of all gates, else the second one sees (r * h) R of the last gate as its first.
void gru_gates(const CellRow<float>& row, const CellOptions& options);
void gru_gates(const CellRow<double>& row, const CellOptions& options);
void gru_state(const CellRow<float>& row, const CellOptions& options);
void gru_state(const CellRow<double>& row, const CellOptions& options);

}  // namespace minnow
