// The rows of a stage in shared memory, which mma_kernel copies there, are made here: 64 channels of the results of the
// depthwise convolution. It is computed as in depthwise.cu: products of a row of the window are summed in f16, these
// sums in f32, and results rounded to f16.
#include "kernels/cuda/separable.h"

#include <algorithm>
#include <vector>

#include "kernels/cuda/product/mma_kernel.cuh"

namespace minnow::cuda {
namespace {

constexpr int kStepChannels = 64;

struct SeparableArguments {
  ProductArguments product;  // x is the image that the depthwise convolution reads; its window and sizes are that one's
  const __half* taps;        // [size * size, channels]
  const float* bias;         // of the depthwise convolution, or null
  Activation activation;     // likewise
  int channels;              // of the memory of both images
};

// sum += the products of 8 channels of kSize pixels and their weights.
template <int kSize>
__device__ __forceinline__ void add_products(const uint4 (&in)[kSize], const uint4* taps, float (&sum)[8]) {
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const auto pair = [e](const uint4& v) {
      const uint32_t word = e == 0 ? v.x : e == 1 ? v.y : e == 2 ? v.z : v.w;
      return *reinterpret_cast<const __half2*>(&word);
    };
    __half2 products = __hmul2(pair(in[0]), pair(taps[0]));
#pragma unroll
    for (int t = 1; t < kSize; ++t) products = __hfma2(pair(in[t]), pair(taps[t]), products);
    const float2 f = __half22float2(products);
    sum[2 * e] += f.x;
    sum[2 * e + 1] += f.y;
  }
}

// Makes 8 channels of some rows of the image between: chunk `thread % 8` of rows that are kRows apart.
template <int kRows, int kPasses, int kSize>
class Maker {
 public:
  __device__ __forceinline__ Maker(const SeparableArguments& s, int thread, int tile_m, int first) {
    const ProductArguments& a = s.product;
    const int chunk = thread & 7, row = thread >> 3;
    place_ = row * 128 + ((chunk ^ (row & 7)) << 4);
    channel_ = first * kStepChannels + chunk * 8;
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      const int m = tile_m + row + i * kRows, n = m / (a.P * a.Q), pixel = m - n * a.P * a.Q;
      const int p = pixel / a.Q, q = pixel - p * a.Q;
      top_[i] = m < a.M ? p * a.stride_h - a.pad_h : -kSize;  // no row of the image then
      left_[i] = q * a.stride_w - a.pad_w;
      offset_[i] = (n * a.H + top_[i]) * a.pitch + left_[i] * a.pixel;
    }
    read_constants(s);
  }

  // Of the next step: nothing that another kernel writes.
  __device__ __forceinline__ void read_constants(const SeparableArguments& s) {
    const bool inside = channel_ < s.channels;
#pragma unroll
    for (int e = 0; e < 8; ++e) bias_[e] = inside && s.bias != nullptr ? __ldg(s.bias + channel_ + e) : 0.f;
    if constexpr (kSize == 3) {
#pragma unroll
      for (int r = 0; r < kSize; ++r) read_taps(s, r, taps_ + r * kSize);
    }
  }

  __device__ __forceinline__ void make(const SeparableArguments& s, uint32_t to) {
    const ProductArguments& a = s.product;
    const __half* const x = static_cast<const __half*>(a.x) + channel_;
    const int left = a.C - channel_;
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      float sum[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) sum[e] = bias_[e];
#pragma unroll
      for (int r = 0; r < kSize; ++r) {
        const bool row = left > 0 && static_cast<unsigned>(top_[i] + r) < static_cast<unsigned>(a.H);
        uint4 in[kSize];
#pragma unroll
        for (int c = 0; c < kSize; ++c) {
          const bool inside = row && static_cast<unsigned>(left_[i] + c) < static_cast<unsigned>(a.W);
          in[c] = inside ? *reinterpret_cast<const uint4*>(x + (offset_[i] + r * a.pitch + c * a.pixel))
                         : make_uint4(0, 0, 0, 0);
        }
        if constexpr (kSize == 3) {
          add_products<kSize>(in, taps_ + r * kSize, sum);
        } else {
          uint4 taps[kSize];
          read_taps(s, r, taps);
          add_products<kSize>(in, taps, sum);
        }
      }
      activate<false>(sum, s.activation);
      // Lanes beyond the channels may hold anything in x; they must not be multiplied, not even with zeros.
#pragma unroll
      for (int e = 0; e < 8; ++e) sum[e] = e < left ? sum[e] : 0.f;
      store_words(to + place_ + i * kRows * 128,
                  make_uint4(narrow<__half>(sum[0], sum[1]), narrow<__half>(sum[2], sum[3]),
                             narrow<__half>(sum[4], sum[5]), narrow<__half>(sum[6], sum[7])));
    }
    channel_ += kStepChannels;
  }

 private:
  __device__ __forceinline__ void read_taps(const SeparableArguments& s, int row, uint4* to) const {
#pragma unroll
    for (int c = 0; c < kSize; ++c)
      to[c] = channel_ < s.channels
                  ? __ldg(reinterpret_cast<const uint4*>(s.taps + (row * kSize + c) * s.channels + channel_))
                  : make_uint4(0, 0, 0, 0);
  }

  uint32_t place_;
  int channel_;
  int top_[kPasses], left_[kPasses], offset_[kPasses];
  float bias_[8];
  uint4 taps_[kSize == 3 ? 9 : 1];
};

