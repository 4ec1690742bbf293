// Products of few rows with quantized weights, which become f16 in registers: each byte or half byte is put into the
// mantissa of 1024, so that it takes no conversion. As few_rows.cu otherwise.
#include "kernels/cuda/few_rows.cuh"
#include "kernels/cuda/tensor_core.cuh"

namespace minnow::cuda {
namespace {

constexpr int kThreads = kFewRowsWarps * 32;
[[maybe_unused]] constexpr int kAhead = 2;

struct Arguments {
  FewRowsArguments<half> product;
  const uint8_t* q;
  const float* scale;
  const uint8_t* zero;
  const float* offset;
  int group, groups;
};

[[maybe_unused]] __device__ __forceinline__ half2 as_half2(uint32_t v) { return *reinterpret_cast<const half2*>(&v); }
[[maybe_unused]] __device__ __forceinline__ uint32_t as_word(half2 v) { return *reinterpret_cast<const uint32_t*>(&v); }

// 1024 + q of 8 numbers, two in a word. Of 4 bits: 0 and 4, 1 and 5, 2 and 6, 3 and 7; of 8 bits: 0 and 1, ...
[[maybe_unused]] __device__ __forceinline__ void widen(uint32_t word, uint32_t (&out)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) out[i] = ((word >> (4 * i)) & 0x000f000fu) | 0x64006400u;
}
[[maybe_unused]] __device__ __forceinline__ void widen(uint32_t low, uint32_t high, uint32_t (&out)[4]) {
  constexpr uint32_t kMagic = 0x64646464u;
  out[0] = __byte_perm(low, kMagic, 0x4140);
  out[1] = __byte_perm(low, kMagic, 0x4342);
  out[2] = __byte_perm(high, kMagic, 0x4140);
  out[3] = __byte_perm(high, kMagic, 0x4342);
}

// Along k a thread reads 16 bytes: 32 numbers of 4 bits, 16 of 8.
template <int bits, int tiles>
__global__ void __launch_bounds__(kThreads) quantized_kernel(const __grid_constant__ Arguments a) {
#if __CUDA_ARCH__ >= 800
  constexpr int kRun = 128 / bits, kStep = 4 * kRun;  // numbers of a thread, and of its four
  __shared__ float part[kFewRowsWarps][tiles * 16][8];
  allow_next();
  const FewRowsArguments<half>& p = a.product;
  const int lane = static_cast<int>(threadIdx.x) & 31, warp = static_cast<int>(threadIdx.x) >> 5;
  const int quad = lane >> 2, pair = lane & 3;
  const int first = static_cast<int>(blockIdx.x) * tiles * 16;
  const int steps = (p.k + kStep - 1) / kStep, each = (steps + kFewRowsWarps - 1) / kFewRowsWarps;
  const int begin = warp * each, end = min(begin + each, steps);
  constexpr int kLines = 2 * tiles;  // columns of y of a thread
  int columns[kLines];
#pragma unroll
  for (int h = 0; h < kLines; ++h) columns[h] = min(first + quad + h * 8, p.n - 1);
  struct Weights {
    uint4 q[kLines];
    float scale[kLines], offset[kLines];
    int zero[kLines];
  };
  Weights w[kAhead];
  const auto read_weights = [&](Weights& to, int step) {
    const int at = step * kStep + pair * kRun;
    const bool there = step < end && at < p.k;
#pragma unroll
    for (int h = 0; h < kLines; ++h) {
      to.q[h] = make_uint4(0, 0, 0, 0);
      to.scale[h] = to.offset[h] = 0.0f;
      to.zero[h] = bits == 4 ? 8 : 128;
      if (!there) continue;
      to.q[h] = load_once(a.q + (static_cast<size_t>(columns[h]) * p.k + at) * bits / 8);
      const size_t group = static_cast<size_t>(columns[h]) * a.groups + at / a.group;
      to.scale[h] = __ldg(a.scale + group);
      if (a.zero != nullptr) to.zero[h] = __ldg(a.zero + group);
      if (a.offset != nullptr) to.offset[h] = __ldg(a.offset + group);
    }
  };
#pragma unroll
  for (int i = 0; i < kAhead; ++i) read_weights(w[i], begin + i);
  wait_previous();
  const half* x = p.x + quad * p.x_row + pair * kRun;
  const bool has_row = quad < p.rows;
  float sum[tiles][4] = {};
  for (int step = begin; step < end; step += kAhead) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const bool there = has_row && step + i < end && (step + i) * kStep + pair * kRun < p.k;
      half2 scale[kLines], zero[kLines], offset[kLines];
#pragma unroll
      for (int h = 0; h < kLines; ++h) {
        scale[h] = __float2half2_rn(w[i].scale[h]);
        offset[h] = __float2half2_rn(w[i].offset[h]);
        zero[h] = __half2half2(__int2half_rn(1024 + w[i].zero[h]));
      }
#pragma unroll
      for (int r = 0; r < kRun / 8; ++r) {
        uint4 v = make_uint4(0, 0, 0, 0);
        if (there) v = *reinterpret_cast<const uint4*>(x + static_cast<size_t>(step + i) * kStep + r * 8);
        if constexpr (bits == 4)  // in the order of the weights
          v = make_uint4(__byte_perm(v.x, v.z, 0x5410), __byte_perm(v.x, v.z, 0x7632), __byte_perm(v.y, v.w, 0x5410),
                         __byte_perm(v.y, v.w, 0x7632));
        uint32_t values[kLines][4];
#pragma unroll
        for (int h = 0; h < kLines; ++h) {
          const uint32_t words[4] = {w[i].q[h].x, w[i].q[h].y, w[i].q[h].z, w[i].q[h].w};
          if constexpr (bits == 4) {
            widen(words[r], values[h]);
          } else {
            widen(words[2 * r], words[2 * r + 1], values[h]);
          }
#pragma unroll
          for (int e = 0; e < 4; ++e)
            values[h][e] = as_word(__hfma2(__hsub2(as_half2(values[h][e]), zero[h]), scale[h], offset[h]));
        }
#pragma unroll
        for (int t = 0; t < tiles; ++t) {
          const uint32_t(&low)[4] = values[2 * t], (&high)[4] = values[2 * t + 1];
          multiply(sum[t], {low[0], high[0], low[1], high[1]}, v.x, v.y, half());
          multiply(sum[t], {low[2], high[2], low[3], high[3]}, v.z, v.w, half());
        }
      }
      read_weights(w[i], step + kAhead + i);
    }
  }
