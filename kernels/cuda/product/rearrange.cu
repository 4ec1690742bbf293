#include "kernels/cuda/product/rearrange.h"

#include <algorithm>
#include <limits>

#include "kernels/cuda/divide.h"
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

struct GatherDivisors {
  Divisor chunks, width, height;
};

// A thread makes 8 channels of a pixel. kBlock: the side of the blocks, 0 for any. `whole`: where a row of a block has
// 8 elements or more, they lie at multiples of 16 bytes.
template <typename T, int kBlock, typename Index>
__global__ void __launch_bounds__(kThreads)
    gather_blocks_kernel(BlockGather g, GatherDivisors by, Index total, bool whole) {
  let_next_start();
  const Index i = blockIdx.x * Index{kThreads} + static_cast<Index>(threadIdx.x);
  int chunk, w, h, image;
  if constexpr (sizeof(Index) == 4) {
    chunk = i;
    w = by.chunks.split(&chunk);
    h = by.width.split(&w);
    image = by.height.split(&h);
  } else {
    const Index pixel = i / by.chunks.value, line = pixel / g.out_width;
    chunk = static_cast<int>(i % by.chunks.value), w = static_cast<int>(pixel % g.out_width);
    h = static_cast<int>(line % g.out_height), image = static_cast<int>(line / g.out_height);
  }
  const int block = kBlock > 0 ? kBlock : g.block, area = block * block;
  wait_for_previous();
  if (i >= total) return;
  union {
    T v[8];
    uint4 words[sizeof(T) / 2];
  };
  const auto at = [&](int c, int row, int column) {
    return static_cast<const T*>(g.from) + (((int64_t{image} * g.channels + c) * g.height + row) * g.width + column);
  };
  bool done = false;
  if constexpr (kBlock >= 8) {
    const int k = chunk * 8, c = k / area;
    const int row = h * block - g.pad_h + k / block % block, column = w * block - g.pad_w + k % block;
    done = whole && c < g.channels && row >= 0 && row < g.height && column >= 0 && column + 8 <= g.width;
    if (done) {
      const uint4* from = reinterpret_cast<const uint4*>(at(c, row, column));
#pragma unroll
      for (int e = 0; e < static_cast<int>(sizeof(T) / 2); ++e) words[e] = from[e];
    }
  }
  if (!done) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int k = chunk * 8 + e, c = k / area, y = k / block % block, x = k % block;
      const int row = h * block - g.pad_h + y, column = w * block - g.pad_w + x;
      const bool inside = c < g.channels && row >= 0 && row < g.height && column >= 0 && column < g.width;
      v[e] = inside ? *at(c, row, column) : T(0);
    }
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

namespace {

template <typename T>
Status gather_of(const BlockGather& g, int chunks, int64_t total, cudaStream_t stream) {
  const dim3 grid(groups(total, kThreads));
  const GatherDivisors by = {Divisor(chunks), Divisor(g.out_width), Divisor(g.out_height)};
  const auto is_even = [](int64_t n) { return n * static_cast<int64_t>(sizeof(T)) % 16 == 0; };
  const bool whole = g.block % 8 == 0 && is_even(g.width) && is_even(g.pad_w) && is_even(g.block) &&
                     reinterpret_cast<uintptr_t>(g.from) % 16 == 0;
  if (total > std::numeric_limits<int>::max() - kThreads)
    return start("to gather blocks", gather_blocks_kernel<T, 0, int64_t>, grid, stream, g, by, total, whole);
  const auto kernel = g.block == 2    ? gather_blocks_kernel<T, 2, int>
                      : g.block == 4  ? gather_blocks_kernel<T, 4, int>
                      : g.block == 16 ? gather_blocks_kernel<T, 16, int>
                                      : gather_blocks_kernel<T, 0, int>;
  return start("to gather blocks", kernel, grid, stream, g, by, static_cast<int>(total), whole);
}

}  // namespace

Status gather_blocks(const BlockGather& gather, cudaStream_t stream) {
  const int chunks = (gather.channels * gather.block * gather.block + 7) / 8;
  const int64_t total = int64_t{gather.images} * gather.out_height * gather.out_width * chunks;
  if (total < 1) return ok();
  return bytes_of(gather.element) == 2 ? gather_of<uint16_t>(gather, chunks, total, stream)
                                       : gather_of<uint32_t>(gather, chunks, total, stream);
}

}  // namespace minnow::cuda