template <int kM, int kN, int kWarpM, int kWarpN, int kStages, int kSize>
__global__ void __launch_bounds__((kM / kWarpM) * (kN / kWarpN) * 32, 1)
    separable_kernel(const __grid_constant__ SeparableArguments s) {
  using T = __half;
  constexpr int kWarpsM = kM / kWarpM, kThreads = kWarpsM * (kN / kWarpN) * 32, kRows = kThreads / 8;
  constexpr int kBlocksM = kWarpM / 16, kBlocksN = kWarpN / 8;
  static_assert(kM % kRows == 0 && kN % kRows == 0 && kRows % 8 == 0, "all threads have the same number of rows");
  static_assert(kM * (kN + 4) * 4 <= (2 * kM + kStages * kN) * 128, "the sums of a tile fit where its operands were");
  extern __shared__ __align__(1024) char shared[];
  const ProductArguments& a = s.product;
  const uint32_t stage_a = shared_address(shared), stage_b = stage_a + 2 * kM * 128;
  const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
  const int warp_m = warp % kWarpsM * kWarpM, warp_n = warp / kWarpsM * kWarpN;
  const int tile_m = blockIdx.x / a.column_tiles * kM, tile_n = blockIdx.x % a.column_tiles * kN;
  const int first = blockIdx.z * a.steps_each, steps = min(a.steps - first, a.steps_each);
  let_next_start();

  // Of x nothing is loaded by it.
  Loader<T, kRows, kN, kThreads, true, false> weights(a, thread, tile_m, tile_n, first);
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) {
    if (i < steps) weights.load_w(a, stage_b + i * kN * 128);
    commit_copies();
  }
  Maker<kRows, kM / kRows, kSize> maker(s, thread, tile_m, first);
  wait_for_previous();
  float sum[kBlocksM][kBlocksN * 4];
  begin_sums<T, 16, true>(a.end, 0, 0, a.M, tile_m + warp_m, tile_n + warp_n, lane, blockIdx.z == 0, sum);
  int stage = 0;
  for (int step = 0; step < steps; ++step) {
    const uint32_t rows = stage_a + (step & 1) * kM * 128;
    maker.make(s, rows);
    if (step + 1 < steps) maker.read_constants(s);
    wait_copies<kStages - 2>();
    __syncthreads();  // whoever is still at the step before last has passed the one between: its rows are free
    if (step + kStages - 1 < steps) weights.load_w(a, stage_b + (stage == 0 ? kStages - 1 : stage - 1) * kN * 128);
    commit_copies();
    multiply_step<T>(rows, stage_b + stage * kN * 128, warp_m, warp_n, lane, sum);
    if (++stage == kStages) stage = 0;
  }
  finish_tile<T, kM, kN, kThreads>(a, 0, 0, tile_m, tile_n, warp_m, warp_n, thread, stage_a, sum);
}

struct Form {
  void (*small)(SeparableArguments);  // windows of 3 x 3
  void (*large)(SeparableArguments);  // of 5 x 5
  int m, n, threads, stages;
};

#define MINNOW_FORM(M, N, WM, WN, STAGES)                                                       \
  {                                                                                             \
    separable_kernel<M, N, WM, WN, STAGES, 3>, separable_kernel<M, N, WM, WN, STAGES, 5>, M, N, \
        (M / WM) * (N / WN) * 32, STAGES                                                        \
  }
const Form kForms[] = {
    MINNOW_FORM(16, 64, 16, 16, 3), MINNOW_FORM(32, 32, 16, 16, 3), MINNOW_FORM(32, 64, 16, 16, 3),
    MINNOW_FORM(64, 32, 16, 16, 3), MINNOW_FORM(64, 64, 32, 16, 3),
};

int div_up(int a, int b) { return (a + b - 1) / b; }

struct Scheme {
  const Form* form;
  int cluster;
  double cost;
};

