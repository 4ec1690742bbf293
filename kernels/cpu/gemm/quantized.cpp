#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/core/elements.h"
#include "kernels/core/interrupt.h"
#include "kernels/core/rounding.h"
#include "kernels/cpu/elementwise/math-inl.h"
#include "kernels/cpu/gemm/bf16.h"
#include "kernels/cpu/gemm/bf16_micro_kernel.h"
#include "kernels/cpu/gemm/byte_product.h"
#include "kernels/cpu/gemm/quantized.h"
#include "kernels/cpu/machine/packed_layout.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace quantized {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using DU = hn::ScalableTag<uint32_t>;
using V = hn::Vec<D>;
using VU = hn::Vec<DU>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
constexpr int64_t kAheadWords = 512;

// 2^23, to which small integers are added as its lowest bits.
constexpr uint32_t kMagic = 0x4B000000;

// The codes of group `kGroup` of a unit, one in each byte.
template <int kBits, int kGroup>
HWY_INLINE VU group_of(const uint32_t* unit) {
  const DU d;
  constexpr bool kFour = (kBits & 4) != 0, kTwo = (kBits & 2) != 0, kOne = (kBits & 1) != 0;
  constexpr int kTwoShift = kFour ? 4 : 0, kOneShift = kTwoShift + (kTwo ? 2 : 0);
  constexpr int64_t kTwoAt = kFour ? 4 : 0, kOneAt = kTwoAt + (kTwo ? 2 : 0);
  VU all = hn::Zero(d);
  if constexpr (kFour) {
    const VU v = hn::Load(d, unit + kGroup / 2 * kLanes);
    all = hn::And(hn::ShiftRight<4 * (kGroup % 2)>(v), hn::Set(d, 0x0F0F0F0Fu));
  }
  if constexpr (kTwo) {
    const VU v = hn::ShiftRight<2 * (kGroup % 4)>(hn::Load(d, unit + (kTwoAt + kGroup / 4) * kLanes));
    all = hn::Or(all, hn::ShiftLeft<kTwoShift>(hn::And(v, hn::Set(d, 0x03030303u))));
  }
  if constexpr (kOne) {
    const VU v = hn::ShiftRight<kGroup>(hn::Load(d, unit + kOneAt * kLanes));
    all = hn::Or(all, hn::ShiftLeft<kOneShift>(hn::And(v, hn::Set(d, 0x01010101u))));
  }
  return all;
}

// Makes a unit of 8 bits of one of other bits.
template <int kBits, int... kGroups>
HWY_INLINE void widen_groups(const uint32_t* unit, uint32_t* to, std::integer_sequence<int, kGroups...>) {
  (hn::Store(group_of<kBits, kGroups>(unit), DU(), to + kGroups * kLanes), ...);
}
template <int kBits>
void widen(const uint32_t* unit, uint32_t* to) {
  widen_groups<kBits>(unit, to, std::make_integer_sequence<int, 8>());
}

using Widen = void (*)(const uint32_t* unit, uint32_t* to);
Widen widening(int bits) {
  constexpr Widen kWiden[] = {widen<2>, widen<3>, nullptr, widen<5>, widen<6>, widen<7>, nullptr};
  return kWiden[bits - 2];
}

// Codes as floats: each is in the lowest bits. `zero` is the code of 0, with 2^23 added.
template <bool kFour>
HWY_INLINE V number_of(VU code, V zero) {
  const VU mask = hn::Set(DU(), kFour ? 15 : 255);
  return hn::Sub(hn::BitCast(D(), hn::OrAnd(hn::Set(DU(), kMagic), code, mask)), zero);
}
V zero_of(const QuantizedForm& f) { return hn::Set(D(), static_cast<float>((1 << 23) + f.zero())); }

// Calls use(column of the unit, codes as floats) for the four of a group, of 4 bits or of 8.
template <bool kFour, int kGroup, typename Use>
HWY_INLINE void each_of_group(const uint32_t* unit, V zero, const Use& use) {
  VU v = hn::Load(DU(), unit + (kFour ? kGroup / 2 : kGroup) * kLanes);
  if constexpr (kFour && kGroup % 2 == 1) v = hn::ShiftRight<4>(v);
  use(4 * kGroup, number_of<kFour>(v, zero));
  use(4 * kGroup + 1, number_of<kFour>(hn::ShiftRight<8>(v), zero));
  use(4 * kGroup + 2, number_of<kFour>(hn::ShiftRight<16>(v), zero));
  use(4 * kGroup + 3, number_of<kFour>(hn::ShiftRight<24>(v), zero));
}

