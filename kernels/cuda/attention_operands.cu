// What surrounds attention: keys and values behind those of the past, and rotary positions.
#include "kernels/cuda/attention.h"

#include <algorithm>

#include "kernels/cuda/divide.h"
#include "kernels/cuda/eight.cuh"

namespace minnow::cuda {
namespace {

constexpr int kThreads = 256;

struct Append {
  const char* past;
  const char* fresh;
  char* out;
  int64_t pieces;
  int past_rows, rows, row_pieces;
  int heads;
  int64_t fresh_row, fresh_head, fresh_image;  // in bytes
};

// `Piece`: as much as a thread copies at once.
template <typename Piece>
__global__ void __launch_bounds__(kThreads) append_kernel(const __grid_constant__ Append a) {
  allow_next();
  wait_previous();
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
#pragma unroll 4
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < a.pieces; i += step) {
    const int64_t line = i / a.row_pieces, head = line / a.rows;
    const int piece = static_cast<int>(i - line * a.row_pieces), row = static_cast<int>(line - head * a.rows);
    const char* from = nullptr;
    if (row < a.past_rows) {
      from = a.past + ((head * a.past_rows + row) * a.row_pieces + piece) * static_cast<int64_t>(sizeof(Piece));
    } else {
      from = a.fresh + head / a.heads * a.fresh_image + head % a.heads * a.fresh_head +
             (row - a.past_rows) * a.fresh_row + piece * static_cast<int64_t>(sizeof(Piece));
    }
    reinterpret_cast<Piece*>(a.out)[i] = *reinterpret_cast<const Piece*>(from);
  }
}

template <typename T>
struct Turn {
  const T* x;
  const T* cos;
  const T* sin;
  T* y;
  bool interleaved, full_cos, full_sin;
  int length, pairs, rank, threads;
  int64_t cos_strides[Rotary::kMostDims], sin_strides[Rotary::kMostDims];
  Divisor by_features, by_dims[Rotary::kMostDims];
};

// A thread makes a pair, or one of the features behind them.
template <typename T>
__global__ void __launch_bounds__(kThreads) turn_kernel(const __grid_constant__ Turn<T> a) {
  allow_next();
  wait_previous();
  int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= a.threads) return;
  int row = a.by_features.split(&i);
  const T* x = a.x + static_cast<size_t>(row) * a.length;
  T* y = a.y + static_cast<size_t>(row) * a.length;
  if (i >= a.pairs) {
    y[a.pairs + i] = x[a.pairs + i];
    return;
  }
  int64_t cos_at = 0, sin_at = 0;
#pragma unroll
  for (int d = Rotary::kMostDims - 1; d >= 0; --d) {
    if (d >= a.rank) continue;
    int index = row;
    row = a.by_dims[d].split(&index);
    cos_at += index * a.cos_strides[d];
    sin_at += index * a.sin_strides[d];
  }
  const int one = a.interleaved ? 2 * i : i, other = a.interleaved ? 2 * i + 1 : a.pairs + i;
  const float first = to_float(x[one]), second = to_float(x[other]);
  const T *cos = a.cos + cos_at, *sin = a.sin + sin_at;
  const float c0 = to_float(cos[a.full_cos ? one : i]), c1 = to_float(cos[a.full_cos ? other : i]);
  const float s0 = to_float(sin[a.full_sin ? one : i]), s1 = to_float(sin[a.full_sin ? other : i]);
  y[one] = from_float<T>(first * c0 - second * s0);
  y[other] = from_float<T>(second * c1 + first * s1);
}

template <typename T>
cudaError_t run(const Rotary& r, const Target& target) {
  int64_t rows = 1;
  Turn<T> a{};
  for (int d = 0; d < r.rank; ++d) {
    rows *= r.dims[d];
    a.by_dims[d] = Divisor(r.dims[d]);
    a.cos_strides[d] = r.cos_strides[d];
    a.sin_strides[d] = r.sin_strides[d];
  }
  const int features = r.length - r.turned / 2;  // of a row, where a pair counts once
  if (rows * features == 0) return cudaSuccess;
  if (rows * features >= int64_t{1} << 31 || r.rank > Rotary::kMostDims) return cudaErrorInvalidValue;
  a.x = static_cast<const T*>(r.x);
  a.cos = static_cast<const T*>(r.cos);
  a.sin = static_cast<const T*>(r.sin);
  a.y = static_cast<T*>(r.y);
  a.interleaved = r.interleaved;
  a.full_cos = r.full_cos;
  a.full_sin = r.full_sin;
  a.length = r.length;
  a.pairs = r.turned / 2;
  a.rank = r.rank;
  a.threads = static_cast<int>(rows * features);
  a.by_features = Divisor(features);
  return launch(target, turn_kernel<T>, dim3(static_cast<unsigned>((a.threads + kThreads - 1) / kThreads)), kThreads, 0,
                1, a);
}

}  // namespace

cudaError_t append_cache(const CacheAppend& c, const Target& target) {
  const int64_t row_bytes = static_cast<int64_t>(c.size) * c.element_size;
  const int64_t strides[] = {row_bytes, c.fresh_row * c.element_size, c.fresh_head * c.element_size,
                             c.fresh_image * c.element_size};
  int64_t odd = static_cast<int64_t>(reinterpret_cast<uintptr_t>(c.past_data) | reinterpret_cast<uintptr_t>(c.out) |
                                     reinterpret_cast<uintptr_t>(c.fresh_data));
  for (int64_t stride : strides) odd |= stride;
  const int piece = odd % 16 == 0 ? 16 : c.element_size;
  const Append a = {static_cast<const char*>(c.past_data),
                    static_cast<const char*>(c.fresh_data),
                    static_cast<char*>(c.out),
                    static_cast<int64_t>(c.images) * c.heads * (c.past + c.fresh) * (row_bytes / piece),
                    c.past,
                    c.past + c.fresh,
                    static_cast<int>(row_bytes / piece),
                    c.heads,
                    strides[1],
                    strides[2],
                    strides[3]};
  if (a.pieces == 0) return cudaSuccess;
  const int64_t blocks = std::min<int64_t>((a.pieces + kThreads - 1) / kThreads, 16 * target.multiprocessors);
  const dim3 grid(static_cast<unsigned>(blocks));
  if (piece == 16) return launch(target, append_kernel<uint4>, grid, kThreads, 0, 1, a);
  if (piece == 2) return launch(target, append_kernel<uint16_t>, grid, kThreads, 0, 1, a);
  if (piece == 4) return launch(target, append_kernel<uint32_t>, grid, kThreads, 0, 1, a);
  return cudaErrorInvalidValue;
}

cudaError_t rotary(const Rotary& problem, const Target& target) {
  return with_float_type(problem.dtype, [&](auto number) { return run<decltype(number)>(problem, target); });
}

}  // namespace minnow::cuda
