// Operands of integer products that are not as the kernels read them.
#include "kernels/cuda/integer/integer_product.h"

namespace minnow::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    pad_kernel(const uint8_t* __restrict__ from, uint8_t* __restrict__ to, int64_t rows, int count, int padded) {
  allow_next();
  wait_previous();
  const int64_t words = rows * (padded / 4);
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < words; i += stride) {
    const int64_t row = i / (padded / 4);
    const int at = static_cast<int>(i - row * (padded / 4)) * 4;
    uint32_t word = 0;
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (at + e < count) word |= static_cast<uint32_t>(from[row * count + at + e]) << (8 * e);
    reinterpret_cast<uint32_t*>(to)[i] = word;
  }
}

// A block turns 32 columns, 128 rows at a time; 8 threads write a column.
__global__ void __launch_bounds__(kThreads) turn_kernel(const __grid_constant__ TurnedWeights t) {
  __shared__ uint8_t tile[128][36];
  allow_next();
  wait_previous();
  const int thread = threadIdx.x, batch = blockIdx.y, first = blockIdx.x * 32;
  const int column = thread / 8, chunk = thread % 8;
  const uint8_t* from = static_cast<const uint8_t*>(t.from) + static_cast<int64_t>(batch) * t.k * t.n;
  const uint32_t flip = t.is_unsigned ? 0x80u : 0u;
  int sum = 0;
  for (int begin = 0; begin < t.depth; begin += 128) {
    for (int i = thread; i < 128 * 32; i += kThreads) {
      const int row = i / 32, n = i % 32;
      const bool inside = begin + row < t.k && first + n < t.n;
      const uint32_t byte = inside ? from[static_cast<int64_t>(begin + row) * t.n + first + n] ^ flip : 0u;
      tile[row][n] = static_cast<uint8_t>(byte);
    }
    __syncthreads();
    const int at = begin + chunk * 16;
    if (first + column < t.n && at < t.depth) {
      uint32_t word[4] = {0, 0, 0, 0};
#pragma unroll
      for (int e = 0; e < 16; ++e) {
        const uint32_t byte = tile[chunk * 16 + e][column];
        word[e / 4] |= byte << (8 * (e % 4));
        sum += static_cast<int8_t>(byte);
      }
      int8_t* to = t.to + (static_cast<int64_t>(batch) * t.n + first + column) * t.depth + at;
      *reinterpret_cast<uint4*>(to) = make_uint4(word[0], word[1], word[2], word[3]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int step = 4; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step, 8);
  const int arrays = (t.n + 7) / 8 * 8;
  if (chunk == 0 && first + column < arrays) {
    int zero = 0;
    if (t.zero != nullptr && first + column < t.n) {
      const uint8_t byte = static_cast<const uint8_t*>(t.zero)[(first + column) * t.zero_step];
      zero = t.is_unsigned ? byte - 128 : static_cast<int8_t>(byte);
    } else if (t.is_unsigned && first + column < t.n) {
      zero = -128;
    }
    const int64_t to = static_cast<int64_t>(batch) * arrays + first + column;
    t.correction[to] = sum - t.k * zero;
    t.w_zero[to] = zero;
  }
}

__global__ void spread_kernel(const uint8_t* from, uint8_t* to) {
  allow_next();
  wait_previous();
  to[threadIdx.x % 16] = *from;
}

}  // namespace

cudaError_t pad_rows(const void* from, void* to, int64_t rows, int count, int padded, const Target& target) {
  if (rows == 0 || padded == 0) return cudaSuccess;
  const int64_t blocks = (rows * (padded / 4) + kThreads - 1) / kThreads;
  return launch(target, pad_kernel, dim3(static_cast<unsigned>(blocks < 65535 ? blocks : 65535)), kThreads, 0, 1,
                static_cast<const uint8_t*>(from), static_cast<uint8_t*>(to), rows, count, padded);
}

cudaError_t turn_weights(const TurnedWeights& turn, const Target& target) {
  if (turn.batch > 65535) return cudaErrorInvalidValue;
  return launch(target, turn_kernel, dim3(static_cast<unsigned>((turn.n + 31) / 32), static_cast<unsigned>(turn.batch)),
                kThreads, 0, 1, turn);
}

cudaError_t spread_byte(const void* from, void* to, const Target& target) {
  return launch(target, spread_kernel, dim3(1), 32, 0, 1, static_cast<const uint8_t*>(from), static_cast<uint8_t*>(to));
}

}  // namespace minnow::cuda
