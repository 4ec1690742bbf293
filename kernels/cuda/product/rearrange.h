// What operands pass through before a product where they do not lie as it needs them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/core/status.h"
#include "kernels/cuda/product/product.h"

namespace minnow::cuda {

// A batch of matrices, of elements of 2 or 4 bytes, to rows that begin at multiples of 8 elements; what is beyond the
// columns becomes 0. Distances are in elements.
struct MatrixCopy {
  int element_bytes = 2;
  int batch = 1, rows = 0, columns = 0;
  int64_t from_batch = 0, from_row = 0, from_column = 1;
  const void* from = nullptr;
  void* to = nullptr;  // [batch, rows, columns up to a multiple of 8]
};
Status copy_matrix(const MatrixCopy& copy, cudaStream_t stream);

// Weights of a pointwise convolution times a factor for each of their columns.
struct WeightScaling {
  Element element = Element::kF16;
  int rows = 0, columns = 0;  // columns of the memory
  int gates = 0;              // factors; columns beyond them stay as they are
  const void* weights = nullptr;
  const void* gate = nullptr;  // of the elements' type
  void* to = nullptr;
};
Status scale_weights(const WeightScaling& scaling, cudaStream_t stream);

// A convolution of few channels as one of more: `block` x `block` pixels of an image become one pixel, whose channels
// are [channel, row, column] of the block, up to a multiple of 8. Images are plain: [images, channels, height, width].
struct BlockGather {
  Element element = Element::kF16;  // of both; kF32 for any f32
  int images = 0, channels = 0, height = 0, width = 0;
  int block = 2, pad_h = 0, pad_w = 0;  // what is before the image in its first blocks
  int out_height = 0, out_width = 0;    // in blocks
  const void* from = nullptr;
  void* to = nullptr;  // [images, out_height, out_width, channels * block * block up to a multiple of 8]
};
Status gather_blocks(const BlockGather& gather, cudaStream_t stream);

}  // namespace minnow::cuda
