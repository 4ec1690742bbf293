// The steps of LSTM layers, with a cluster of blocks for each direction and some rows of the batch.
//
// A warp makes all gates of four units: a tile of 16 rows of the recurrent weights, which it keeps in registers, times
// the states of all units, on tensor cores. So a step needs no barrier of a block: the warp sends its four new states
// to all blocks of the cluster, whose barriers count the bytes that have arrived.
//
// States are f32 between steps. A product takes each as two numbers of 16 bits, the second of which is what the first
// has lost: a tile of states has 8 columns, enough for 4 rows of the batch.
#include "kernels/cuda/lstm.h"

#include <algorithm>

#include "kernels/cuda/activation.h"
#include "kernels/cuda/eight.cuh"
#include "kernels/cuda/product/ptx.cuh"

namespace minnow::cuda {
namespace {

constexpr int kWarps = 8, kUnits = 4;          // of a block; of a warp
constexpr int kBlockUnits = kWarps * kUnits;   // 32: two steps of 16 of the depth of a product
constexpr int kMostHidden = 16 * kBlockUnits;  // clusters have at most 16 blocks
[[maybe_unused]] constexpr int kChains = 4;    // sums that do not wait for each other
constexpr int kGap = 16;                       // words between rows of states, so that rows lie in other banks

// Blocks of a cluster.
int blocks_for(int hidden) {
  int blocks = 2;
  while (blocks * kBlockUnits < hidden) blocks *= 2;
  return blocks;
}

template <typename T>
struct Arguments {
  const uint4* r;      // [directions][blocks][warps][steps of the depth][lanes]
  const float* gates;  // [directions, steps * batch, 4 * hidden]
  const void* lengths;
  const T* h0;
  const T* c0;
  T* y;
  T* y_h;
  T* y_c;
  int steps, batch, hidden, directions;
  bool backward[2], wide_lengths;
};

[[maybe_unused]] __device__ __forceinline__ uint32_t bits_of(half v) { return __half_as_ushort(v); }
[[maybe_unused]] __device__ __forceinline__ uint32_t bits_of(bfloat16 v) { return __bfloat16_as_ushort(v); }

// The number, and what it has lost.
template <typename T>
__device__ __forceinline__ uint32_t two_of(float v) {
  const T high = from_float<T>(v), low = from_float<T>(v - to_float(high));
  return bits_of(high) | bits_of(low) << 16;
}

// 16 bytes to a block of the cluster, whose barrier counts them.
[[maybe_unused]] __device__ __forceinline__ void send(uint32_t to, uint32_t barrier, uint4 v) {
#if MINNOW_CLUSTERS
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
      "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(barrier)
      : "memory");
#endif
}

// kDepth: steps of 16 units in a product. kTiles: of 4 rows of the batch each.
template <typename T, int kDepth, int kTiles>
__global__ void __launch_bounds__(kWarps * 32, 1) lstm_kernel(const __grid_constant__ Arguments<T> a) {
#if MINNOW_CLUSTERS
  constexpr int kBlocks = kDepth / 2, kRows = 4 * kTiles, kStride = kDepth * 16 + kGap;
  extern __shared__ __align__(16) uint32_t states[];  // [2][kRows][kStride]
  __shared__ __align__(8) uint64_t barriers[2];       // of each half of the states
  allow_next();
  const int thread = static_cast<int>(threadIdx.x), lane = thread & 31, warp = thread >> 5;
  const int direction = static_cast<int>(blockIdx.y), block = static_cast<int>(blockIdx.z);
  const int first_row = static_cast<int>(blockIdx.x) * kRows, rows = min(a.batch - first_row, kRows);
  const uint32_t barrier = shared_address(barriers), base = shared_address(states);
  // In the tile of weights, row g is gate 0 or 2 of unit g % 4, and row g + 8 gate 1 or 3. In that of states, columns
  // 2q and 2q + 1 are the two parts of row q of the batch.
  const int g = lane >> 2, q = lane & 3;
  const bool upper = g >= 4;
  const int unit = block * kBlockUnits + warp * kUnits + (g & 3);
  uint32_t weights[kDepth][4];
  const uint4* from = a.r + ((direction * kBlocks + block) * kWarps + warp) * kDepth * 32 + lane;
#pragma unroll
  for (int k = 0; k < kDepth; ++k) {
    const uint4 v = __ldg(from + k * 32);
    weights[k][0] = v.x;
    weights[k][1] = v.y;
    weights[k][2] = v.z;
    weights[k][3] = v.w;
  }
  if (thread == 0) {
    init_barrier(barrier, 1);
    init_barrier(barrier + 8, 1);
    fence_barriers();
  }
  wait_previous();
  const int h = a.hidden;
  const size_t all_states = static_cast<size_t>(direction) * a.batch * h;
  for (int i = thread; i < kRows * kStride; i += kWarps * 32) {
    const int row = i / kStride, k = i % kStride;
    const bool there = a.h0 != nullptr && row < rows && k < h;
    states[i] = there ? bits_of(a.h0[all_states + static_cast<size_t>(first_row + row) * h + k]) : 0;
    states[kRows * kStride + i] = 0;
  }
  // Both halves of the warp have all of their units.
  float cell[kTiles], state[kTiles];
  int length[kTiles];
  size_t place[kTiles];  // in [directions, batch, hidden]
  bool there[kTiles];
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const int row = 4 * n + q;
    there[n] = row < rows && unit < h;
    place[n] = all_states + static_cast<size_t>(first_row + row) * h + unit;
    cell[n] = there[n] && a.c0 != nullptr ? to_float(a.c0[place[n]]) : 0.0f;
    state[n] = there[n] && a.h0 != nullptr ? to_float(a.h0[place[n]]) : 0.0f;
    length[n] = a.steps;
    if (there[n] && a.lengths != nullptr)
      length[n] = a.wide_lengths ? static_cast<int>(static_cast<const int64_t*>(a.lengths)[first_row + row])
                                 : static_cast<const int32_t*>(a.lengths)[first_row + row];
  }
  // What the input gives is loaded a step ahead.
  float ahead[kTiles][2];
  const auto load = [&](int step) {
    const int t = a.backward[direction] ? a.steps - 1 - step : step;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const float* at = a.gates +
                        ((static_cast<size_t>(direction) * a.steps + t) * a.batch + first_row + 4 * n + q) *
                            (4 * static_cast<size_t>(h)) +
                        (upper ? 2 * h : 0) + unit;
      const bool loads = there[n] && step < a.steps;
      ahead[n][0] = loads ? at[0] : 0.0f;
      ahead[n][1] = loads ? at[h] : 0.0f;
    }
  };
  load(0);
  cluster_sync();
  const uint32_t part = (g & 1) != 0 ? 0x7632 : 0x5410;  // of two pairs the second numbers, or the first
  for (int step = 0; step < a.steps; ++step) {
    const int t = a.backward[direction] ? a.steps - 1 - step : step, now = step & 1, next = now ^ 1;
    if (step > 0) wait_barrier(barrier + 8 * now, (step - 1) >> 1 & 1);
    const bool goes_on = step + 1 < a.steps;
    if (thread == 0 && goes_on) expect_bytes(barrier + 8 * next, rows * kBlocks * kBlockUnits * 4);
    float gates[kTiles][2];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      gates[n][0] = ahead[n][0];
      gates[n][1] = ahead[n][1];
    }
    load(step + 1);
    float sum[kTiles][kChains][4] = {};
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const int row = 4 * n + (g >> 1);
        uint4 v = make_uint4(0, 0, 0, 0);
        if (row < rows) v = load_words(base + ((now * kRows + row) * kStride + k * 16 + 4 * q) * 4);
        multiply(sum[n][k % kChains], weights[k], __byte_perm(v.x, v.y, part), __byte_perm(v.z, v.w, part),
                 static_cast<const T*>(nullptr));
      }
    }
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float one = gates[n][0], two = gates[n][1];
#pragma unroll
      for (int c = 0; c < kChains; ++c) {
        one += sum[n][c][0] + sum[n][c][1];
        two += sum[n][c][2] + sum[n][c][3];
      }
      // The input's gate and the output's here, or that of the cell and its new part.
      one = sigmoid<false>(one);
      two = sigmoid<false>(upper ? 2.0f * two : two);
      if (upper) two = 2.0f * two - 1.0f;
      const float other_one = __shfl_xor_sync(0xffffffffu, one, 16), other_two = __shfl_xor_sync(0xffffffffu, two, 16);
      const float in = upper ? other_one : one, out = upper ? other_two : two;
      const float keep = upper ? one : other_one, fresh = upper ? two : other_two;
      const float c = fmaf(keep, cell[n], in * fresh), result = out * hyperbolic_tangent<false>(c);
      const bool runs = t < length[n];
      if (runs) {
        cell[n] = c;
        state[n] = result;
      }
      if (there[n] && !upper && a.y != nullptr)
        a.y[((static_cast<size_t>(t) * a.directions + direction) * a.batch + first_row + 4 * n + q) * h + unit] =
            from_float<T>(runs ? result : 0.0f);
      // The four units of the warp together, by 8 threads to all blocks.
      const uint32_t word = two_of<T>(state[n]);
      const uint4 words = make_uint4(__shfl_sync(0xffffffffu, word, q), __shfl_sync(0xffffffffu, word, 4 + q),
                                     __shfl_sync(0xffffffffu, word, 8 + q), __shfl_sync(0xffffffffu, word, 12 + q));
      if (goes_on && 4 * n + q < rows) {
        const uint32_t to = base + ((next * kRows + 4 * n + q) * kStride + block * kBlockUnits + warp * kUnits) * 4;
#pragma unroll
        for (int rank = g; rank < kBlocks; rank += 8)
          send(of_block(to, rank), of_block(barrier + 8 * next, rank), words);
      }
    }
  }
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    if (!there[n] || upper) continue;
    if (a.y_h != nullptr) a.y_h[place[n]] = from_float<T>(state[n]);
    if (a.y_c != nullptr) a.y_c[place[n]] = from_float<T>(cell[n]);
  }
  cluster_sync();  // nobody ends while others may send to it
