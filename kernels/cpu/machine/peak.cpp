#include "kernels/cpu/machine/peak.h"

#include <algorithm>
#include <chrono>

#include "kernels/core/float_buffer.h"
#include "kernels/cpu/gemm/micro_kernel.h"
#include "kernels/core/tensor.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

constexpr int64_t kSteps = 256;        // of a tile: what it reads stays in the first-level cache
constexpr int64_t kTiles = 50;         // of a round: short, to find a moment when no other process is in the way
constexpr int64_t kPanels = 64;        // of weights that are read once: 64 MiB with 16 lanes
constexpr int64_t kPanelSteps = 4096;  // in a block of a panel
constexpr int kRounds = 20, kBlocks = 4;

template <typename Run>
double best_seconds(const Run& run) {
  double best = 1e9;
  for (int i = 0; i < kRounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

// A tile over `steps` steps of blocks of weights that lie one after the other.
Tile tile_of(const float* in, const float* w, float* out, int64_t steps) {
  const int64_t pack = pack_width();
  Tile t;
  t.in = in;
  t.in_pixel = steps;
  t.w = w;
  t.w_block = steps * pack;
  t.out = out;
  t.out_pixel = pack;
  t.out_block = 16 * pack;
  t.lanes = static_cast<int>(pack);
  t.steps[0].length = steps;
  t.steps[1].outer = 0;
  return t;
}

}  // namespace

Peak measure_peak(ThreadPool& pool) {
  const int64_t pack = pack_width(), threads = pool.threads(), pixels = tile_pixels(2);
  FloatBuffer in, near, far, out;
  const int64_t in_floats = std::max(kSteps * pixels, kPanelSteps), out_floats = 16 * kBlocks * pack;
  const int64_t near_floats = 2 * kSteps * pack, panel_floats = kBlocks * kPanelSteps * pack;
  in.allocate(in_floats);
  near.allocate(near_floats);
  far.allocate(kPanels * panel_floats);
  out.allocate(threads * out_floats);
  std::fill_n(in.data(), in_floats, 0.5f);
  std::fill_n(near.data(), near_floats, 0.25f);
  std::fill_n(far.data(), kPanels * panel_floats, 0.25f);  // touched: memory of its own, not the page of zeros

  Peak peak;
  const TileFunction busy = tile_function(2, static_cast<int>(pixels));
  // One thread, times their number: two are seldom alone on their cores at the same time, where others compute, too.
  const double multiplied = best_seconds([&] {
    const Tile t = tile_of(in.data(), near.data(), out.data(), kSteps);
    for (int64_t i = 0; i < kTiles; ++i) busy(t);
  });
  peak.flops =
      static_cast<double>(threads) * 2.0 * static_cast<double>(2 * pack * kSteps * pixels * kTiles) / multiplied;

  const TileFunction reader = tile_function(kBlocks, 1);
  const double read = best_seconds([&] {
    pool.parallel_for(kPanels, 1, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; ++i)
        reader(tile_of(in.data(), far.data() + i * panel_floats, out.data() + worker * out_floats, kPanelSteps));
    });
  });
  peak.bytes = 4.0 * static_cast<double>(kPanels * panel_floats) / read;
  return peak;
}

}  // namespace minnow
