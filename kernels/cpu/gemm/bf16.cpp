#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/cpu/gemm/bf16.h"
#include "kernels/cpu/gemm/bf16_micro_kernel.h"
#include "kernels/core/interrupt.h"
#include "kernels/core/rounding.h"
#include "kernels/cpu/machine/packed_layout.h"
#include "kernels/cpu/machine/simd.h"

namespace minnow {
namespace {

constexpr int64_t kProductSerialMacs = 20000;  // fewer are not worth waking a thread
constexpr int64_t kBandBytes = 1 << 20;        // of rounded rows, which stay in the second-level cache
constexpr int64_t kTileColumns = kBf16Blocks * kBf16Columns;
constexpr int64_t kRoundedRows = 8;  // at a time, by one thread
constexpr bool kHasTiles = kHasLowPrecision && MINNOW_AVX512 != 0;
constexpr int64_t kSumBytes = 4 * kBf16Pixels * kTileColumns;

}  // namespace

bool Bf16Gemm::takes(int64_t m, int64_t n, int64_t k, Precision precision) {
  if (!kHasLowPrecision || m == 0) return false;
  if (m <= kBf16Rows) return precision == Precision::kLow;
  return bf16_gain(precision) > 1 && n >= kBf16Columns && k >= kBf16Depth;
}

bool Bf16Gemm::takes_half(int64_t m, int64_t n, int64_t k, Precision precision) {
  return precision == Precision::kLow && m > kBf16Rows && takes(m, n, k, precision);
}

Bf16Gemm::Bf16Gemm(int64_t m, int64_t n, int64_t k, const Activation& activation, int threads, Precision precision)
    : m_(m), n_(n), k_(k), threads_(threads), split_(precision == Precision::kNormal), activation_(activation) {
  if (few_rows()) return;
  // Rows are rounded in chunks, and a chunk is multiplied in bands, with each of which all weights are read.
  const int64_t tiles = ceil_div(m, kBf16Pixels), pairs = ceil_div(n, kTileColumns);
  const int64_t most = std::max<int64_t>(1, kBandBytes / tile_bytes());
  chunk_tiles_ = ceil_div(tiles, ceil_div(tiles, threads > 1 ? 4 * most : most));
  band_tiles_ = ceil_div(chunk_tiles_, ceil_div(chunk_tiles_, most));
  if (threads == 1) return;
  // Pieces that let all threads finish together: the fewest bands, then the most groups.
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t tiles = band_tiles_; tiles > 0; --tiles) {
    const int64_t bands = ceil_div(chunk_tiles_, tiles);
    for (int64_t groups = std::min(pairs, std::max<int64_t>(1, 4 * threads / bands)); groups > 0; --groups) {
      const int64_t all = ceil_div(bands * groups, threads) * tiles * ceil_div(pairs, groups);
      if (all >= least) continue;
      least = all;
      band_tiles_ = tiles;
      groups_ = groups;
    }
  }
}

int64_t Bf16Gemm::tile_bytes() const { return parts() * kBf16Pixels * 2 * round_up(k_, kBf16Depth); }

// The sums of each worker, and rounded rows.
int64_t Bf16Gemm::workspace_bytes() const {
  return few_rows() ? 0 : threads_ * kSumBytes + chunk_tiles_ * tile_bytes();
}

std::string Bf16Gemm::scheme() const {
  return few_rows() ? "gemv_bf16" : std::string("gemm_") + bf16_unit()->name + (split_ ? "_split" : "");
}

void Bf16Gemm::run_rows(const GemmCall& call) const {
  const Bf16RowsCall rows = {call.a, call.lda, call.packed_b,   call.bias,       call.start, call.c, call.ldc,
                             n_,     k_,       activation_.low, activation_.high};
  const int64_t pack = pack_width(), blocks = ceil_div(n_, pack);
  auto run_blocks = [&](int64_t begin, int64_t end, int) {
    bf16_rows(rows, static_cast<int>(m_), begin, end);
    if (activation_.is_clamp()) return;
    activate(activation_, call.c + begin * pack, m_, call.ldc, std::min(n_, end * pack) - begin * pack);
  };
  if (call.pool == nullptr || m_ * n_ * k_ < kProductSerialMacs) return run_blocks(0, blocks, 0);
  // Long pieces, because each begins with a wait for memory.
  call.pool->parallel_for(blocks, std::max<int64_t>(4, round_up(ceil_div(blocks, 4 * threads_), 4)), run_blocks);
}