#endif
}

template <typename T, int kDepth, int kTiles>
cudaError_t start(const Arguments<T>& a, const Target& target) {
  constexpr int kBlocks = kDepth / 2, kRows = 4 * kTiles;
  const auto kernel = lstm_kernel<T, kDepth, kTiles>;
  if (kBlocks > 8) {
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (error != cudaSuccess) return error;
  }
  const dim3 grid(static_cast<unsigned>((a.batch + kRows - 1) / kRows), static_cast<unsigned>(a.directions),
                  static_cast<unsigned>(kBlocks));
  return launch(target, kernel, grid, kWarps * 32, 2 * kRows * (kDepth * 16 + kGap) * 4, kBlocks, a);
}

template <typename T, int kDepth>
cudaError_t start(const Arguments<T>& a, const Target& target) {
  // Fewer rows for a cluster are faster, as long as all clusters run at once.
  const int64_t blocks = static_cast<int64_t>((a.batch + 3) / 4) * a.directions * (kDepth / 2);
  return blocks <= target.multiprocessors ? start<T, kDepth, 1>(a, target) : start<T, kDepth, 2>(a, target);
}

template <typename T>
cudaError_t run(const Recurrent& p, const Target& target) {
  Arguments<T> a{};
  a.r = static_cast<const uint4*>(p.r);
  a.gates = p.workspace;
  a.lengths = p.lengths;
  a.h0 = static_cast<const T*>(p.h0);
  a.c0 = static_cast<const T*>(p.c0);
  a.y = static_cast<T*>(p.y);
  a.y_h = static_cast<T*>(p.y_h);
  a.y_c = static_cast<T*>(p.y_c);
  a.steps = p.steps, a.batch = p.batch, a.hidden = p.hidden, a.directions = p.directions;
  a.backward[0] = p.backward[0], a.backward[1] = p.backward[1];
  a.wide_lengths = p.wide_lengths;
  switch (blocks_for(p.hidden)) {
    case 2:
      return start<T, 4>(a, target);
    case 4:
      return start<T, 8>(a, target);
    case 8:
      return start<T, 16>(a, target);
    default:
      return start<T, 32>(a, target);
  }
}

}  // namespace

