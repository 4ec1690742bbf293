// Times products of few rows with weights that no cache holds: time_fast_decode [BITS ROWS], 0 bits for f16.
#include "bench/gpu/time_fast.h"
#include "kernels/cuda/few_rows.h"
#include "kernels/cuda/quantized_tile.h"

namespace minnow::cuda::bench {
namespace {

void time_few(int rows, int n, int k, int bits, DType dtype = DType::kF16) {
  const size_t element = dtype == DType::kF32 ? 4 : 2;
  QuantizedTiles tiles;
  tiles.n = n, tiles.k = k, tiles.bits = bits == 0 ? 8 : bits, tiles.group = 128;
  const auto w_bytes = bits == 0 ? static_cast<size_t>(n) * k * element : static_cast<size_t>(tiles.bytes());
  const auto scale_bytes = static_cast<size_t>(tiles.scales()) * 4;
  const int copies = static_cast<int>(std::max<size_t>(2, (size_t{512} << 20) / w_bytes));
  Memory w(w_bytes * static_cast<size_t>(copies)), x(static_cast<size_t>(rows) * k * 4);
  Memory y(static_cast<size_t>(rows) * n * 4), scale(scale_bytes * static_cast<size_t>(copies));
  FewRows p;
  p.dtype = dtype, p.rows = rows, p.n = n, p.k = k, p.x_row = k, p.y_row = n;
  p.x = x.at(), p.y = y.at();
  FewRowsQuantized f;
  f.bits = bits, f.group = tiles.group;
  const double us = time_of(
      copies,
      [&](int i, const Target& t) {
        const char* weights = w.at(static_cast<size_t>(i) * w_bytes);
        if (bits == 0) {
          p.w = weights;
          return few_rows(p, t);
        }
        f.product = p;
        f.q = reinterpret_cast<const uint8_t*>(weights);
        f.scale = scale.at<float>(static_cast<size_t>(i) * scale_bytes);
        return few_rows_quantized(f, t);
      },
      9);
  line("rows " + std::to_string(rows) + " of " + std::to_string(k) + " to " + std::to_string(n) +
           (bits == 0 ? dtype == DType::kF32 ? " f32" : " f16" : ", bits " + std::to_string(bits)),
       us, static_cast<double>(w_bytes + (bits == 0 ? 0 : scale_bytes)), 2.0 * rows * n * k);
}

}  // namespace
}  // namespace minnow::cuda::bench

int main(int argc, char** argv) {
  using namespace minnow::cuda::bench;
  const int shapes[][2] = {{768, 768},    {3072, 768},   {4096, 4096},  {6144, 4096},
                           {14336, 4096}, {4096, 14336}, {128256, 4096}};
  if (argc > 2) {
    for (const auto& s : shapes) time_few(std::atoi(argv[2]), s[0], s[1], std::atoi(argv[1]));
    return 0;
  }
  for (const int bits : {0, 8, 4})
    for (const int rows : {1, 4, 8})
      for (const auto& s : shapes) time_few(rows, s[0], s[1], bits);
  time_few(1, 4096, 4096, 0, minnow::DType::kF32);
  time_few(8, 4096, 4096, 0, minnow::DType::kF32);
  time_few(1, 14336, 4096, 0, minnow::DType::kF32);
  return 0;
}
