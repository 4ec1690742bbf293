// Matrix products in the shapes of transformers, one thread: with all weights in the caches, and with weights that come
// from memory, as in a model where each layer has its own. The median of some runs, in GFLOP/s and in percent of what
// this processor multiplies at that moment; times are those of the thread, so that others may compute meanwhile.
//
//   bench_gemm            all rows
//   bench_gemm 197        those whose name contains "197"
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "kernels/core/float_buffer.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/machine/simd.h"
#include "kernels/cpu/gemm/micro_kernel.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace {

using minnow::FloatBuffer;

constexpr int64_t kColdFloats = int64_t{30} << 20;  // more than any cache of one core holds

double thread_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void fill(FloatBuffer* buffer, int64_t floats) {
  buffer->allocate(floats);
  for (int64_t i = 0; i < floats; ++i) buffer->data()[i] = static_cast<float>((i * 37) % 101) * 0.01f - 0.5f;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Seconds that a tile takes for `flops` operations on numbers in the first-level cache.
double seconds_at_peak(double flops) {
  static FloatBuffer in, w, out;
  constexpr int64_t kSteps = 256;
  const int64_t pack = minnow::pack_width(), pixels = minnow::tile_pixels(2);
  if (in.empty()) {
    fill(&in, kSteps * pixels);
    fill(&w, 2 * kSteps * pack);
    fill(&out, 64 * pack);
  }
  minnow::Tile t;
  t.in = in.data();
  t.in_pixel = kSteps;
  t.w = w.data();
  t.w_block = kSteps * pack;
  t.out = out.data();
  t.out_pixel = 2 * pack;
  t.out_block = pack;
  t.lanes = static_cast<int>(pack);
  t.steps[0].length = kSteps;
  t.steps[1].outer = 0;
  const minnow::TileFunction busy = minnow::tile_function(2, static_cast<int>(pixels));
  const double begin = thread_seconds();
  constexpr int kTiles = 400;
  for (int i = 0; i < kTiles; ++i) busy(t);
  const double seconds = thread_seconds() - begin;
  return seconds * flops / (2.0 * static_cast<double>(2 * pack * pixels * kSteps) * kTiles);
}

void bench(int64_t m, int64_t k, int64_t n, const char* kind, const char* wanted) {
  char name[64];
  std::snprintf(name, sizeof name, "%lldx%lldx%lld %s", static_cast<long long>(m), static_cast<long long>(k),
                static_cast<long long>(n), kind);
  if (std::strstr(name, wanted) == nullptr) return;
  minnow::Activation activation;
  if (std::strcmp(kind, "gelu") == 0) activation.kind = minnow::Activation::Kind::kGelu;
  const bool residual = std::strcmp(kind, "residual") == 0;
  const minnow::Gemm gemm(m, n, k, false, activation, 1);
  const int64_t packed_floats = (minnow::gemm_packed_floats(k, n) + 63) / 64 * 64;
  const int copies = static_cast<int>(kColdFloats / packed_floats + 1);
  FloatBuffer a, b, c, start, bias, workspace;
  std::vector<FloatBuffer> packed(static_cast<size_t>(copies));
  fill(&a, m * k);
  fill(&b, n * k);
  fill(&c, m * n);
  fill(&start, m * n);
  fill(&bias, n + 64);
  for (FloatBuffer& p : packed) {
    p.allocate(packed_floats);
    minnow::gemm_pack_b(b.data(), n, false, k, n, p.data(), nullptr);
  }
  workspace.allocate(gemm.workspace_bytes() / 4 + 16);
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const int runs = static_cast<int>(std::clamp(4e9 / flops, 9.0, 60.0));
  double rate[2], share[2];
  for (int cold = 0; cold < 2; ++cold) {
    std::vector<double> rates, shares;
    for (int i = 0; i < runs; ++i) {
      const double at_peak = seconds_at_peak(flops);
      const minnow::GemmCall call = {a.data(),    k,
                                     false,       packed[static_cast<size_t>(cold * i % copies)].data(),
                                     bias.data(), c.data(),
                                     n,           workspace.data(),
                                     nullptr,     residual ? start.data() : nullptr};
      const double begin = thread_seconds();
      gemm.run(call);
      const double seconds = thread_seconds() - begin;
      if (i < 2) continue;
      rates.push_back(flops / seconds * 1e-9);
      shares.push_back(100 * at_peak / seconds);
    }
    rate[cold] = median(rates);
    share[cold] = median(shares);
  }
  std::printf("%-26s cached %6.1f %5.1f %%   from memory %6.1f %5.1f %%\n", name, rate[0], share[0], rate[1], share[1]);
}

}  // namespace

int main(int argc, char** argv) {
  const char* wanted = argc > 1 ? argv[1] : "";
  std::printf("%s, GFLOP/s and percent of the peak of a tile (%.1f)\n", minnow::isa_name(), 1e-9 / seconds_at_peak(1));
  const int64_t vit = 197, bert = 128;
  bench(vit, 384, 1152, "", wanted);
  bench(vit, 384, 384, "residual", wanted);
  bench(vit, 384, 1536, "gelu", wanted);
  bench(vit, 384, 1536, "", wanted);
  bench(vit, 1536, 384, "residual", wanted);
  bench(bert, 768, 768, "", wanted);
  bench(bert, 768, 2304, "", wanted);
  bench(bert, 768, 3072, "gelu", wanted);
  bench(bert, 768, 3072, "", wanted);
  bench(bert, 3072, 768, "residual", wanted);
  for (int64_t size : {256, 512, 1024, 1536}) bench(size, size, size, "", wanted);
}
