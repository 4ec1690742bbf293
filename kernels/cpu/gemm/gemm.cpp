#include "kernels/cpu/gemm/gemm.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "kernels/core/interrupt.h"
#include "kernels/core/rounding.h"
#include "kernels/cpu/machine/simd.h"
#include "kernels/cpu/gemm/micro_kernel_f16.h"
#include "kernels/cpu/movement/transpose.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

// A band of A should stay in the second-level cache while the columns of B pass over it.
int64_t band_bytes() {
  static const int64_t bytes = [] {
    int64_t cache = 0;
#ifdef _SC_LEVEL2_CACHE_SIZE
    cache = sysconf(_SC_LEVEL2_CACHE_SIZE);  // 0 or -1 where it is not known
#endif
    return std::clamp<int64_t>(cache * 2 / 5, 256 << 10, 1 << 20);
  }();
  return bytes;
}
// Whether rows of A at this distance would drive each other out of the first-level cache while a tile walks along them:
// whether many begin in the same of its sets, which lie 4 KiB apart.
bool rows_collide(int64_t stride, int64_t rows) {
  constexpr int64_t kSets = 64, kLine = 64, kWays = 7;  // ways of a set that we may fill
  int count[kSets] = {};
  for (int64_t r = 0; r < rows; ++r)
    if (++count[r * stride * 4 / kLine % kSets] > kWays) return true;
  return false;
}
// A distance of at least `k` floats at which they do not.
int64_t spread_rows(int64_t k) { return 16 * (ceil_div(k, 16) | 1); }

constexpr int64_t kPackedRows = 128;
constexpr double kWorthIt = 1.05;
constexpr int64_t kSerialMacs = 20000;  // fewer are not worth waking a thread

}  // namespace

int64_t gemm_packed_floats(int64_t k, int64_t n) { return k * round_up(n, pack_width()); }

void pack_columns(const float* rows, int64_t stride, int64_t k, int64_t lanes, float* packed) {
  const int64_t pack = pack_width();
  if (lanes < pack) std::fill(packed, packed + k * pack, 0.0f);
  // Pieces short enough for what they are written to to stay in the first-level cache.
  for (int64_t i = 0; i < k; i += kPackedRows) {
    const int64_t count = std::min(kPackedRows, k - i);
    transpose({count, lanes, stride, pack, lanes, count}, rows + i, packed + i * pack, sizeof(float));
  }
}

void gemm_pack_b(const float* b, int64_t ldb, bool transposed, int64_t k, int64_t n, float* packed, ThreadPool* pool) {
  const int64_t pack = pack_width(), blocks = ceil_div(n, pack);
  auto pack_blocks = [&](int64_t first, int64_t last, int) {
    LongLoop loop;
    for (int64_t block = first; block < last && loop.goes_on(k * pack / 4); ++block) {
      const int64_t lanes = std::min(pack, n - block * pack);
      float* to = packed + block * k * pack;
      if (transposed) {
        pack_columns(b + block * pack * ldb, ldb, k, lanes, to);
      } else {
        if (lanes < pack) std::fill(to, to + k * pack, 0.0f);
        for (int64_t i = 0; i < k; ++i)
          std::memcpy(to + i * pack, b + i * ldb + block * pack, static_cast<size_t>(lanes) * sizeof(float));
      }
    }
  };
  if (pool == nullptr) return pack_blocks(0, blocks, 0);
  pool->parallel_for(blocks, std::max<int64_t>(1, 4096 / std::max<int64_t>(1, k)), pack_blocks);
}

