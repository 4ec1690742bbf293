#include <algorithm>

#include "kernels/cpu/gemm/bf16.h"
#include "kernels/cpu/gemm/bf16_micro_kernel.h"
#include "kernels/core/interrupt.h"
#include "kernels/core/rounding.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

constexpr int64_t kProductSerialMacs = 20000;     // fewer are not worth waking a thread
constexpr int64_t kRoundedBandBytes = 512 << 10;  // of rounded rows, which stay in the second-level cache
constexpr int64_t kTileColumns = kBf16Blocks * kBf16Columns;
// The number of the band that a worker holds, and the sums of a tile; the rounded rows follow.
constexpr int64_t kHeadBytes = 64 + 4 * kBf16Pixels * kTileColumns;

}  // namespace

bool Bf16Gemm::takes(int64_t m, int64_t n, int64_t k, Precision precision) {
  if (!kHasLowPrecision || m == 0) return false;
  if (m <= kBf16Rows) return precision == Precision::kLow;
  return bf16_gain(precision) > 1 && n >= kBf16Columns && k >= kBf16Depth;
}

Bf16Gemm::Bf16Gemm(int64_t m, int64_t n, int64_t k, const Activation& activation, int threads, Precision precision)
    : m_(m), n_(n), k_(k), threads_(threads), split_(precision == Precision::kNormal), activation_(activation) {
  if (few_rows()) return;
  const int64_t row_bytes = 2 * parts() * round_up(k, kBf16Depth), tiles = ceil_div(m, kBf16Pixels);
  bands_ = std::clamp<int64_t>(ceil_div(m * row_bytes, kRoundedBandBytes), 1, tiles);
  // Several pieces of work for each thread. Bands are better cut than columns, whose rows are rounded for each group.
  if (threads > 1) bands_ = std::min<int64_t>(tiles, round_up(std::max<int64_t>(bands_, 4 * threads), threads));
  band_rows_ = ceil_div(tiles, bands_) * kBf16Pixels;
  bands_ = ceil_div(m, band_rows_);
  if (threads > 1) groups_ = std::min(ceil_div(n, kTileColumns), ceil_div(4 * threads, bands_));
}

// Tiles read whole: rows behind the last one of a band must be there.
int64_t Bf16Gemm::worker_bytes() const {
  return few_rows() ? 0 : kHeadBytes + (parts() * band_rows_ + kBf16Pixels) * 2 * round_up(k_, kBf16Depth);
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
  char* space = static_cast<char*>(call.workspace);
  for (int i = 0; i < threads_; ++i) *reinterpret_cast<int64_t*>(space + i * worker_bytes()) = -1;
  auto run_items = [&](int64_t begin, int64_t end, int worker) {
    bf16_unit()->begin();
    for (int64_t i = begin; i < end; ++i) run_item(call, i / groups_, i % groups_, space + worker * worker_bytes());
    bf16_unit()->end();
  };
  if (call.pool == nullptr || m_ * n_ * k_ < kProductSerialMacs) return run_items(0, bands_ * groups_, 0);
  call.pool->parallel_for(bands_ * groups_, 1, run_items);
}

void Bf16Gemm::run_item(const GemmCall& call, int64_t band, int64_t group, char* space) const {
  const int64_t begin = band * band_rows_, rows = std::min(m_ - begin, band_rows_);
  const int64_t steps = ceil_div(k_, kBf16Depth), blocks = ceil_div(n_, kBf16Columns), pairs = ceil_div(blocks, 2);
  int64_t* held = reinterpret_cast<int64_t*>(space);
  char* rounded = space + kHeadBytes;                     // [part][step][row][32]
  const int64_t plane = steps * band_rows_ * kBf16Depth;  // numbers
  if (*held != band) {
    uint16_t* to = reinterpret_cast<uint16_t*>(rounded);
    for (int64_t r = 0; r < rows; ++r)
      bf16_round_row(call.a + (begin + r) * call.lda, k_, steps * kBf16Depth, to + r * kBf16Depth,
                     split_ ? to + plane + r * kBf16Depth : nullptr, band_rows_ * kBf16Depth);
    *held = band;
  }
  Bf16Tile t;
  t.in_pixel = 2 * kBf16Depth;
  t.w_block = parts() * steps * kBf16StepBytes;
  t.split = split_;
  t.in_left = 2 * plane;
  t.inner = steps;
  t.in_inner = band_rows_ * t.in_pixel;
  t.sums = reinterpret_cast<float*>(space + 64);
  LongLoop loop;
  for (int64_t pair = group * pairs / groups_; pair < (group + 1) * pairs / groups_; ++pair) {
    const int64_t first = pair * kTileColumns;
    t.blocks = static_cast<int>(std::min(kBf16Blocks, blocks - pair * kBf16Blocks));
    t.w = reinterpret_cast<const char*>(call.packed_b) + pair * kBf16Blocks * t.w_block;
    const int64_t columns = std::min(kTileColumns, n_ - first);
    const int64_t next =
        std::clamp<int64_t>(std::min((group + 1) * pairs / groups_ * kBf16Blocks, blocks) - (pair + 1) * kBf16Blocks, 0,
                            kBf16Blocks) *
        t.w_block;
    for (int64_t row = 0; row < rows && loop.goes_on(32 * steps); row += kBf16Pixels) {
      t.pixels = static_cast<int>(std::min(kBf16Pixels, rows - row));
      t.in = rounded + row * t.in_pixel;
      t.bring(t.w + kBf16Blocks * t.w_block, next, row / kBf16Pixels, ceil_div(rows, kBf16Pixels));
      bf16_unit()->multiply(t);
      const int64_t at = (begin + row) * call.ldc + first;
      bf16_finish({t.sums, t.pixels, t.blocks, static_cast<int>(columns - (t.blocks - 1) * kBf16Columns),
                   call.bias == nullptr ? nullptr : call.bias + first,
                   call.start == nullptr ? nullptr : call.start + at, call.c + at, call.ldc, kBf16Columns,
                   activation_.low, activation_.high});
      if (!activation_.is_clamp()) activate(activation_, call.c + at, t.pixels, call.ldc, columns);
    }
  }
}

}  // namespace minnow