bool is_common_lstm(const Recurrent& p, const Target& target) {
  using Kind = RecurrentFunction::Kind;
  bool common = p.layer == Recurrent::Layer::kLstm && (p.dtype == DType::kF16 || p.dtype == DType::kBF16) &&
                p.hidden >= 1 && p.hidden <= kMostHidden && p.clip == 0 && p.cell_clip == 0 && !p.input_forget &&
                !p.peepholes && target.capability >= 90 && target.overlap;
  for (int direction = 0; direction < p.directions; ++direction)
    for (int f = 0; f < 3; ++f)
      common = common && p.functions[direction][f].kind == (f == 0 ? Kind::kSigmoid : Kind::kTanh);
  return common;
}

int64_t packed_lstm_count(const Recurrent& p) {
  const int64_t units = blocks_for(p.hidden) * kBlockUnits;
  return p.directions * 4 * units * units;
}

void pack_lstm(const Recurrent& p, const float* r, float* packed) {
  const int blocks = blocks_for(p.hidden), depth = 2 * blocks, h = p.hidden;
  for (int direction = 0; direction < p.directions; ++direction)
    for (int warp = 0; warp < blocks * kWarps; ++warp)
      for (int k = 0; k < depth; ++k)
        for (int lane = 0; lane < 32; ++lane)
          for (int e = 0; e < 8; ++e) {
            // Two numbers each of row g, of row g + 8, and the next two of both.
            const int g = lane >> 2, q = lane & 3;
            const int unit = warp * kUnits + (g & 3), gate = (g >= 4 ? 2 : 0) + (e / 2 % 2);
            const int column = k * 16 + 4 * q + e / 4 * 2 + e % 2;
            *packed++ = unit < h && column < h
                            ? r[((static_cast<size_t>(direction) * 4 + gate) * h + unit) * h + column]
                            : 0.0f;
          }
}

cudaError_t lstm_steps(const Recurrent& problem, const Target& target) {
  if (problem.batch == 0) return cudaSuccess;
  return problem.dtype == DType::kF16 ? run<half>(problem, target) : run<bfloat16>(problem, target);
}

}  // namespace minnow::cuda