Gemm::Gemm(int64_t m, int64_t n, int64_t k, bool transpose_a, const Activation& activation, int threads,
           Precision precision)
    : m_(m), n_(n), k_(k), pack_(pack_width()), threads_(threads), activation_(activation) {
  half_ = takes_half(precision, m);
  blocks_ = ceil_div(n, pack_);
  // The more threads there are, the more read all of B then.
  const bool by_rows = threads > 1 && split_by_rows(n * threads / 2, m);
  plan_ = TilePlan(m, blocks_, k, by_rows ? threads : 1);
  // Rows of A that would be in each other's way are brought together first.
  copies_ = (transpose_a && m > 1) || (plan_.groups() > 2 && rows_collide(k, std::min<int64_t>(m, tile_pixels(2))));
  // The same for any number of threads: sums in parts differ in their last bits.
  const int groups = by_rows ? TilePlan(m, blocks_, k).groups() : plan_.groups();
  if (groups > 2 && m > 4) k_parts_ = std::max<int64_t>(1, ceil_div(k, kLongestSum));
  const int64_t bytes = 4 * m * ceil_div(k, k_parts_);
  bands_ = std::max<int64_t>(1, ceil_div(bytes, band_bytes()));
  if (by_rows) bands_ = round_up(std::max(bands_, ceil_div(4 * threads, std::max(1, plan_.groups()))), threads);
  bands_ = std::max<int64_t>(1, std::min(bands_, plan_.tiles()));
  if (threads == 1 || by_rows) return;
  // So many bands as let all threads finish together, if that is worth reading B once more; at least two pieces of work
  // for each.
  const auto tiles_of_thread = [&](int64_t bands) {
    return static_cast<double>(ceil_div(bands * plan_.groups(), threads) * ceil_div(plan_.tiles(), bands));
  };
  int64_t best = std::max<int64_t>(bands_, std::min(plan_.tiles(), ceil_div(2 * threads, std::max(1, plan_.groups()))));
  for (int64_t bands = best; bands <= std::min(plan_.tiles(), bands_ + 4 * threads); ++bands)
    if (kWorthIt * tiles_of_thread(bands) < tiles_of_thread(best)) best = bands;
  bands_ = best;
}

// First row of a band; bands are made of whole tiles.
int64_t Gemm::band_rows(int64_t band) const { return plan_.tile_begin(band * plan_.tiles() / bands_); }

int64_t Gemm::band_floats() const {
  if (!copies_) return 0;
  const int64_t rows = plan_.tile_begin(std::min(plan_.tiles(), ceil_div(plan_.tiles(), bands_)));
  return 16 + round_up(rows * spread_rows(ceil_div(k_, k_parts_)), 16);
}

int64_t Gemm::worker_floats() const { return band_floats() + (half_ ? half_panel_floats(ceil_div(k_, k_parts_)) : 0); }

int64_t Gemm::workspace_bytes() const { return threads_ * worker_floats() * 4; }

void Gemm::run_row(const GemmCall& call) const {
  const GemvCall row = {call.a, call.packed_b,   call.bias,       call.start, call.c, n_,
                        k_,     activation_.low, activation_.high};
  auto run_blocks = [&](int64_t begin, int64_t end, int) {
    gemv(row, begin, end);
    if (activation_.is_clamp()) return;
    activate(activation_, call.c + begin * pack_, std::min(n_, end * pack_) - begin * pack_);
  };
  if (call.pool == nullptr || macs() < kSerialMacs) return run_blocks(0, blocks_, 0);
  // Long pieces, because each begins with a wait for memory.
  call.pool->parallel_for(blocks_, std::max<int64_t>(4, round_up(ceil_div(blocks_, 4 * threads_), 4)), run_blocks);
}

void Gemm::run(const GemmCall& call) const {
  if (m_ == 1) return run_row(call);
  float* workspace = static_cast<float*>(call.workspace);
  const int64_t items = bands_ * plan_.groups();
  for (int64_t part = 0; part < k_parts_; ++part) {
    if (copies_)  // no worker holds a band yet
      for (int i = 0; i < threads_; ++i) *reinterpret_cast<int64_t*>(workspace + i * worker_floats()) = -1;
    auto run_items = [&](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; ++i)
        run_item(call, part, i / plan_.groups(), static_cast<int>(i % plan_.groups()),
                 workspace + worker * worker_floats());
    };
    if (call.pool == nullptr || macs() < kSerialMacs) {
      run_items(0, items, 0);
    } else {
      call.pool->parallel_for(items, 1, run_items);
    }
  }
}

