// Recurrent layers. The units of a direction are divided among the blocks of a cluster. A block keeps its part of the
// recurrent weights in shared memory where they fit, computes its units of a step, writes them to the shared memory of
// all blocks of the cluster, and waits for the others.
#include "kernels/cuda/recurrent.h"

#include <cooperative_groups.h>

#include <algorithm>

#include "kernels/cuda/activation.h"
#include "kernels/cuda/eight.cuh"
#include "kernels/cuda/lstm.h"

namespace minnow::cuda {
namespace {

namespace cg = cooperative_groups;

constexpr int kThreads = 512;
constexpr int kMostShared = 200 << 10;

__host__ __device__ int round_up(int v, int to) { return (v + to - 1) / to * to; }

// How the units are divided.
struct Division {
  int blocks = 1, units = 0;  // blocks of a cluster, and units of each
  int rows[2] = {0, 0};       // gates times units of a block: in the first product of a step, and in a second one
  int padded = 0;             // hidden, rounded up to 4
  __host__ __device__ int64_t block_count() const { return static_cast<int64_t>(rows[0] + rows[1]) * padded; }
};

bool has_two_products(const Recurrent& p) { return p.layer == Recurrent::Layer::kGru && !p.linear_before_reset; }

Division divide(const Recurrent& p, const Target& target) {
  Division d;
  if (target.capability >= 90 && target.overlap) {
    d.blocks = p.hidden >= 384 ? 16 : p.hidden >= 192 ? 8 : p.hidden >= 96 ? 4 : p.hidden >= 48 ? 2 : 1;
  }
  d.units = (p.hidden + d.blocks - 1) / d.blocks;
  const int gates = gates_of(p.layer);
  d.rows[0] = (has_two_products(p) ? 2 : gates) * d.units;
  d.rows[1] = has_two_products(p) ? d.units : 0;
  d.padded = round_up(p.hidden, 4);
  return d;
}

template <typename T>
struct Arguments {
  const T* r;
  const float* gates;  // [directions, steps * batch, gates * hidden]: x w + bias
  const float* extra;
  const void* lengths;
  const T* h0;
  const T* c0;
  T* y;
  T* y_h;
  T* y_c;
  Recurrent::Layer layer;
  int steps, batch, hidden, directions, gate_count;
  bool backward[2], wide_lengths, input_forget, linear_before_reset;
  RecurrentFunction functions[2][3];
  float clip, cell_clip;
  Division division;
};

// Called, and not part of its callers: a step needs it a few times, and it is long.
template <bool exact>
__device__ __noinline__ float apply(RecurrentFunction f, float v) {
  using Kind = RecurrentFunction::Kind;
  switch (f.kind) {
    case Kind::kSigmoid:
      return sigmoid<exact>(v);
    case Kind::kTanh:
      return hyperbolic_tangent<exact>(v);
    case Kind::kRelu:
      return v < 0.0f ? 0.0f : v;
    case Kind::kSoftsign:
      return v / (1.0f + fabsf(v));
    case Kind::kSoftplus:
      return (v < 0.0f ? 0.0f : v) + log1pf(expf(-fabsf(v)));
    case Kind::kLeakyRelu:
      return v < 0.0f ? f.alpha * v : v;
    case Kind::kThresholdedRelu:
      return v > f.alpha ? v : 0.0f;
    case Kind::kElu:
      return v < 0.0f ? f.alpha * expm1f(v) : v;
    case Kind::kHardSigmoid:
      return clamp_or_nan(fmaf(f.alpha, v, f.beta), 0.0f, 1.0f);
    case Kind::kScaledTanh:
      return f.alpha * hyperbolic_tangent<exact>(f.beta * v);
    case Kind::kAffine:
      return fmaf(f.alpha, v, f.beta);
  }
  return v;
}

__device__ __forceinline__ float bounded(float v, float clip) {
  return clip == 0.0f ? v : clamp_or_nan(v, -clip, clip);
}

template <typename T>
__device__ __forceinline__ float4 load_four(const T* from) {
  if constexpr (kIsF32<T>) {
    return *reinterpret_cast<const float4*>(from);
  } else {
    const uint2 raw = *reinterpret_cast<const uint2*>(from);
    const float2 low = pair_to_floats(raw.x, T()), high = pair_to_floats(raw.y, T());
    return make_float4(low.x, low.y, high.x, high.y);
  }
}

// sums[part][b][row] = the products of rows of `weights`, [padded / 4][rows][4], and parts of state[b].
template <typename T, int B>
__device__ __forceinline__ void multiply_rows(const T* weights, int rows, int padded, const float* state, float* sums,
                                              int* parts) {
  const int together = min(round_up(rows, 32), kThreads), count = kThreads / together;
  *parts = count;
  const int part = static_cast<int>(threadIdx.x) / together, first = static_cast<int>(threadIdx.x) % together;
  if (part >= count) return;
  const int fours = padded / 4, each = (fours + count - 1) / count;
  const int begin = part * each, end = min(begin + each, fours);
  for (int row = first; row < rows; row += together) {
    float sum[B] = {};
#pragma unroll 4
    for (int k = begin; k < end; ++k) {
      const float4 w = load_four(weights + (static_cast<size_t>(k) * rows + row) * 4);
#pragma unroll
      for (int b = 0; b < B; ++b) {
        const float4 h = *reinterpret_cast<const float4*>(state + b * padded + 4 * k);
        sum[b] = fmaf(w.x, h.x, sum[b]);
        sum[b] = fmaf(w.y, h.y, sum[b]);
        sum[b] = fmaf(w.z, h.z, sum[b]);
        sum[b] = fmaf(w.w, h.w, sum[b]);
      }
    }
#pragma unroll
    for (int b = 0; b < B; ++b) sums[(part * B + b) * rows + row] = sum[b];
  }
}

// A number to the same place in the shared memory of all blocks of the cluster.
__device__ __forceinline__ void write_to_all(float* place, float v, int blocks) {
#if __CUDA_ARCH__ >= 900
  if (blocks > 1) {
    auto cluster = cg::this_cluster();
    for (int b = 0; b < blocks; ++b) *cluster.map_shared_rank(place, static_cast<unsigned>(b)) = v;
    return;
  }
#endif
  *place = v;
}

__device__ __forceinline__ void sync_all(int blocks) {
#if __CUDA_ARCH__ >= 900
  if (blocks > 1) {
    cg::this_cluster().sync();
    return;
  }
#endif
  __syncthreads();
}

// Grid: parts of the batch, directions, blocks of a cluster. `held`: the weights are in shared memory.
template <typename T, int B, bool held>
__global__ void __launch_bounds__(kThreads) steps_kernel(const __grid_constant__ Arguments<T> a) {
  constexpr bool exact = kIsF32<T>;
  extern __shared__ __align__(16) float memory[];
  const Division& d = a.division;
  float* const states = memory;                                      // [2][B][padded]
  float* const resets = states + 2 * B * d.padded;                   // [B][padded]: of a GRU with two products
  float* const cells = resets + (d.rows[1] > 0 ? B * d.padded : 0);  // [B][units]: c, or the z of a GRU
  float* const sums = cells + round_up(B * d.units, 4);
  float* const values =
      sums + round_up(B * max(kThreads, max(d.rows[0], d.rows[1])), 4);  // [4][B][units]: gates of an LSTM
  T* const shared_weights = reinterpret_cast<T*>(values + (a.layer == Recurrent::Layer::kLstm ? 4 * B * d.units : 0));
  allow_next();
  const int thread = static_cast<int>(threadIdx.x), direction = static_cast<int>(blockIdx.y);
  const int block = static_cast<int>(blockIdx.z), first_unit = block * d.units,
            first_row = static_cast<int>(blockIdx.x) * B;
  const T* weights = a.r + (static_cast<size_t>(direction) * d.blocks + block) * d.block_count();
  if (held) {
    const int64_t pieces = d.block_count() * static_cast<int64_t>(sizeof(T)) / 8;
    for (int64_t i = thread; i < pieces; i += kThreads)
      reinterpret_cast<uint2*>(shared_weights)[i] = reinterpret_cast<const uint2*>(weights)[i];
    weights = shared_weights;
  }
  const T* const second_weights = weights + static_cast<size_t>(d.rows[0]) * d.padded;
  wait_previous();
  const int h = a.hidden;
  const size_t all_states = static_cast<size_t>(direction) * a.batch * h;
  for (int i = thread; i < B * d.padded; i += kThreads) {
    const int b = i / d.padded, k = i % d.padded, row = first_row + b;
    const bool there = a.h0 != nullptr && row < a.batch && k < h;
    states[i] = there ? to_float(a.h0[all_states + static_cast<size_t>(row) * h + k]) : 0.0f;
    states[B * d.padded + i] = 0.0f;
    if (d.rows[1] > 0) resets[i] = 0.0f;
  }
  for (int i = thread; i < B * d.units; i += kThreads) {
    const int row = first_row + i / d.units, unit = first_unit + i % d.units;
    const bool there = a.c0 != nullptr && row < a.batch && unit < h;
    cells[i] = there ? to_float(a.c0[all_states + static_cast<size_t>(row) * h + unit]) : 0.0f;
  }
  sync_all(d.blocks);
  const RecurrentFunction(&functions)[3] = a.functions[direction];
  const float* extra =
      a.extra == nullptr ? nullptr : a.extra + direction * (a.layer == Recurrent::Layer::kLstm ? 3 : 1) * h;
  const auto length_of = [&](int row) {
    if (a.lengths == nullptr) return a.steps;
    return a.wide_lengths ? static_cast<int>(static_cast<const int64_t*>(a.lengths)[row])
                          : static_cast<const int32_t*>(a.lengths)[row];
  };
  for (int step = 0; step < a.steps; ++step) {
    const int t = a.backward[direction] ? a.steps - 1 - step : step;
    const float* const now = states + (step & 1) * B * d.padded;
    float* const next = states + ((step & 1) ^ 1) * B * d.padded;
    // What the input gives is on its way while the products are made.
    const auto gates_at = [&](int row, int unit) {
      return a.gates + ((static_cast<size_t>(direction) * a.steps + t) * a.batch + row) * (a.gate_count * h) + unit;
    };
    const bool is_lstm = a.layer == Recurrent::Layer::kLstm;
    float ahead[4] = {}, ahead_of_lstm = 0.0f;
    if (is_lstm) {
      const int i = thread % (B * d.units), row = first_row + i / d.units, unit = first_unit + i % d.units;
      if (thread < 4 * B * d.units && row < a.batch && unit < h)
        ahead_of_lstm = gates_at(row, unit)[thread / (B * d.units) * h];
    }
    const int own_row = first_row + thread / d.units, own_unit = first_unit + thread % d.units;
    if (!is_lstm && thread < B * d.units && own_row < a.batch && own_unit < h) {
#pragma unroll
      for (int g = 0; g < 4; ++g)
        if (g < a.gate_count) ahead[g] = gates_at(own_row, own_unit)[g * h];
    }
    int parts = 1;
    multiply_rows<T, B>(weights, d.rows[0], d.padded, now, sums, &parts);
    __syncthreads();
    const auto sum_of = [&](int rows, int b, int row) {
      float sum = 0.0f;
      for (int part = 0; part < parts; ++part) sum += sums[(part * B + b) * rows + row];
      return sum;
    };
    // Calls one(index, b, row of the batch, unit, its gates) for all units of this block.
    const auto each = [&](auto one) {
      for (int i = thread; i < B * d.units; i += kThreads) {
        const int b = i / d.units, row = first_row + b, unit = first_unit + i % d.units;
        if (row >= a.batch || unit >= h) continue;
        float gates[4];
#pragma unroll
        for (int g = 0; g < 4; ++g)
          gates[g] = i == thread ? ahead[g] : g < a.gate_count ? gates_at(row, unit)[g * h] : 0.0f;
        one(i, b, row, unit, gates);
      }
    };
    const auto finish = [&](int b, int row, int unit, bool runs, float state) {
      write_to_all(next + b * d.padded + unit, runs ? state : now[b * d.padded + unit], d.blocks);
      if (a.y != nullptr)
        a.y[((static_cast<size_t>(t) * a.directions + direction) * a.batch + row) * h + unit] =
            from_float<T>(runs ? state : 0.0f);
    };
    if (is_lstm) {
      // A thread makes a gate of a unit: i, o, f, c. What looks at the new c is left to the next step.
      for (int item = thread; item < 4 * B * d.units; item += kThreads) {
        const int gate = item / (B * d.units), i = item % (B * d.units), b = i / d.units;
        const int row = first_row + b, unit = first_unit + i % d.units;
        if (row >= a.batch || unit >= h) continue;
        float v = (item == thread ? ahead_of_lstm : gates_at(row, unit)[gate * h]) +
                  sum_of(d.rows[0], b, gate * d.units + i % d.units);
        if (extra != nullptr && (gate == 0 || gate == 2)) v = fmaf(extra[(gate == 0 ? 0 : 2 * h) + unit], cells[i], v);
        if (extra == nullptr || gate != 1) v = apply<exact>(functions[gate == 3 ? 1 : 0], bounded(v, a.clip));
        values[item] = v;
      }
      __syncthreads();
      for (int i = thread; i < B * d.units; i += kThreads) {
        const int b = i / d.units, row = first_row + b, unit = first_unit + i % d.units;
        if (row >= a.batch || unit >= h) continue;
        const float in = values[i], forget = a.input_forget ? 1.0f - in : values[2 * B * d.units + i];
        const float c = bounded(forget * cells[i] + in * values[3 * B * d.units + i], a.cell_clip);
        float out = values[B * d.units + i];
        if (extra != nullptr) out = apply<exact>(functions[0], bounded(fmaf(extra[h + unit], c, out), a.clip));
        const bool runs = t < length_of(row);
        if (runs) cells[i] = c;
        finish(b, row, unit, runs, out * apply<exact>(functions[2], c));
      }
    } else if (a.layer == Recurrent::Layer::kRnn) {
      each([&](int i, int b, int row, int unit, const float(&gates)[4]) {
        const float v = gates[0] + sum_of(d.rows[0], b, i % d.units);
        finish(b, row, unit, t < length_of(row), apply<exact>(functions[0], bounded(v, a.clip)));
      });
    } else {
      const auto gate = [&](int i, int b, const float(&gates)[4], int g) {
        return apply<exact>(functions[0], bounded(gates[g] + sum_of(d.rows[0], b, g * d.units + i % d.units), a.clip));
      };
      const auto last = [&](int i, int b, int row, int unit, float candidate, float z) {
        const float n = apply<exact>(functions[1], bounded(candidate, a.clip));
        (void)i;
        finish(b, row, unit, t < length_of(row), (1.0f - z) * n + z * now[b * d.padded + unit]);
      };
      if (a.linear_before_reset) {
        each([&](int i, int b, int row, int unit, const float(&gates)[4]) {
          const float inner = sum_of(d.rows[0], b, 2 * d.units + i % d.units) + (extra == nullptr ? 0.0f : extra[unit]);
          const float reset = gate(i, b, gates, 1);
          last(i, b, row, unit, fmaf(reset, inner, gates[2]), gate(i, b, gates, 0));
        });
      } else {
        each([&](int i, int b, int, int unit, const float(&gates)[4]) {
          cells[i] = gate(i, b, gates, 0);
          write_to_all(resets + b * d.padded + unit, gate(i, b, gates, 1) * now[b * d.padded + unit], d.blocks);
        });
        sync_all(d.blocks);
        multiply_rows<T, B>(second_weights, d.rows[1], d.padded, resets, sums, &parts);
        __syncthreads();
        each([&](int i, int b, int row, int unit, const float(&gates)[4]) {
          last(i, b, row, unit, gates[2] + sum_of(d.rows[1], b, i % d.units), cells[i]);
        });
      }
    }
    sync_all(d.blocks);
  }
  const float* const final = states + (a.steps & 1) * B * d.padded;
  for (int i = thread; i < B * d.units; i += kThreads) {
    const int b = i / d.units, row = first_row + b, unit = first_unit + i % d.units;
    if (row >= a.batch || unit >= h) continue;
    const size_t at = all_states + static_cast<size_t>(row) * h + unit;
    if (a.y_h != nullptr) a.y_h[at] = from_float<T>(final[b * d.padded + unit]);
    if (a.y_c != nullptr) a.y_c[at] = from_float<T>(cells[i]);
  }
}

// y[m, n] = x[m, k] w[n, k]^T + bias[n] in f32, by tiles of 64 x 64: a thread makes 4 x 4.
constexpr int kTile = 64, kDepth = 16;

template <typename T>
__global__ void __launch_bounds__(256)
    input_kernel(const T* x, const T* w, const float* bias, float* y, int m, int n, int k) {
  __shared__ __align__(16) float xs[kDepth][kTile + 4], ws[kDepth][kTile + 4];
  allow_next();
  const int thread = static_cast<int>(threadIdx.x), across = thread % 16, down = thread / 16;
  const int m0 = static_cast<int>(blockIdx.y) * kTile, n0 = static_cast<int>(blockIdx.x) * kTile;
  w += static_cast<size_t>(blockIdx.z) * n * k;
  y += static_cast<size_t>(blockIdx.z) * m * n;
  wait_previous();
  float sum[4][4] = {};
  for (int k0 = 0; k0 < k; k0 += kDepth) {
#pragma unroll
    for (int i = thread; i < kTile * kDepth; i += 256) {
      const int row = i / kDepth, at = k0 + i % kDepth;
      xs[i % kDepth][row] = m0 + row < m && at < k ? to_float(x[static_cast<size_t>(m0 + row) * k + at]) : 0.0f;
      ws[i % kDepth][row] = n0 + row < n && at < k ? to_float(w[static_cast<size_t>(n0 + row) * k + at]) : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      const float4 u = *reinterpret_cast<const float4*>(&xs[i][down * 4]);
      const float4 v = *reinterpret_cast<const float4*>(&ws[i][across * 4]);
      const float us[4] = {u.x, u.y, u.z, u.w}, vs[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int r = 0; r < 4; ++r) {
#pragma unroll
        for (int c = 0; c < 4; ++c) sum[r][c] = fmaf(us[r], vs[c], sum[r][c]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int row = m0 + down * 4 + r, column = n0 + across * 4 + c;
      if (row < m && column < n)
        y[static_cast<size_t>(row) * n + column] =
            sum[r][c] + (bias == nullptr ? 0.0f : __ldg(bias + static_cast<size_t>(blockIdx.z) * n + column));
    }
  }
}

template <typename T, int B>
cudaError_t run_steps(const Arguments<T>& a, const Target& target) {
  const Division& d = a.division;
  const int64_t own = static_cast<int64_t>(B) * d.padded * (d.rows[1] > 0 ? 3 : 2) + round_up(B * d.units, 4) +
                      round_up(B * std::max({kThreads, d.rows[0], d.rows[1]}), 4) +
                      (a.layer == Recurrent::Layer::kLstm ? 4 * B * d.units : 0);
  const int64_t weights = d.block_count() * static_cast<int64_t>(sizeof(T));
  const int64_t most = target.capability >= 90 ? kMostShared : target.capability >= 80 ? 96 << 10 : 60 << 10;
  const bool held = own * 4 + weights <= most;
  const int64_t bytes = own * 4 + (held ? weights : 0);
  if (bytes > most) return cudaErrorInvalidValue;
  const auto kernel = held ? steps_kernel<T, B, true> : steps_kernel<T, B, false>;
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (error != cudaSuccess) return error;
  if (d.blocks > 8) {
    const cudaError_t allowed = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (allowed != cudaSuccess) return allowed;
  }
  const dim3 grid(static_cast<unsigned>((a.batch + B - 1) / B), static_cast<unsigned>(a.directions),
                  static_cast<unsigned>(d.blocks));
  return launch(target, kernel, grid, kThreads, static_cast<int>(bytes), d.blocks, a);
}

template <typename T>
cudaError_t run(const Recurrent& p, const Target& target) {
  const int gates = gates_of(p.layer), rows = p.steps * p.batch, columns = gates * p.hidden;
  if (p.batch == 0) return cudaSuccess;
  if (rows > 0 && p.x != nullptr) {
    const dim3 grid(static_cast<unsigned>((columns + kTile - 1) / kTile),
                    static_cast<unsigned>((rows + kTile - 1) / kTile), static_cast<unsigned>(p.directions));
    if (grid.y > 65535) return cudaErrorInvalidValue;
    const cudaError_t error = launch(target, input_kernel<T>, grid, 256, 0, 1, static_cast<const T*>(p.x),
                                     static_cast<const T*>(p.w), p.bias, p.workspace, rows, columns, p.features);
    if (error != cudaSuccess) return error;
  }
  if (is_common_lstm(p, target)) return lstm_steps(p, target);
  Arguments<T> a{};
  a.r = static_cast<const T*>(p.r);
  a.gates = p.workspace;
  a.extra = p.extra;
  a.lengths = p.lengths;
  a.h0 = static_cast<const T*>(p.h0);
  a.c0 = static_cast<const T*>(p.c0);
  a.y = static_cast<T*>(p.y);
  a.y_h = static_cast<T*>(p.y_h);
  a.y_c = static_cast<T*>(p.y_c);
  a.layer = p.layer;
  a.steps = p.steps, a.batch = p.batch, a.hidden = p.hidden, a.directions = p.directions, a.gate_count = gates;
  a.wide_lengths = p.wide_lengths, a.input_forget = p.input_forget, a.linear_before_reset = p.linear_before_reset;
  a.clip = p.clip, a.cell_clip = p.cell_clip;
  for (int direction = 0; direction < 2; ++direction) {
    a.backward[direction] = p.backward[direction];
    for (int f = 0; f < 3; ++f) a.functions[direction][f] = p.functions[direction][f];
  }
  a.division = divide(p, target);
  return p.batch == 1   ? run_steps<T, 1>(a, target)
         : p.batch <= 4 ? run_steps<T, 4>(a, target)
                        : run_steps<T, 8>(a, target);
}

}  // namespace

int64_t recurrent_workspace(const Recurrent& p) {
  return static_cast<int64_t>(p.directions) * p.steps * p.batch * gates_of(p.layer) * p.hidden * 4;
}

int64_t packed_recurrent_count(const Recurrent& p, const Target& target) {
  if (is_common_lstm(p, target)) return packed_lstm_count(p);
  const Division d = divide(p, target);
  return p.directions * d.blocks * d.block_count();
}

void pack_recurrent(const Recurrent& p, const Target& target, const float* r, float* packed) {
  if (is_common_lstm(p, target)) return pack_lstm(p, r, packed);
  const Division d = divide(p, target);
  const int h = p.hidden, gates = gates_of(p.layer);
  for (int direction = 0; direction < p.directions; ++direction) {
    for (int block = 0; block < d.blocks; ++block) {
      for (int product = 0; product < 2; ++product) {
        const int rows = d.rows[product], first_gate = product == 0 ? 0 : 2;
        for (int row = 0; row < rows; ++row) {
          const int gate = first_gate + row / d.units, unit = block * d.units + row % d.units;
          const float* from =
              r + (static_cast<size_t>(direction) * gates + gate) * h * h + static_cast<size_t>(unit) * h;
          for (int k = 0; k < d.padded; ++k)
            packed[(static_cast<size_t>(k / 4) * rows + row) * 4 + k % 4] = unit < h && k < h ? from[k] : 0.0f;
        }
        packed += static_cast<size_t>(rows) * d.padded;
      }
    }
  }
}

cudaError_t recurrent(const Recurrent& problem, const Target& target) {
  return with_float_type(problem.dtype, [&](auto number) { return run<decltype(number)>(problem, target); });
}

}  // namespace minnow::cuda