template <bool kFour, typename Use>
HWY_INLINE void each_of_unit(const uint32_t* unit, V zero, const Use& use) {
  each_of_group<kFour, 0>(unit, zero, use);
  each_of_group<kFour, 1>(unit, zero, use);
  each_of_group<kFour, 2>(unit, zero, use);
  each_of_group<kFour, 3>(unit, zero, use);
  each_of_group<kFour, 4>(unit, zero, use);
  each_of_group<kFour, 5>(unit, zero, use);
  each_of_group<kFour, 6>(unit, zero, use);
  each_of_group<kFour, 7>(unit, zero, use);
}

// A vector of the scales of a form.
HWY_INLINE V load_scales(const QuantizedForm& f, const char* at) {
  const D d;
  if (!f.half_scales) return hn::Load(d, reinterpret_cast<const float*>(at));
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d, hn::Load(half, reinterpret_cast<const hwy::float16_t*>(at)));
}
HWY_INLINE V load_offsets(const QuantizedForm& f, const char* scales, V scale) {
  return hn::MulAdd(hn::Set(D(), f.offset_scale()), scale, load_scales(f, scales + f.scale_step() / 2));
}

template <bool kFour>
void row(const QuantizedRow& q, int64_t begin, int64_t end) {
  const D d;
  const QuantizedForm& f = *q.form;
  const GemvCall& g = q.call;
  const V low = hn::Set(d, g.low), high = hn::Set(d, g.high), zero = zero_of(f);
  const Widen widen = kFour ? nullptr : widening(f.bits);
  const int64_t unit_words = f.bits * kLanes;
  HWY_ALIGN uint32_t wide[8 * kLanes];
  const int64_t scale_step = f.scale_step();
  for (int64_t panel = begin; panel < end; ++panel) {
    const char* scales = reinterpret_cast<const char*>(q.packed + panel * f.panel_words());
    const uint32_t* HWY_RESTRICT at = q.packed + panel * f.panel_words() + f.scale_words();
    const float* HWY_RESTRICT a = q.a;
    V total = hn::Zero(d);
    for (int64_t b = 0; b < f.blocks; ++b, scales += scale_step) {
      const V scale = load_scales(f, scales);
      if (f.has_offset) total = hn::MulAdd(load_offsets(f, scales, scale), hn::Set(d, q.sums[b]), total);
      V sum[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
      for (int64_t u = 0; u < f.units; ++u) {
        for (int64_t i = 0; i < unit_words; i += 16) __builtin_prefetch(at + kAheadWords + i, 0, 3);
        if (widen != nullptr) widen(at, wide);
        each_of_unit<kFour>(
            widen == nullptr ? at : wide, zero, [&](int i, V w) HWY_ATTR __attribute__((always_inline)) {
              sum[i % 4] = hn::MulAdd(hn::Set(d, a[i]), w, sum[i % 4]);
            });
        at += unit_words;
        a += kQuantizedUnit;
      }
      total = hn::MulAdd(scale, hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3])), total);
    }
    const int64_t column = panel * kLanes, lanes = std::min(kLanes, g.n - column);
    if (g.bias != nullptr) total = hn::Add(total, hn::LoadU(d, g.bias + column));
    if (g.start != nullptr) total = hn::Add(total, LoadPart(d, g.start + column, lanes));
    StorePart(d, AtMost(high, AtLeast(low, total)), g.c + column, lanes);
  }
}

template <bool kFour>
void unpack(const QuantizedPart& p, float* to) {
  const D d;
  const QuantizedForm& f = *p.form;
  const uint32_t* at = p.packed + p.panel * f.panel_words();
  const char* scales = reinterpret_cast<const char*>(at) + p.block * f.scale_step();
  const V scale = load_scales(f, scales);
  const V offset = f.has_offset ? load_offsets(f, scales, scale) : hn::Zero(d);
  const Widen widen = kFour ? nullptr : widening(f.bits);
  const int64_t unit_words = f.bits * kLanes;
  const V zero = zero_of(f);
  HWY_ALIGN uint32_t wide[8 * kLanes];
  at += f.scale_words() + p.block * f.block_words() + p.begin / kQuantizedUnit * unit_words;
  HWY_ALIGN float rest[kQuantizedUnit * kLanes];
  for (int64_t i = p.begin; i < p.end; i += kQuantizedUnit, at += unit_words, to += kQuantizedUnit * kLanes) {
    const int64_t n = std::min(kQuantizedUnit, p.end - i);
    float* HWY_RESTRICT place = n == kQuantizedUnit ? to : rest;
    if (widen != nullptr) widen(at, wide);
    each_of_unit<kFour>(
        widen == nullptr ? at : wide, zero, [&](int k, V w) HWY_ATTR __attribute__((always_inline)) {
          hn::Store(hn::MulAdd(w, scale, offset), d, place + k * kLanes);
        });
    if (place == rest) std::memcpy(to, rest, static_cast<size_t>(n * kLanes) * sizeof(float));
  }
}

}  // namespace quantized