#pragma unroll
  for (int t = 0; t < tiles; ++t) {
#pragma unroll
    for (int e = 0; e < 4; ++e) part[warp][t * 16 + quad + (e >> 1) * 8][pair * 2 + (e & 1)] = sum[t][e];
  }
  join_few<half, tiles * 16>(p, first, &part[0][0][0]);
#endif
}

}  // namespace

bool few_rows_quantized_fits(const FewRowsQuantized& p, const Target& target) {
  FewRows product = p.product;
  product.w = p.q;
  const bool aligned = reinterpret_cast<uintptr_t>(p.q) % 16 == 0;
  return target.capability >= 80 && product.dtype == DType::kF16 && aligned && few_rows_fits(product, target) &&
         (p.bits == 4 || p.bits == 8) && p.group > 0 && p.group % 32 == 0 && product.k % p.group == 0;
}

cudaError_t few_rows_quantized(const FewRowsQuantized& p, const Target& target) {
  if (!few_rows_quantized_fits(p, target)) return cudaErrorInvalidValue;
  const FewRows& r = p.product;
  if (r.n == 0 || r.rows == 0) return cudaSuccess;
  const Arguments a = {{static_cast<const half*>(r.x), nullptr, r.bias, static_cast<const half*>(r.residual),
                        static_cast<half*>(r.y), r.rows, r.n, r.k, r.x_row, r.y_row, r.activation},
                       p.q,
                       p.scale,
                       p.zero,
                       p.offset,
                       p.group,
                       r.k / p.group};
  return launch(target, p.bits == 4 ? quantized_kernel<4, 1> : quantized_kernel<8, 1>,
                dim3(static_cast<unsigned>((r.n + 15) / 16)), kThreads, 0, 1, a);
}

}  // namespace minnow::cuda
