// Products of few rows with the recurrent weights of some units, for all gates: each weight is read once.
#pragma once

#include <cstdint>

namespace minnow {

constexpr int kStreamBlocks = 4;  // blocks of weights that are read at once

struct GateStream {
  const float* from;  // rows of `hidden` numbers
  int64_t rows, hidden;
  const float* packed;
  float* to;
  int64_t n, stride;  // columns of all gates, and from one gate to the next
  // Every other step reads the weights from the end: what the last step has read last is still in the cache then. From
  // one end only, a matrix that is a little larger than the cache would come from memory as a whole each time.
  bool backward;
  int64_t begin, end;  // units, from where a block begins
};
void stream_gates(const GateStream& stream);
// With weights of bf16, a whole gate at a time.
void stream_gates_bf16(const GateStream& stream);

}  // namespace minnow