// A[begin..end, k_begin..k_end] as rows at a distance of spread_rows(k_end - k_begin).
void Gemm::copy_rows(const GemmCall& call, int64_t begin, int64_t end, int64_t k_begin, int64_t k_end,
                     float* to) const {
  const int64_t rows = end - begin, k = k_end - k_begin, stride = spread_rows(k);
  if (call.transpose_a) {
    const Transposition t = {rows, k, call.lda, stride, k, rows};
    transpose(t, call.a + k_begin * call.lda + begin, to, sizeof(float));
  } else {
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(to + r * stride, call.a + (begin + r) * call.lda + k_begin, static_cast<size_t>(k) * sizeof(float));
  }
}

void Gemm::run_item(const GemmCall& call, int64_t part, int64_t band, int group, float* space) const {
  const int64_t row_begin = band_rows(band);
  const int64_t k_begin = part * k_ / k_parts_, k_end = (part + 1) * k_ / k_parts_, k = k_end - k_begin;
  const bool first = part == 0, last = part + 1 == k_parts_;
  const TilePlan::Blocks blocks = plan_.group(group);
  const int64_t columns = std::min<int64_t>(blocks.count * pack_, n_ - blocks.first * pack_);
  Tile t;
  const int64_t tile_begin = band * plan_.tiles() / bands_, tile_end = (band + 1) * plan_.tiles() / bands_;
  const int64_t row_floats = copies_ ? spread_rows(k) : call.transpose_a ? 1 : call.lda;
  float* const copy = copies_ ? space + 16 : nullptr;
  const float* a = copies_ ? copy : call.a + row_begin * row_floats + k_begin;
  if (copies_) {
    int64_t* held = reinterpret_cast<int64_t*>(space);
    if (*held != band) copy_rows(call, row_begin, plan_.tile_begin(tile_end), k_begin, k_end, copy);
    *held = band;
  }
  t.in_pixel = row_floats;  // one row of a transposed A lies as that of any other
  t.steps[0].length = k;
  t.steps[1].outer = 0;
  t.w = call.packed_b + (blocks.first * k_ + k_begin) * pack_;
  t.w_block = k_ * pack_;
  if (kHasLowPrecision && half_) make_half_panel(&t, blocks.count, k, space + band_floats());
  t.bias = first && call.bias != nullptr ? call.bias + blocks.first * pack_ : nullptr;
  t.out_pixel = call.ldc;
  t.out_block = pack_;
  t.lanes = static_cast<int>(columns - (blocks.count - 1) * pack_);
  t.low = last ? activation_.low : -std::numeric_limits<float>::infinity();
  t.high = last ? activation_.high : std::numeric_limits<float>::infinity();
  // Meanwhile the part of B comes that the next item needs.
  const TilePlan::Blocks next = plan_.group((group + 1) % plan_.groups());
  const float* next_w = call.packed_b + (next.first * k_ + k_begin) * pack_;
  const bool more = group + 1 < plan_.groups() || band + 1 < bands_;
  LongLoop loop;
  for (int64_t tile = tile_begin; tile < tile_end && loop.goes_on(columns * k / 8); ++tile) {
    const int64_t row = plan_.tile_begin(tile), count = plan_.tile_begin(tile + 1) - row;
    if (count == 0) continue;
    t.in = a + (row - row_begin) * row_floats;
    t.out = call.c + row * call.ldc + blocks.first * pack_;
    t.start = !first ? t.out : call.start != nullptr ? call.start + (t.out - call.c) : nullptr;
    if (more) t.fetch(next_w, next.count, tile - tile_begin, tile_end - tile_begin);
    (kHasLowPrecision && half_ ? half_tile_function : tile_function)(blocks.count, static_cast<int>(count))(t);
    if (!last || activation_.is_clamp()) continue;
    activate(activation_, t.out, count, call.ldc, columns);
  }
}

}  // namespace minnow
