// Products of few rows with a matrix. In 16 bits on tensor cores, whose 16x16 operand the weights are: 16 columns of y
// for a block, k divided among its warps. The places along k within 32 are permuted, alike in both operands, so that a
// thread reads 16 bytes at once. The first weights are asked for before the kernel before this one has ended.
#include "kernels/cuda/few_rows.cuh"
#include "kernels/cuda/tensor_core.cuh"

namespace minnow::cuda {
namespace {

constexpr int kThreads = kFewRowsWarps * 32;
[[maybe_unused]] constexpr int kAhead = 4;  // steps whose weights are on their way

template <typename T, int tiles>
__global__ void __launch_bounds__(kThreads) tensor_kernel(const __grid_constant__ FewRowsArguments<T> a) {
#if __CUDA_ARCH__ >= 800
  __shared__ float part[kFewRowsWarps][tiles * 16][8];
  allow_next();
  const int lane = static_cast<int>(threadIdx.x) & 31, warp = static_cast<int>(threadIdx.x) >> 5;
  const int quad = lane >> 2, pair = lane & 3;
  const int first = static_cast<int>(blockIdx.x) * tiles * 16;
  // Steps of 32 along k; those of a warp lie side by side.
  const int steps = (a.k + 31) / 32, each = (steps + kFewRowsWarps - 1) / kFewRowsWarps;
  const int begin = warp * each, end = min(begin + each, steps);
  const T* rows[tiles][2];
#pragma unroll
  for (int t = 0; t < tiles; ++t) {
#pragma unroll
    for (int h = 0; h < 2; ++h)  // a column of y that is not there is computed as the last one, and not written
      rows[t][h] = a.w + static_cast<size_t>(min(first + t * 16 + h * 8 + quad, a.n - 1)) * a.k + pair * 8;
  }
  uint4 w[kAhead][tiles][2];
  const auto read_weights = [&](int slot, int step) {
    const bool there = step < end && step * 32 + pair * 8 < a.k;
#pragma unroll
    for (int t = 0; t < tiles; ++t) {
#pragma unroll
      for (int h = 0; h < 2; ++h)
        w[slot][t][h] = there ? load_once(rows[t][h] + static_cast<size_t>(step) * 32) : make_uint4(0, 0, 0, 0);
    }
  };
#pragma unroll
  for (int i = 0; i < kAhead; ++i) read_weights(i, begin + i);
  FewRowsEnd<T, tiles * 16> finish(a, first);
  wait_previous();
  finish.read_residual(a);
  const T* x = a.x + quad * a.x_row + pair * 8;
  const bool has_row = quad < a.rows;
  float sum[tiles][4] = {};
  for (int step = begin; step < end; step += kAhead) {
    uint4 v[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const bool there = has_row && step + i < end && (step + i) * 32 + pair * 8 < a.k;
      v[i] = there ? *reinterpret_cast<const uint4*>(x + static_cast<size_t>(step + i) * 32) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
#pragma unroll
      for (int t = 0; t < tiles; ++t) {
        const uint4 one = w[i][t][0], other = w[i][t][1];
        multiply(sum[t], {one.x, other.x, one.y, other.y}, v[i].x, v[i].y, T());
        multiply(sum[t], {one.z, other.z, one.w, other.w}, v[i].z, v[i].w, T());
      }
      read_weights(i, step + kAhead + i);
    }
  }
#pragma unroll
  for (int t = 0; t < tiles; ++t) {
#pragma unroll
    for (int e = 0; e < 4; ++e) part[warp][t * 16 + quad + (e >> 1) * 8][pair * 2 + (e & 1)] = sum[t][e];
  }
  finish.join(a, &part[0][0][0]);
#endif
}

// Other devices, and f32: a warp makes 4 columns, of M rows.
template <typename T, int M>
__global__ void __launch_bounds__(kThreads) fma_kernel(const __grid_constant__ FewRowsArguments<T> a) {
  constexpr int kColumns = 4, V = 16 / static_cast<int>(sizeof(T));
  __shared__ float part[kFewRowsWarps][kColumns][8];
  allow_next();
  const int lane = static_cast<int>(threadIdx.x) & 31, warp = static_cast<int>(threadIdx.x) >> 5;
  const int first = static_cast<int>(blockIdx.x) * kColumns;
  const int steps = (a.k + 32 * V - 1) / (32 * V);
  const auto read = [&](uint4(&w)[kColumns], int step) {
    const int at = (step * 32 + lane) * V;
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      w[c] = step < steps && at < a.k ? load_once(a.w + static_cast<size_t>(min(first + c, a.n - 1)) * a.k + at)
                                      : make_uint4(0, 0, 0, 0);
  };
  const auto number = [](const uint4& v, int i) {
    const uint32_t words[4] = {v.x, v.y, v.z, v.w};
    if constexpr (kIsF32<T>) {
      return __uint_as_float(words[i]);
    } else {
      const float2 both = pair_to_floats(words[i / 2], T());
      return i % 2 == 0 ? both.x : both.y;
    }
  };
  uint4 w[2][kColumns];
  read(w[0], warp);
  read(w[1], warp + kFewRowsWarps);
  FewRowsEnd<T, kColumns> finish(a, first);
  wait_previous();
  finish.read_residual(a);
  float sum[kColumns][M] = {};
  for (int step = warp; step < steps; step += 2 * kFewRowsWarps) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int at = ((step + i * kFewRowsWarps) * 32 + lane) * V;
      if (at < a.k) {
#pragma unroll
        for (int m = 0; m < M; ++m) {
          if (m >= a.rows) break;
          const uint4 x = *reinterpret_cast<const uint4*>(a.x + m * a.x_row + at);
#pragma unroll
          for (int c = 0; c < kColumns; ++c) {
#pragma unroll
            for (int e = 0; e < V; ++e) sum[c][m] = fmaf(number(w[i][c], e), number(x, e), sum[c][m]);
          }
        }
      }
      read(w[i], step + (i + 2) * kFewRowsWarps);
    }
  }
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
#pragma unroll
    for (int m = 0; m < M; ++m) {
      float v = sum[c][m];
#pragma unroll
      for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
      if (lane == 0) part[warp][c][m] = v;
    }
  }
  finish.join(a, &part[0][0][0]);
}