// In microseconds, as a guess: steps one after the other, and what blocks of a cluster have to tell each other.
double cost_of(const ProductArguments& a, const Form& form, int cluster, int processors) {
  const int steps = div_up(div_up(a.C, kStepChannels), cluster), passes = form.m * 8 / form.threads;
  const double blocks = 1.0 * div_up(a.M, form.m) * div_up(a.N, form.n) * cluster;
  return steps * (0.4 + 0.3 * passes) * std::max(1.0, blocks / (2.0 * processors)) + (cluster > 1 ? 0.8 : 0);
}

bool is_possible(const Separable& p, const Target& target) {
  const Depthwise& d = p.depthwise;
  const ProductArguments& a = p.pointwise.shape;
  constexpr int64_t kMost = int64_t{1} << 30;
  return target.capability >= 80 && d.dtype == DType::kF16 && d.kernel_height == d.kernel_width &&
         (d.kernel_height == 3 || d.kernel_height == 5) && d.dilation_y == 1 && d.dilation_x == 1 &&
         p.pointwise.batch == 1 && a.R * a.S == 1 && a.constant_w && a.M > 0 && a.N > 0 && a.C > 0 &&
         a.pixel == d.channels && int64_t{d.images} * d.height * d.width * d.channels < kMost;
}

std::vector<Scheme> schemes_of(const Separable& p, const Target& target) {
  constexpr size_t kMostSchemes = 12;
  std::vector<Scheme> schemes;
  if (!is_possible(p, target)) return schemes;
  const ProductArguments& a = p.pointwise.shape;
  for (const Form& form : kForms) {
    if ((form.m > 16 && a.M <= form.m / 2) || (form.n > 32 && a.N <= form.n / 2 && a.M > 16)) continue;
    const int steps = div_up(a.C, kStepChannels);
    const int64_t tiles = int64_t{div_up(a.M, form.m)} * div_up(a.N, form.n);
    for (const int cluster : {1, 2, 4, 8}) {
      if (cluster > 1 && (target.capability < 90 || div_up(steps, cluster) * (cluster - 1) >= steps ||
                          tiles * cluster > 8 * target.multiprocessors))
        continue;
      schemes.push_back({&form, cluster, cost_of(a, form, cluster, target.multiprocessors)});
    }
  }
  std::stable_sort(schemes.begin(), schemes.end(), [](const Scheme& x, const Scheme& y) { return x.cost < y.cost; });
  if (schemes.size() > kMostSchemes) schemes.resize(kMostSchemes);
  return schemes;
}

}  // namespace

int separable_schemes(const Separable& problem, const Target& target) {
  return static_cast<int>(schemes_of(problem, target).size());
}

std::string separable_name(const Separable& problem, int scheme, const Target& target) {
  const Scheme s = schemes_of(problem, target)[static_cast<size_t>(scheme)];
  return "separable" + std::to_string(s.form->m) + "x" + std::to_string(s.form->n) +
         (s.cluster > 1 ? " z" + std::to_string(s.cluster) : "");
}

cudaError_t separable(const Separable& problem, int scheme, const ProductOperands& operands, const Target& target) {
  const std::vector<Scheme> schemes = schemes_of(problem, target);
  if (scheme < 0 || scheme >= static_cast<int>(schemes.size())) return cudaErrorInvalidValue;
  const Form& form = *schemes[static_cast<size_t>(scheme)].form;
  const int cluster = schemes[static_cast<size_t>(scheme)].cluster;
  const Depthwise& d = problem.depthwise;
  SeparableArguments s;
  ProductArguments& a = s.product = problem.pointwise.shape;
  a.x = a.more = d.x;
  a.w = operands.w;
  a.end.bias = operands.bias;
  a.end.residual = operands.residual;
  a.end.y = operands.y;
  a.H = d.height, a.W = d.width, a.P = d.out_height, a.Q = d.out_width;
  a.stride_h = d.stride_y, a.stride_w = d.stride_x, a.pad_h = d.pad_y, a.pad_w = d.pad_x;
  a.pitch = a.W * a.pixel;
  a.steps = div_up(a.C, kStepChannels);
  a.steps_each = div_up(a.steps, cluster);
  a.column_tiles = div_up(a.N, form.n);
  s.taps = static_cast<const __half*>(d.weights);
  s.bias = d.bias;
  s.activation = d.activation;
  s.channels = d.channels;
  const dim3 grid(static_cast<unsigned>(div_up(a.M, form.m) * a.column_tiles), 1, static_cast<unsigned>(cluster));
  return launch(target, d.kernel_height == 3 ? form.small : form.large, grid, form.threads,
                (2 * form.m + form.stages * form.n) * 128, cluster, s);
}

}  // namespace minnow::cuda