void quantized_row(const QuantizedRow& q, int64_t begin, int64_t end) {
  q.form->bits == 4 ? quantized::row<true>(q, begin, end) : quantized::row<false>(q, begin, end);
}
void quantized_unpack(const QuantizedPart& part, float* to) {
  part.form->bits == 4 ? quantized::unpack<true>(part, to) : quantized::unpack<false>(part, to);
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow {
namespace {

HWY_EXPORT(quantized_row);
HWY_EXPORT(quantized_unpack);

// Columns that are unpacked at a time: with as many panels as a tile has blocks they stay in the second-level cache.
constexpr int64_t kUnpackedColumns = 512;
// Of tiles of bf16: the least rows, how many times faster than f32 they must be, and rows that are rounded at a time.
constexpr int64_t kRowsForTiles = 32, kTileGain = 8, kTileBand = 512;
constexpr int64_t kFewUnpacked = 4;  // rows for which a tile has one block of columns

}  // namespace

void unpack_quantized(const QuantizedPart& part, float* to) { HWY_DYNAMIC_DISPATCH(quantized_unpack)(part, to); }

void unpack_quantized(const QuantizedForm& form, const void* packed, float* to, ThreadPool* pool) {
  const auto unpack = [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t panel = i / form.blocks, block = i % form.blocks;
      unpack_quantized({&form, static_cast<const uint32_t*>(packed), panel, block, 0, form.block},
                       to + (panel * form.columns + block * form.block) * pack_width());
    }
  };
  pool->parallel_for(form.panels() * form.blocks, std::max<int64_t>(1, 4096 / form.block), unpack);
}

QuantizedGemm::QuantizedGemm(int64_t m, const QuantizedForm& form, const Activation& activation, int threads,
                             Precision precision)
    : form_(form), activation_(activation), m_(m), threads_(threads) {
  while (chunk_units_ < 4 && form.units % (2 * chunk_units_) == 0) chunk_units_ *= 2;
  exact_ = precision == Precision::kHigh;
  if (kHasPackedWeights && has_byte_products()) {
    // Without tiles, making words of the weights takes longer than a third digit of A.
    const bool by_words = !exact_ && padded_columns() <= kMostWholeColumns && byte_unit()->tiles != ByteTiles::kNone;
    digits_ = precision == Precision::kLow ? 1 : by_words ? 2 : 3;
  }
  // Sums of few bytes take longer to scale than to add.
  bf16_ = kHasLowPrecision && kHasPackedWeights && precision == Precision::kLow && m >= kRowsForTiles &&
          chunk_units_ < 4 && form.block % kQuantizedUnit == 0 && pack_width() == kBf16Columns &&
          bf16_gain(precision) >= kTileGain;
  // Where there are panels enough for all threads.
  for (const int width : {2, 4})
    if (m > kFewUnpacked && form.panels() >= width * threads) width_ = width;
}

int64_t QuantizedGemm::row_bytes() const {
  return (form_.has_offset ? round_up(4 * form_.blocks, 64) : 0) +
         (form_.block % kQuantizedUnit == 0 ? 0 : 4 * padded_columns());
}

int64_t QuantizedGemm::tile_worker_bytes() const {
  return 4 * kBf16Blocks * (kBf16Pixels * kBf16Columns + bf16_packed_floats(form_.columns, kBf16Columns, false));
}

int64_t QuantizedGemm::workspace_bytes() const {
  if (bf16_)
    return threads_ * tile_worker_bytes() +
           2 * (std::min(m_, kTileBand) + kBf16Pixels) * round_up(form_.columns, kBf16Depth);
  if (digits_ == 2) return whole_bytes();
  if (digits_ > 0) {
    const int64_t rows = m_ + kByteLines, lines = m_ * digits_ + kByteLines;
    return round_up(row_bytes(), 64) + round_up(4 * rows * form_.blocks, 64) + round_up(lines * line_bytes(), 64) +
           round_up(4 * rows * chunks(), 64) + round_up(4 * lines * chunks(), 64) + round_up(m_, 64);
  }
  if (m_ == 1) return row_bytes();
  return threads_ * 4 * width_ * (kUnpackedColumns + kQuantizedUnit) * pack_width() +
         (copies_rows() ? 4 * m_ * spread_row() : 0);
}

void QuantizedGemm::run(const GemmCall& call) const {
  if (m_ == 0 || form_.rows == 0) return;
  if (bf16_) return run_bf16(call);
  if (digits_ > 0) return digits_ == 2 ? run_whole(call) : run_bytes(call);
  m_ == 1 ? run_row(call) : run_panels(call);
}

void QuantizedGemm::run_row(const GemmCall& call) const {
  char* space = static_cast<char*>(call.workspace);
  QuantizedRow q;
  q.form = &form_;
  q.packed = reinterpret_cast<const uint32_t*>(call.packed_b);
  q.a = call.a;
  if (form_.has_offset) {
    float* sums = reinterpret_cast<float*>(space);
    for (int64_t b = 0; b < form_.blocks; ++b) {
      float sum = 0;
      for (int64_t i = 0; i < form_.block; ++i) sum += call.a[b * form_.block + i];
      sums[b] = sum;
    }
    q.sums = sums;
    space += round_up(4 * form_.blocks, 64);
  }
  if (form_.block % kQuantizedUnit != 0) {
    float* padded = reinterpret_cast<float*>(space);
    for (int64_t b = 0; b < form_.blocks; ++b) {
      float* to = padded + b * form_.padded_block();
      std::memcpy(to, call.a + b * form_.block, static_cast<size_t>(form_.block) * sizeof(float));
      std::fill(to + form_.block, to + form_.padded_block(), 0.0f);
    }
    q.a = padded;
  }
  q.call = {q.a, nullptr, call.bias, call.start, call.c, form_.rows, form_.columns, activation_.low, activation_.high};
  const int64_t pack = pack_width();
  const auto run_panels = [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(quantized_row)(q, begin, end);
    if (activation_.is_clamp()) return;
    activate(activation_, call.c + begin * pack, std::min(form_.rows, end * pack) - begin * pack);
  };
  const int64_t panels = form_.panels();
  if (call.pool == nullptr || form_.rows * form_.columns < kSerialWeights) return run_panels(0, panels, 0);
  call.pool->parallel_for(panels, std::max<int64_t>(1, ceil_div(panels, 8 * threads_)), run_panels);
}

// Some columns of some panels at a time become floats, which all rows are multiplied with.
void QuantizedGemm::run_panels(const GemmCall& call) const {
  const int64_t pack = pack_width(), groups = ceil_div(form_.panels(), width_);
  const int64_t space = width_ * (kUnpackedColumns + kQuantizedUnit) * pack;
  const float* a = call.a;
  int64_t lda = call.lda;
  if (copies_rows()) {
    lda = spread_row();
    float* to = static_cast<float*>(call.workspace) + threads_ * space;
    for (int64_t r = 0; r < m_; ++r)
      std::memcpy(to + r * lda, call.a + r * call.lda, static_cast<size_t>(form_.columns) * sizeof(float));
    a = to;
  }
  const auto* packed = reinterpret_cast<const uint32_t*>(call.packed_b);
  const auto multiply = [&](Tile& t, int blocks, int64_t columns) {
    const TilePlan plan(m_, blocks, t.steps[0].length);
    for (int64_t tile = 0; tile < plan.tiles(); ++tile) {
      const int64_t row = plan.tile_begin(tile), count = plan.tile_begin(tile + 1) - row;
      if (count == 0) continue;
      Tile part = t;
      part.in += row * lda;
      part.out += row * call.ldc;
      if (part.start != nullptr) part.start += row * call.ldc;
      for (int b = 0; b < blocks;) {
        int n = plan.most_blocks();
        while (b + n > blocks) n /= 2;
        Tile piece = part;
        piece.w += b * t.w_block;
        piece.out += b * pack;
        if (piece.start != nullptr) piece.start += b * pack;
        if (piece.bias != nullptr) piece.bias += b * pack;
        piece.lanes = static_cast<int>(std::min(pack, columns - (b + n - 1) * pack));
        tile_function(n, static_cast<int>(count))(piece);
        b += n;
      }
    }
  };
  const auto run_groups = [&](int64_t begin, int64_t end, int worker) {
    float* unpacked = static_cast<float*>(call.workspace) + worker * space;
    LongLoop loop;
    for (int64_t group = begin; group < end && loop.goes_on(m_ * width_ * pack * form_.columns / 8); ++group) {
      const int64_t panel = group * width_;
      const int blocks = static_cast<int>(std::min<int64_t>(width_, form_.panels() - panel));
      const int64_t columns = std::min(blocks * pack, form_.rows - panel * pack);
      int64_t done = 0, block = 0, at = 0;  // columns; and the place of the next one
      while (done < form_.columns || done == 0) {
        // As many pieces of blocks as there is room for.
        int64_t length = 0;
        while (block < form_.blocks && length < kUnpackedColumns) {
          int64_t n = std::min(form_.block - at, kUnpackedColumns - length);
          if (n < form_.block - at) n = round_up(n, kQuantizedUnit);
          n = std::min(n, form_.block - at);
          for (int b = 0; b < blocks; ++b)
            unpack_quantized({&form_, packed, panel + b, block, at, at + n},
                             unpacked + (b * (kUnpackedColumns + kQuantizedUnit) + length) * pack);
          length += n;
          at += n;
          if (at == form_.block) ++block, at = 0;
        }
        const bool first = done == 0, last = done + length == form_.columns;
        Tile t;
        t.in = a + done;
        t.in_pixel = lda;
        t.steps[0].length = length;
        t.steps[1].outer = 0;
        t.w = unpacked;
        t.w_block = (kUnpackedColumns + kQuantizedUnit) * pack;
        t.bias = first && call.bias != nullptr ? call.bias + panel * pack : nullptr;
        t.out = call.c + panel * pack;
        t.out_pixel = call.ldc;
        t.out_block = pack;
        t.start = !first ? t.out : call.start != nullptr ? call.start + panel * pack : nullptr;
        t.low = last ? activation_.low : -std::numeric_limits<float>::infinity();
        t.high = last ? activation_.high : std::numeric_limits<float>::infinity();
        multiply(t, blocks, columns);
        done += length;
        if (length == 0) break;
      }
      if (!activation_.is_clamp()) activate(activation_, call.c + panel * pack, m_, call.ldc, columns);
    }
  };
  if (call.pool == nullptr || m_ * form_.rows * form_.columns < kSerialWeights) return run_groups(0, groups, 0);
  call.pool->parallel_for(groups, 1, run_groups);
}

// Two panels at a time become numbers of bf16, which the rounded rows are multiplied with.
void QuantizedGemm::run_bf16(const GemmCall& call) const {
  const int64_t k = form_.columns, steps = ceil_div(k, kBf16Depth), band_rows = std::min(m_, kTileBand);
  const int64_t lines = band_rows + kBf16Pixels, columns = kBf16Blocks * kBf16Columns;
  const int64_t pairs = ceil_div(form_.panels(), kBf16Blocks);
  char* space = static_cast<char*>(call.workspace);
  auto* rounded = reinterpret_cast<uint16_t*>(space + threads_ * tile_worker_bytes());  // [step][row][32]
  ThreadPool* pool = m_ * form_.rows * k < kSerialWeights ? nullptr : call.pool;
  const auto run_parts = [&](int64_t n, int64_t grain, const auto& part) {
    pool == nullptr ? part(0, n, 0) : pool->parallel_for(n, grain, part);
  };
  for (int64_t begin = 0; begin < m_; begin += band_rows) {
    const int64_t rows = std::min(band_rows, m_ - begin);
    run_parts(rows, 8, [&](int64_t first, int64_t end, int) {
      for (int64_t r = first; r < end; ++r)
        bf16_round_row(call.a + (begin + r) * call.lda, k, steps * kBf16Depth, rounded + r * kBf16Depth, nullptr,
                       lines * kBf16Depth);
    });
    run_parts(pairs, 1, [&](int64_t first, int64_t end, int worker) {
      float* sums = reinterpret_cast<float*>(space + worker * tile_worker_bytes());
      float* w = sums + kBf16Pixels * columns;
      Bf16Tile t;
      t.in_pixel = 2 * kBf16Depth;
      t.w = reinterpret_cast<const char*>(w);
      t.w_block = 4 * bf16_packed_floats(k, kBf16Columns, false);
      t.inner = steps;
      t.in_inner = lines * t.in_pixel;
      t.sums = sums;
      LongLoop loop;
      bf16_unit()->begin(kBf16Depth);
      for (int64_t pair = first; pair < end && loop.goes_on(rows * columns * k / 64); ++pair) {
        t.blocks = static_cast<int>(std::min(kBf16Blocks, form_.panels() - pair * kBf16Blocks));
        for (int64_t b = 0; b < t.blocks; ++b)
          unpack_quantized_bf16(form_, call.packed_b, pair * kBf16Blocks + b, w + b * t.w_block / 4);
        const int64_t column = pair * columns, width = std::min(columns, form_.rows - column);
        for (int64_t r = 0; r < rows; r += kBf16Pixels) {
          t.pixels = static_cast<int>(std::min(kBf16Pixels, rows - r));
          t.in = reinterpret_cast<const char*>(rounded + r * kBf16Depth);
          bf16_unit()->multiply(t);
          const int64_t at = (begin + r) * call.ldc + column;
          bf16_finish({sums, t.pixels, t.blocks, static_cast<int>(width - (t.blocks - 1) * kBf16Columns),
                       call.bias == nullptr ? nullptr : call.bias + column,
                       call.start == nullptr ? nullptr : call.start + at, call.c + at, call.ldc, kBf16Columns,
                       activation_.low, activation_.high});
          if (!activation_.is_clamp()) activate(activation_, call.c + at, t.pixels, call.ldc, width);
        }
      }
      bf16_unit()->end();
    });
  }
}

void QuantizedGemm::run_bytes(const GemmCall& call) const {
  char* space = static_cast<char*>(call.workspace) + round_up(row_bytes(), 64);
  const auto take = [&](int64_t bytes) {
    char* at = space;
    space += round_up(bytes, 64);
    return at;
  };
  const int64_t rows = m_ + kByteLines, lines = m_ * digits_ + kByteLines;
  ByteCall bytes = byte_call(call);
  ByteRows& a = bytes.a;
  a.stride = line_bytes();
  a.chunks = chunks();
  a.chunk_units = chunk_units_;
  a.sums = reinterpret_cast<float*>(take(4 * rows * form_.blocks));
  a.codes = reinterpret_cast<int8_t*>(take(lines * a.stride));
  a.scale = reinterpret_cast<float*>(take(4 * rows * a.chunks));
  a.start = reinterpret_cast<int32_t*>(take(4 * lines * a.chunks));
  auto* rounded = reinterpret_cast<bool*>(space);
  const auto round_rows = [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) rounded[r] = round_quantized_row(form_, call.a + r * call.lda, r, a);
  };
  if (call.pool == nullptr || m_ == 1) {
    round_rows(0, m_, 0);
  } else {
    call.pool->parallel_for(m_, std::max<int64_t>(1, 16384 / form_.columns), round_rows);
  }
  // Rows that follow each other; what no bytes stand for is computed in floats.
  for (int64_t first = 0, end = 0; first < m_; first = end) {
    end = first + 1;
    if (exact_ && !rounded[first]) {
      run_row(call.from_row(first));
      continue;
    }
    while (end < m_ && (!exact_ || rounded[end])) ++end;
    multiply_bytes(bytes, first, end, call.pool);
  }
}

void QuantizedGemm::multiply_bytes(ByteCall bytes, int64_t first, int64_t end, ThreadPool* pool) const {
  ByteRows& a = bytes.a;
  a.rows = end - first;
  a.codes += first * a.digits * a.stride;
  a.scale += first * a.chunks;
  a.start += first * a.digits * a.chunks;
  a.sums += first * form_.blocks;
  bytes.c += first * bytes.ldc;
  if (bytes.start != nullptr) bytes.start += first * bytes.ldc;
  const int64_t pack = pack_width(), panels = form_.panels();
  const auto multiply = [&](int64_t from, int64_t to, int) {
    multiply_quantized_bytes(bytes, from, to);
    if (activation_.is_clamp()) return;
    activate(activation_, bytes.c + from * pack, a.rows, bytes.ldc, std::min(form_.rows, to * pack) - from * pack);
  };
  if (pool == nullptr || a.rows * form_.rows * form_.columns < kSerialWeights) return multiply(0, panels, 0);
  pool->parallel_for(panels, std::max<int64_t>(1, ceil_div(panels, 8 * threads_)), multiply);
}

}  // namespace minnow
#endif