template <typename T>
cudaError_t run(const FewRows& p, const Target& target) {
  if (p.n == 0 || p.rows == 0) return cudaSuccess;
  const FewRowsArguments<T> a = {static_cast<const T*>(p.x),
                                 static_cast<const T*>(p.w),
                                 p.bias,
                                 static_cast<const T*>(p.residual),
                                 static_cast<T*>(p.y),
                                 p.rows,
                                 p.n,
                                 p.k,
                                 p.x_row,
                                 p.y_row,
                                 p.activation};
  const auto blocks = [&](int columns) { return dim3(static_cast<unsigned>((p.n + columns - 1) / columns)); };
  if constexpr (!kIsF32<T>) {
    // Two tiles share the rows of x, but there are half as many blocks.
    const bool two = p.n >= (p.rows > 2 ? 64 : 128) * target.multiprocessors;
    if (target.capability >= 80)
      return two ? launch(target, tensor_kernel<T, 2>, blocks(32), kThreads, 0, 1, a)
                 : launch(target, tensor_kernel<T, 1>, blocks(16), kThreads, 0, 1, a);
  }
  const auto kernel = p.rows == 1   ? fma_kernel<T, 1>
                      : p.rows == 2 ? fma_kernel<T, 2>
                      : p.rows <= 4 ? fma_kernel<T, 4>
                                    : fma_kernel<T, 8>;
  return launch(target, kernel, blocks(4), kThreads, 0, 1, a);
}

}  // namespace

bool few_rows_fits(const FewRows& p, const Target&) {
  const int64_t size = p.dtype == DType::kF32 ? 4 : 2;
  const auto even = [size](const void* data, int64_t row) {
    return reinterpret_cast<uintptr_t>(data) % 16 == 0 && row * size % 16 == 0;
  };
  const bool type = p.dtype == DType::kF16 || p.dtype == DType::kBF16 || p.dtype == DType::kF32;
  return type && p.rows <= kMostFewRows && p.k > 0 && even(p.x, p.rows == 1 ? 0 : p.x_row) && even(p.w, p.k);
}

cudaError_t few_rows(const FewRows& problem, const Target& target) {
  if (!few_rows_fits(problem, target)) return cudaErrorInvalidValue;
  switch (problem.dtype) {
    case DType::kF16:
      return run<half>(problem, target);
    case DType::kBF16:
      return run<bfloat16>(problem, target);
    default:
      return run<float>(problem, target);
  }
}

}  // namespace minnow::cuda
