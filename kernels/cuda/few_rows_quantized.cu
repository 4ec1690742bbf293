// Products of few rows with quantized weights, on tensor cores. A block makes 16 columns of y; its warps take the units
// along k in turn, so that it reads one piece of memory after the other. All of it that the registers have room for is
// asked for before the kernel before this one has ended.
#include "kernels/cuda/few_rows_quantized.cuh"

namespace minnow::cuda {
namespace {

[[maybe_unused]] constexpr int kUnitsAhead = 2;

// kScales: that a unit reads.
template <int bits, int kScales, bool offsets, int kWarps, int kBlocks>
__global__ void __launch_bounds__(kWarps * 32, kBlocks) quantized_kernel(const __grid_constant__ QuantizedArguments a) {
#if __CUDA_ARCH__ >= 800
  __shared__ float part[kWarps][16][8];
  allow_next();
  const FewRowsArguments<half>& p = a.product;
  const int lane = static_cast<int>(threadIdx.x) & 31, warp = static_cast<int>(threadIdx.x) >> 5;
  const int quad = lane >> 2, pair = lane & 3, units = a.units;
  const uint4* q = a.q + static_cast<size_t>(blockIdx.x) * units * 64 + lane;
  const size_t first_scale = static_cast<size_t>(blockIdx.x) * a.groups * 8 + quad;
  struct Weights {
    uint4 q[2];
    float2 scale[kScales], offset[offsets ? kScales : 1];
  };
  Weights w[kUnitsAhead];
  const auto read_weights = [&](Weights& to, int unit) {
    if (unit >= units) return;
    to.q[0] = load_once(q + static_cast<size_t>(unit) * 64);
    to.q[1] = load_once(q + static_cast<size_t>(unit) * 64 + 32);
#pragma unroll
    for (int s = 0; s < kScales; ++s) {
      int rest = unit * kScales + s;
      const int group = min(a.scales_of_group.split(&rest), a.groups - 1);
      to.scale[s] = __ldg(a.scale + first_scale + group * 8);
      if constexpr (offsets) to.offset[s] = __ldg(a.offset + first_scale + group * 8);
    }
  };
#pragma unroll
  for (int i = 0; i < kUnitsAhead; ++i) read_weights(w[i], warp + i * kWarps);
  FewRowsEnd<half, 16, kWarps> end(p, static_cast<int>(blockIdx.x) * 16);
  wait_previous();
  end.read_residual(p);
  // What there is no row for is computed as the last one, and not written.
  const half* x = p.x + min(quad, p.rows - 1) * p.x_row + pair * 8;
  uint4 v[QuantizedUnit<bits>::kParts];
  read_x<bits, offsets>(x, p.k, warp, v);
  float sum[4] = {};
  for (int begin = warp; begin < units; begin += kWarps * kUnitsAhead) {
#pragma unroll
    for (int i = 0; i < kUnitsAhead; ++i) {
      const int unit = begin + i * kWarps;
      if (unit >= units) break;
      add_unit<bits, kScales, offsets>(w[i].q, v, w[i].scale, w[i].offset, sum);
      read_x<bits, offsets>(x, p.k, unit + kWarps, v);
      read_weights(w[i], unit + kWarps * kUnitsAhead);
    }
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) part[warp][quad + (e >> 1) * 8][pair * 2 + (e & 1)] = sum[e];
  end.join(p, &part[0][0][0]);
#endif
}

template <int bits, int kScales, int kWarps, int kBlocks>
cudaError_t run(const QuantizedArguments& a, const Target& target) {
  const auto kernel = a.offset == nullptr ? quantized_kernel<bits, kScales, false, kWarps, kBlocks>
                                          : quantized_kernel<bits, kScales, true, kWarps, kBlocks>;
  return launch(target, kernel, dim3(static_cast<unsigned>((a.product.n + 15) / 16)), kWarps * 32, 0, 1, a);
}

// Where all blocks are on the processors at once, more warps share a tile; else there are more blocks.
template <int bits>
cudaError_t run_one_scale(const QuantizedArguments& a, const Target& target) {
  return (a.product.n + 15) / 16 <= 2 * target.multiprocessors ? run<bits, 1, 16, 2>(a, target)
                                                               : run<bits, 1, 8, 4>(a, target);
}

}  // namespace

bool few_rows_quantized_fits(const FewRowsQuantized& p, const Target& target) {
  FewRows product = p.product;
  product.w = p.q;
  const auto aligned = [](const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; };
  return target.capability >= 80 && product.dtype == DType::kF16 && few_rows_fits(product, target) &&
         aligned(p.scale) && aligned(p.offset) && (p.bits == 4 || p.bits == 8) && p.group > 0 && p.group % 32 == 0 &&
         product.k % p.group == 0;
}

cudaError_t few_rows_quantized(const FewRowsQuantized& p, const Target& target) {
  if (!few_rows_quantized_fits(p, target)) return cudaErrorInvalidValue;
  const FewRows& r = p.product;
  if (r.n == 0 || r.rows == 0) return cudaSuccess;
  const QuantizedTiles tiles{r.n, r.k, p.bits, p.group};
  const int unit = 512 / p.bits;
  int scales = 1;
  while (p.group % (unit / scales) != 0) scales *= 2;
  const QuantizedArguments a = {{static_cast<const half*>(r.x), nullptr, r.bias, static_cast<const half*>(r.residual),
                                 static_cast<half*>(r.y), r.rows, r.n, r.k, r.x_row, r.y_row, r.activation},
                                reinterpret_cast<const uint4*>(p.q),
                                reinterpret_cast<const float2*>(p.scale),
                                reinterpret_cast<const float2*>(p.offset),
                                tiles.units(),
                                tiles.groups(),
                                Divisor(p.group / (unit / scales))};
  if (p.bits == 8) return scales == 1 ? run_one_scale<8>(a, target) : run<8, 2, 8, 3>(a, target);
  return scales == 1   ? run_one_scale<4>(a, target)
         : scales == 2 ? run<4, 2, 8, 3>(a, target)
                       : run<4, 4, 8, 2>(a, target);
}

}  // namespace minnow::cuda