void Bf16Gemm::run(const GemmCall& call) const {
  if constexpr (!kHasLowPrecision) return;
  if (few_rows()) return run_rows(call);
  ThreadPool* pool = m_ * n_ * k_ < kProductSerialMacs ? nullptr : call.pool;
  const auto each = [&](int64_t n, ThreadPool::Body body) {
    pool == nullptr ? body(0, n, 0) : pool->parallel_for(n, 1, body);
  };
  const int64_t pairs = ceil_div(n_, kTileColumns), steps = ceil_div(k_, kBf16Depth);
  char *sums = static_cast<char*>(call.workspace), *rounded = sums + threads_ * kSumBytes;
  // Rows of bf16 are multiplied where they lie, but for a tile with lines behind the last row.
  const char* a = reinterpret_cast<const char*>(call.a);
  const int64_t left = half_a_ ? m_ % kBf16Pixels : 0;
  std::memcpy(rounded, a + (m_ - left) * 2 * k_, static_cast<size_t>(left * 2 * k_));
  for (int64_t chunk = 0; chunk < m_; chunk += chunk_tiles_ * kBf16Pixels) {
    const int64_t rows = std::min(m_ - chunk, chunk_tiles_ * kBf16Pixels);
    // [tile][part][step][row][32]
    each(half_a_ ? 0 : ceil_div(rows, kRoundedRows), [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin * kRoundedRows; r < std::min(rows, end * kRoundedRows); ++r) {
        auto* to = reinterpret_cast<uint16_t*>(rounded + r / kBf16Pixels * tile_bytes()) + r % kBf16Pixels * kBf16Depth;
        bf16_round_row(call.a + (chunk + r) * call.lda, k_, steps * kBf16Depth, to,
                       split_ ? to + steps * kBf16Pixels * kBf16Depth : nullptr, kBf16Pixels * kBf16Depth);
      }
    });
    const int64_t band_rows = band_tiles_ * kBf16Pixels;
    const char* first = half_a_ ? a + chunk * 2 * k_ : rounded;
    each(ceil_div(rows, band_rows) * groups_, [&](int64_t begin, int64_t end, int worker) {
      bf16_unit()->begin(kBf16Depth);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / groups_ * band_rows, group = i % groups_;
        multiply(call, chunk + row, std::min(band_rows, rows - row), first + row / kBf16Pixels * tile_bytes(),
                 group * pairs / groups_, (group + 1) * pairs / groups_, sums + worker * kSumBytes);
      }
      bf16_unit()->end();
    });
  }
}

void Bf16Gemm::multiply(const GemmCall& call, int64_t first, int64_t rows, const char* in, int64_t begin, int64_t end,
                        char* sums) const {
  const int64_t steps = ceil_div(k_, kBf16Depth), blocks = ceil_div(n_, kBf16Columns);
  Bf16Tile t;
  t.in_pixel = 2 * (half_a_ ? k_ : kBf16Depth);
  t.w_block = parts() * steps * kBf16StepBytes;
  t.split = split_;
  t.in_left = steps * kBf16Pixels * t.in_pixel;
  t.inner = steps;
  t.in_inner = (half_a_ ? 1 : kBf16Pixels) * 2 * kBf16Depth;
  t.sums = reinterpret_cast<float*>(sums);
  LongLoop loop;
  for (int64_t pair = begin; pair < end; ++pair) {
    const int64_t column = pair * kTileColumns, columns = std::min(kTileColumns, n_ - column);
    t.blocks = static_cast<int>(std::min(kBf16Blocks, blocks - pair * kBf16Blocks));
    t.w = reinterpret_cast<const char*>(call.packed_b) + pair * kBf16Blocks * t.w_block;
    const int64_t next =
        std::clamp<int64_t>(std::min(end * kBf16Blocks, blocks) - (pair + 1) * kBf16Blocks, 0, kBf16Blocks) * t.w_block;
    for (int64_t row = 0; row < rows && loop.goes_on(32 * steps); row += kBf16Pixels) {
      t.pixels = static_cast<int>(std::min(kBf16Pixels, rows - row));
      t.in = half_a_ && t.pixels < kBf16Pixels ? static_cast<const char*>(call.workspace) + threads_ * kSumBytes
                                               : in + row / kBf16Pixels * tile_bytes();
      t.bring(t.w + kBf16Blocks * t.w_block, next, row / kBf16Pixels, ceil_div(rows, kBf16Pixels));
      const int64_t at = (first + row) * call.ldc + column;
      // What the result is written to, and added to, is far away by now.
      const int64_t size = half_c_ ? 2 : 4;
      for (int64_t p = 0; p < t.pixels; ++p)
        for (int64_t i = 0; i < columns; i += 64 / size) {
          __builtin_prefetch(reinterpret_cast<char*>(call.c) + (at + p * call.ldc + i) * size, 1);
          if (call.start != nullptr) __builtin_prefetch(call.start + at + p * call.ldc + i);
        }
      bf16_unit()->multiply(t);
      finish(call, t, at, column, columns);
    }
  }
}

void Bf16Gemm::finish(const GemmCall& call, const Bf16Tile& t, int64_t at, int64_t column, int64_t columns) const {
  const float* bias = call.bias == nullptr ? nullptr : call.bias + column;
  Bf16Result result = {t.sums,
                       t.pixels,
                       t.blocks,
                       static_cast<int>(columns - (t.blocks - 1) * kBf16Columns),
                       bias,
                       call.start == nullptr ? nullptr : call.start + at,
                       call.c + at,
                       call.ldc,
                       kBf16Columns,
                       activation_.low,
                       activation_.high};
  if (!kHasTiles || !half_c_) {
    bf16_finish(result);
    if (!activation_.is_clamp()) activate(activation_, call.c + at, t.pixels, call.ldc, columns);
    return;
  }
  if (!activation_.is_clamp()) {
    result.out = t.sums, result.out_pixel = kTileColumns;
    bf16_finish(result);
    activate(activation_, t.sums, t.pixels * kTileColumns);
    bias = nullptr;
  }
  int64_t places[kBf16Pixels];
  for (int64_t p = 0; p < t.pixels; ++p) places[p] = at + p * call.ldc;
  bf16_store_pixels({t.sums, t.pixels, t.blocks, places, bias, nullptr, reinterpret_cast<uint16_t*>(call.c),
                     activation_.low, activation_.high});
}

}  // namespace minnow
