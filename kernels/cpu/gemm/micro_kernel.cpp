#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"

#include "kernels/cpu/gemm/micro_kernel.h"
#include "kernels/cpu/elementwise/math-inl.h"
#include "kernels/cpu/machine/packed_layout.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int kTileLanes = static_cast<int>(hn::MaxLanes(D()));

// 32 registers: 28 sums, 2 to 4 weights and a broadcast number; 16 registers: 12 sums.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int kRegisters = 32, kPixels1 = 14, kPixels2 = 14, kPixels4 = 7;
#else
constexpr int kRegisters = 16, kPixels1 = 12, kPixels2 = 6, kPixels4 = 3;
#endif

// Copies `pixels` x `blocks` vectors, of the last block only `lanes` numbers.
[[maybe_unused]] HWY_NOINLINE void copy_lanes(const float* from, int64_t from_pixel, int64_t from_block, float* to,
                                              int64_t to_pixel, int64_t to_block, int pixels, int blocks, int lanes) {
  for (int r = 0; r < pixels; ++r)
    for (int b = 0; b < blocks; ++b)
      std::memcpy(to + r * to_pixel + b * to_block, from + r * from_pixel + b * from_block,
                  sizeof(float) * static_cast<size_t>(b == blocks - 1 ? lanes : kTileLanes));
}

// Keeps gcc from loading the vector again for each use of it, which the load units could not follow.
template <bool kKeep>
HWY_INLINE void keep_in_register(V& v) {
#if HWY_ARCH_X86
  if constexpr (kKeep) asm("" : "+v"(v.raw));
#endif
  (void)v;
}

// Keeps gcc from computing the addresses of all rows beforehand, for which there are not registers enough.
template <typename T>
HWY_INLINE void keep_pointer(T*& p) {
  asm("" : "+r"(p));
}

// The part of the weights that comes to the first-level cache meanwhile: so many floats ahead.
constexpr int kStepAhead = 128;

// What the next run of steps reads comes to the first-level cache meanwhile: it lies elsewhere, and another core may
// have it. Runs of many steps ask for a little at each, so that the caches can follow; the others when they begin.
template <int NB>
constexpr bool kAsksSteadily = kTileLanes >= 16 && NB > 1;

// Whether sums go where they belong by way of a copy, in one function for all tiles. That is most of the code of a
// tile, and two dozen more instructions beside some thousand, which only the widest vectors are too fast for.
constexpr bool kThroughCopy = HWY_TARGET != HWY_AVX3;

// Adds `start` to the sums [pixel][block], clamps, and stores them.
[[maybe_unused]] HWY_NOINLINE void finish(const Tile& t, const float* sums, int pixels, int blocks) {
  const D d;
  const V low = hn::Set(d, t.low), high = hn::Set(d, t.high);
  for (int r = 0; r < pixels; ++r)
    for (int b = 0; b < blocks; ++b, sums += kTileLanes) {
      const int64_t at = r * t.out_pixel + b * t.out_block;
      const bool partial = b == blocks - 1 && t.lanes != kTileLanes;
      V v = hn::Load(d, sums);
      if (t.start != nullptr) v = hn::Add(v, partial ? LoadPart(d, t.start + at, t.lanes) : hn::LoadU(d, t.start + at));
      v = AtMost(high, AtLeast(low, v));
      partial ? StorePart(d, v, t.out + at, t.lanes) : hn::StoreU(v, d, t.out + at);
    }
}

