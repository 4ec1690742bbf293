#include "kernels/cuda/product/rearrange.h"

#include <algorithm>

#include "kernels/cuda/product/ending.cuh"

namespace minnow::cuda {
namespace {

constexpr int kTile = 32, kThreads = 256;

// A tile of 32 x 32, read along whichever axis is dense, written along the rows.
template <typename T>
__global__ void __launch_bounds__(kThreads) copy_matrix_kernel(MatrixCopy c, int padded) {
  __shared__ T tile[kTile][kTile + 2];
  let_next_start();
  wait_for_previous();
  const int row0 = blockIdx.x * kTile, column0 = blockIdx.y * kTile;
  const int x = threadIdx.x % kTile, y = threadIdx.x / kTile;
  for (int b = blockIdx.z; b < c.batch; b += gridDim.z) {
    const T* from = static_cast<const T*>(c.from) + b * c.from_batch;
    T* to = static_cast<T*>(c.to) + int64_t{b} * c.rows * padded;
    const bool by_rows = c.from_row == 1;
#pragma unroll
    for (int i = 0; i < kTile; i += kThreads / kTile) {
      const int r = by_rows ? x : y + i, k = by_rows ? y + i : x;
      T v = T(0);
      if (row0 + r < c.rows && column0 + k < c.columns)
        v = from[(row0 + r) * c.from_row + (column0 + k) * c.from_column];
      tile[r][k] = v;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTile; i += kThreads / kTile)
      if (row0 + y + i < c.rows && column0 + x < padded)
        to[int64_t{row0 + y + i} * padded + column0 + x] = tile[y + i][x];
    __syncthreads();
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) scale_weights_kernel(WeightScaling s) {
  let_next_start();
  wait_for_previous();
  const int64_t count = int64_t{s.rows} * s.columns;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += int64_t{gridDim.x} * kThreads) {
    const int c = static_cast<int>(i % s.columns);
    const float w = to_float(static_cast<const T*>(s.weights)[i]);
    set(static_cast<T*>(s.to) + i, c < s.gates ? w * to_float(static_cast<const T*>(s.gate)[c]) : w);
  }
}

// A thread makes 8 channels of a pixel.
template <typename T>
__global__ void __launch_bounds__(kThreads) gather_blocks_kernel(BlockGather g, int chunks, int64_t total) {
  let_next_start();
  wait_for_previous();
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i >= total) return;
  const int chunk = static_cast<int>(i % chunks);
  const int64_t pixel = i / chunks;
  const int w = static_cast<int>(pixel % g.out_width), h = static_cast<int>(pixel / g.out_width % g.out_height);
  const int image = static_cast<int>(pixel / g.out_width / g.out_height);
  const int area = g.block * g.block;
  union {
    T v[8];
    uint4 words[sizeof(T) / 2];
  };
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    const int k = chunk * 8 + e, c = k / area, y = k / g.block % g.block, x = k % g.block;
    const int row = h * g.block - g.pad_h + y, column = w * g.block - g.pad_w + x;
    const bool inside = c < g.channels && row >= 0 && row < g.height && column >= 0 && column < g.width;
    v[e] = inside
               ? static_cast<const T*>(g.from)[((int64_t{image} * g.channels + c) * g.height + row) * g.width + column]
               : T(0);
  }
#pragma unroll
  for (int e = 0; e < static_cast<int>(sizeof(T) / 2); ++e)
    static_cast<uint4*>(g.to)[i * (sizeof(T) / 2) + e] = words[e];
}

template <typename... Parameters, typename... Arguments>
Status start(const char* what, void (*kernel)(Parameters...), dim3 grid, cudaStream_t stream, Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &overlap;
  config.numAttrs = current_chip().capability >= 90 ? 1 : 0;
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, arguments...);
  return error == cudaSuccess ? ok() : fail(Code::kDevice, "CUDA: %s: %s", what, cudaGetErrorString(error));
}

unsigned groups(int64_t n, int64_t each) { return static_cast<unsigned>((n + each - 1) / each); }

}  // namespace

Status copy_matrix(const MatrixCopy& copy, cudaStream_t stream) {
  const int padded = (copy.columns + 7) / 8 * 8;
  if (copy.batch < 1 || copy.rows < 1 || padded < 1) return ok();
  const dim3 grid(groups(copy.rows, kTile), groups(padded, kTile), static_cast<unsigned>(std::min(copy.batch, 65535)));
  return start("to copy a matrix",
               copy.element_bytes == 2 ? copy_matrix_kernel<uint16_t> : copy_matrix_kernel<uint32_t>, grid, stream,
               copy, padded);
}

Status scale_weights(const WeightScaling& scaling, cudaStream_t stream) {
  const int64_t count = int64_t{scaling.rows} * scaling.columns;
  if (count < 1) return ok();
  const dim3 grid(std::min(groups(count, kThreads), 2048u));
  switch (scaling.element) {
    case Element::kF16:
      return start("to scale weights", scale_weights_kernel<__half>, grid, stream, scaling);
    case Element::kBF16:
      return start("to scale weights", scale_weights_kernel<__nv_bfloat16>, grid, stream, scaling);
    default:
      return start("to scale weights", scale_weights_kernel<float>, grid, stream, scaling);
  }
}

Status gather_blocks(const BlockGather& gather, cudaStream_t stream) {
  const int chunks = (gather.channels * gather.block * gather.block + 7) / 8;
  const int64_t total = int64_t{gather.images} * gather.out_height * gather.out_width * chunks;
  if (total < 1) return ok();
  const dim3 grid(groups(total, kThreads));
  return bytes_of(gather.element) == 2
             ? start("to gather blocks", gather_blocks_kernel<uint16_t>, grid, stream, gather, chunks, total)
             : start("to gather blocks", gather_blocks_kernel<uint32_t>, grid, stream, gather, chunks, total);
}

}  // namespace minnow::cuda
