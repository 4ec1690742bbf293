// Weights of 2 to 8 bits, which stay packed in the device's memory: 4 or 8 bits each.
#pragma once

#include "kernels/core/quantized.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/few_rows.h"
#include "kernels/cuda/quantized_tile.h"
#include "kernels/cuda/unpack_weights.h"

namespace minnow::cuda {

class QuantizedWeights {
 public:
  // Of input `input` of the node, a matrix of rows.
  void make(const NodeContext& node, size_t input, const QuantizedMatrix& matrix);
  void clear() { there_ = false; }
  bool there() const { return there_; }
  Status unpack(DType dtype, int padded, void* to, cudaStream_t stream) const;
  // A product of few rows, whose operands but the weights are those of `rows`.
  FewRowsQuantized product(const FewRows& rows) const;

 private:
  bool there_ = false;
  QuantizedTiles tiles_;
  Packed q_, scale_, offset_;
};

}  // namespace minnow::cuda