template <int NB, int R>
void tile(const Tile& t) {
  const D d;
  V sum[R][NB];
  static const float kNoBias[NB * kTileLanes] = {};
  const float* bias = t.bias != nullptr ? t.bias : kNoBias;
#pragma GCC unroll 4
  for (int b = 0; b < NB; ++b) {
    const V v = hn::LoadU(d, bias + b * kTileLanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) sum[r][b] = v;
  }
  // Where the last block is not full, `start` and `out` are reached through a copy with full blocks.
  const bool partial = t.lanes != kTileLanes;
  HWY_ALIGN float copy[R * NB * kTileLanes];
  float* out = partial ? copy : t.out;
  const int64_t out_pixel = partial ? NB * kTileLanes : t.out_pixel;
  const int64_t out_block = partial ? kTileLanes : t.out_block;
  if (!kThroughCopy && t.start != nullptr) {
    if (partial) copy_lanes(t.start, t.out_pixel, t.out_block, copy, out_pixel, out_block, R, NB, t.lanes);
    const float* start = partial ? copy : t.start;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r, start += out_pixel) {
      keep_pointer(start);
#pragma GCC unroll 4
      for (int b = 0; b < NB; ++b) sum[r][b] = hn::Add(sum[r][b], hn::LoadU(d, start + b * out_block));
    }
  }

  // Three pixels per pointer: x86 adds 1 or 2 times the stride inside the address of a load.
  constexpr int kPointers = (R + 2) / 3;
  constexpr bool kFits = (R + 1) * NB < kRegisters;  // the sums, the weights and one number more
  const int64_t stride = t.in_pixel;
  const int64_t w_block = t.w_block;
  // Without anything to prefetch, the same line again and again costs nothing.
  [[maybe_unused]] const char* prefetch = t.prefetch != nullptr ? t.prefetch : reinterpret_cast<const char*>(t.w);
  [[maybe_unused]] const int64_t prefetch_step = t.prefetch != nullptr ? t.prefetch_step : 0;
  for (const TileSteps& s : t.steps) {
    const int64_t next_step =
        kAsksSteadily<NB> && s.length > 0 && s.length <= 8 * kTileLanes ? R * stride / s.length : 0;
    for (int64_t o = 0; o < s.outer; ++o) {
      for (int64_t m = 0; m < s.middle; ++m) {
        const float* HWY_RESTRICT w = t.w + s.w + o * s.w_outer + m * s.w_middle;
        const float* row = t.in + s.in + o * s.in_outer + m * s.in_middle;
        const float* next = m + 1 < s.middle  ? row + s.in_middle
                            : o + 1 < s.outer ? row + s.in_outer - m * s.in_middle
                                              : t.in + s.in + R * stride;
        if constexpr (!kAsksSteadily<NB>) {
#pragma GCC unroll 8
          for (int i = 0; i <= R * kTileLanes / 16; ++i) __builtin_prefetch(next + 16 * i, 0, 3);
        }
        for (int64_t i = 0; i < s.inner; ++i, row += s.in_inner) {
          const float* HWY_RESTRICT p[kPointers];
#pragma GCC unroll 16
          for (int k = 0; k < kPointers; ++k) p[k] = row + 3 * k * stride;
          for (int64_t n = s.length; n > 0; --n) {
            if constexpr (NB > 1) {  // with one block the load units have no time left for it
              __builtin_prefetch(prefetch, 0, 2);
              prefetch += prefetch_step;
            }
            if constexpr (kAsksSteadily<NB>) {
              __builtin_prefetch(next, 0, 3);
              next += next_step;
            }
            V weight[NB];
#pragma GCC unroll 4
            for (int b = 0; b < NB; ++b) {
              if constexpr (NB > 1) __builtin_prefetch(w + b * w_block + kStepAhead, 0, 3);
              weight[b] = hn::Load(d, w + b * w_block);
              keep_in_register<kFits>(weight[b]);
            }
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r) {
              const V x = hn::Set(d, p[r / 3][(r % 3) * stride]);
#pragma GCC unroll 4
              for (int b = 0; b < NB; ++b) sum[r][b] = hn::MulAdd(x, weight[b], sum[r][b]);
            }
#pragma GCC unroll 16
            for (int k = 0; k < kPointers; ++k) ++p[k];
            w += kTileLanes;
          }
        }
      }
    }
  }

  if constexpr (kThroughCopy) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int b = 0; b < NB; ++b) hn::Store(sum[r][b], d, copy + (r * NB + b) * kTileLanes);
    return finish(t, copy, R, NB);
  }
  const V low = hn::Set(d, t.low), high = hn::Set(d, t.high);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r, out += out_pixel) {
    keep_pointer(out);
#pragma GCC unroll 4
    for (int b = 0; b < NB; ++b) hn::StoreU(AtMost(high, AtLeast(low, sum[r][b])), d, out + b * out_block);
  }
  if (partial) copy_lanes(copy, out_pixel, out_block, t.out, t.out_pixel, t.out_block, R, NB, t.lanes);
}

template <int NB, size_t... I>
TileFunction pick(int pixels, std::index_sequence<I...>) {
  static constexpr std::array<TileFunction, sizeof...(I)> kTable = {tile<NB, static_cast<int>(I) + 1>...};
  return kTable[static_cast<size_t>(pixels - 1)];
}

TileFunction pick_tile(int blocks, int pixels) {
  if (blocks == 4) return pick<4>(pixels, std::make_index_sequence<kPixels4>());
  if (blocks == 2) return pick<2>(pixels, std::make_index_sequence<kPixels2>());
  return pick<1>(pixels, std::make_index_sequence<kPixels1>());
}

int most_pixels(int blocks) { return blocks == 4 ? kPixels4 : blocks == 2 ? kPixels2 : kPixels1; }

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow {

HWY_EXPORT(pick_tile);
HWY_EXPORT(most_pixels);

int tile_pixels(int blocks) { return HWY_DYNAMIC_DISPATCH(most_pixels)(blocks); }

TileFunction tile_function(int blocks, int pixels) { return HWY_DYNAMIC_DISPATCH(pick_tile)(blocks, pixels); }

namespace {

// Two multiplications and two loads per cycle; a sum can be added to every four cycles. Per step of a tile.
double tile_cycles(int blocks, int64_t pixels) {
  const double b = blocks, p = static_cast<double>(pixels);
  return std::max({4.0, 0.5 * b * p, 0.5 * (b + p)}) + 0.5;
}
constexpr double kTileStart = 60;  // cycles a tile takes beside its steps
// Weights of a group of blocks that are more than this leave no room in the second-level cache for those of the next.
constexpr int64_t kPanelBytes = 640 << 10;
constexpr double kPanelPenalty = 1.15;

}  // namespace

TilePlan::TilePlan(int64_t pixels, int64_t blocks, int64_t steps, int64_t parts) : pixels_(pixels), blocks_(blocks) {
  double best = 0;
  for (int count : {2, 4, 1}) {  // where equal, 2 leaves the most of the cache to others
    if (count > blocks && count > 1) continue;
    int64_t tiles = std::max<int64_t>(1, (pixels + tile_pixels(count) - 1) / tile_pixels(count));
    tiles = std::max(tiles, std::min(pixels, (tiles + parts - 1) / parts * parts));
    const int64_t wide = pixels % tiles;  // tiles with one pixel more
    double cycles = 0;
    int groups = 0;
    int64_t left = blocks;
    for (int c = count; c >= 1; c /= 2) {
      const double steps_of = static_cast<double>(steps);
      const double narrow = tile_cycles(c, pixels / tiles) * steps_of + kTileStart;
      const double broad = tile_cycles(c, pixels / tiles + 1) * steps_of + kTileStart;
      cycles += static_cast<double>(left / c) *
                (static_cast<double>(tiles - wide) * narrow + static_cast<double>(wide) * broad);
      groups += static_cast<int>(left / c);
      left %= c;
    }
    if (count > 1 && 4 * count * steps * pack_width() > kPanelBytes) cycles *= kPanelPenalty;
    if (groups_ == 0 || cycles < 0.97 * best) {
      best = cycles;
      most_blocks_ = count;
      tiles_ = tiles;
      groups_ = groups;
    }
  }
  narrow_ = pixels_ / tiles_;
  wide_ = pixels_ % tiles_;
}

TilePlan::Blocks TilePlan::group(int i) const {
  const int whole = static_cast<int>(std::min<int64_t>(i, blocks_ / most_blocks_));
  Blocks blocks = {int64_t{most_blocks_} * whole, most_blocks_};
  for (i -= whole;; --i, blocks.first += blocks.count) {
    while (blocks.first + blocks.count > blocks_) blocks.count /= 2;
    if (i == 0) return blocks;
  }
}

}  // namespace minnow
#endif
