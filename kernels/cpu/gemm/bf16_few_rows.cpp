// A few rows times a matrix of bf16 that is widened in registers.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include <algorithm>
#include <cstring>

#include "kernels/cpu/gemm/bf16.h"
#include "kernels/cpu/elementwise/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int64_t kPairsAhead = (4 << 10) / 4;  // pairs that are asked for ahead, in each of the blocks

// Stores the sums [block][row], with all that is added to them: once for all numbers of rows and blocks.
HWY_NOINLINE void finish_blocks(const Bf16RowsCall& g, int64_t block, int rows, int blocks, const float* sums) {
  const D d;
  const V low = hn::Set(d, g.low), high = hn::Set(d, g.high);
  for (; blocks > 0; --blocks, ++block) {
    const int64_t column = block * kFloatLanes, lanes = std::min(kFloatLanes, g.n - column);
    const V bias = g.bias == nullptr ? hn::Zero(d) : hn::LoadU(d, g.bias + column);
    for (int r = 0; r < rows; ++r, sums += kFloatLanes) {
      V total = hn::Add(hn::Load(d, sums), bias);
      if (g.start != nullptr) total = hn::Add(total, LoadPart(d, g.start + r * g.ldc + column, lanes));
      StorePart(d, AtMost(high, AtLeast(low, total)), g.c + r * g.ldc + column, lanes);
    }
  }
}

// `R` rows, `NB` blocks of columns `stride` apart. `next` is how far those that are read after them lie behind them.
template <int R, int NB>
HWY_INLINE void rows_of_blocks(const Bf16RowsCall& g, int64_t block, int64_t stride, int64_t next) {
  const D d;
  const hn::RebindToUnsigned<D> bits;
  const uint32_t* HWY_RESTRICT w = reinterpret_cast<const uint32_t*>(g.packed_b) + block * stride;
  const auto upper = hn::Set(bits, 0xffff0000u);
  constexpr int kSums = R == 1 ? 2 : 1;  // of one row, so that several additions are under way
  V sum[R][NB][kSums];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int b = 0; b < NB; ++b) {
      for (int i = 0; i < kSums; ++i) sum[r][b][i] = hn::Zero(d);
    }
  // The last steps fetch what comes first in the next blocks.
  const int64_t switch_at = std::clamp<int64_t>((stride - kPairsAhead) / kFloatLanes, 0, g.k / 2);
  int64_t i = 0;
  for (int part = 0; part < 2; ++part) {
    const int64_t end = part == 0 ? switch_at : g.k / 2;
    const int64_t ahead = part == 0 ? kPairsAhead : kPairsAhead - stride + next;
    for (; i < end; ++i) {
      const uint32_t* at = w + i * kFloatLanes;
#pragma GCC unroll 4
      for (int b = 0; b < NB; ++b) {
        __builtin_prefetch(at + b * stride + ahead, 0, 3);
        const auto pair = hn::Load(bits, at + b * stride);
        const V even = hn::BitCast(d, hn::ShiftLeft<16>(pair)), odd = hn::BitCast(d, hn::And(pair, upper));
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
          const float* a = g.a + r * g.lda + 2 * i;
          sum[r][b][0] = hn::MulAdd(hn::Set(d, a[0]), even, sum[r][b][0]);
          sum[r][b][kSums - 1] = hn::MulAdd(hn::Set(d, a[1]), odd, sum[r][b][kSums - 1]);
        }
      }
    }
  }
  if (2 * i < g.k) {  // the second of the pair is no weight: NaN times its 0 would be NaN
#pragma GCC unroll 4
    for (int b = 0; b < NB; ++b) {
      const V even = hn::BitCast(d, hn::ShiftLeft<16>(hn::Load(bits, w + b * stride + i * kFloatLanes)));
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) sum[r][b][0] = hn::MulAdd(hn::Set(d, g.a[r * g.lda + 2 * i]), even, sum[r][b][0]);
    }
  }
  HWY_ALIGN float sums[NB * R * kFloatLanes];
#pragma GCC unroll 4
  for (int b = 0; b < NB; ++b)
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      hn::Store(kSums == 2 ? hn::Add(sum[r][b][0], sum[r][b][kSums - 1]) : sum[r][b][0], d,
                sums + (b * R + r) * kFloatLanes);
  finish_blocks(g, block, R, NB, sums);
}

template <int R, int NB>
void blocks_of(const Bf16RowsCall& g, int64_t stride, int64_t begin, int64_t end) {
  for (; begin + NB <= end; begin += NB) rows_of_blocks<R, NB>(g, begin, stride, NB * stride);
  for (; begin < end; ++begin) rows_of_blocks<R, 1>(g, begin, stride, stride);
}

// As many blocks at once as leave their sums in 8 of at least 16 registers.
void bf16_rows_blocks(const Bf16RowsCall& g, int64_t stride, int rows, int64_t begin, int64_t end) {
#if HWY_TARGET == HWY_SSE4  // on the oldest processors one by one: less code
  Bf16RowsCall row = g;
  for (; rows > 0; --rows, row.a += g.lda, row.c += g.ldc) {
    blocks_of<1, 4>(row, stride, begin, end);
    if (g.start != nullptr) row.start += g.ldc;
  }
#else
  if (rows == 1) return blocks_of<1, 4>(g, stride, begin, end);
  if (rows == 2) return blocks_of<2, 4>(g, stride, begin, end);
  if (rows == 3) return blocks_of<3, 2>(g, stride, begin, end);
  return blocks_of<4, 2>(g, stride, begin, end);
#endif
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/gemm/bf16_micro_kernel.h"
#include "kernels/core/rounding.h"
#include "kernels/cpu/movement/transpose.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {

HWY_EXPORT(bf16_rows_blocks);

void bf16_rows(const Bf16RowsCall& call, int rows, int64_t begin, int64_t end) {
  if constexpr (!kHasLowPrecision) return;
  HWY_DYNAMIC_DISPATCH(bf16_rows_blocks)(call, bf16_pairs(call.k) * pack_width(), rows, begin, end);
}

int64_t bf16_pairs(int64_t k) { return round_up(k, bf16_unit() != nullptr ? kBf16Depth : 2) / 2; }

int64_t bf16_packed_floats(int64_t k, int64_t n, bool split) {
  return bf16_pairs(k) * round_up(n, pack_width()) * (split ? 2 : 1);
}

void bf16_pack_b(const float* b, int64_t ldb, bool transposed, int64_t k, int64_t n, bool split, float* packed,
                 ThreadPool* pool, bool flush) {
  constexpr int64_t kMostLanes = 16;
  const int64_t pack = pack_width(), pairs = bf16_pairs(k), parts = split ? 2 : 1;
  auto pack_blocks = [&](int64_t first, int64_t last, int) {
    // Of a step, B^T or B, and what is left of it: [column][k], or [k][column].
    alignas(64) uint16_t rounded[2][kBf16Depth * kMostLanes], part_rows[2][2 * kMostLanes];
    for (int64_t block = first; block < last; ++block) {
      const int64_t lanes = std::min(pack, n - block * pack);
      uint32_t* to = reinterpret_cast<uint32_t*>(packed) + block * pairs * parts * pack;
      for (int64_t k0 = 0; k0 < 2 * pairs; k0 += kBf16Depth) {
        const int64_t steps = std::min(kBf16Depth, k - k0), count = std::min(kBf16Depth / 2, pairs - k0 / 2);
        std::memset(rounded, 0, sizeof(rounded));
        if (transposed) {
          for (int64_t l = 0; l < lanes; ++l)
            bf16_round_row(b + (block * pack + l) * ldb + k0, steps, kBf16Depth, rounded[0] + l * kBf16Depth,
                           flush ? nullptr : rounded[1] + l * kBf16Depth, kBf16Depth);
        } else {
          for (int64_t i = 0; i < steps; ++i) {
            const float* row = b + (k0 + i) * ldb + block * pack;
            if (flush && i % 2 == 0 &&
                bf16_round_pair(row, i + 1 < steps ? row + ldb : nullptr, lanes, rounded[0] + i * pack)) {
              ++i;
              continue;
            }
            bf16_round_row(row, lanes, kBf16Depth, part_rows[0], part_rows[1], 0);
            for (int part = 0; part < parts; ++part)
              for (int64_t l = 0; l < pack; ++l) rounded[part][i / 2 * 2 * pack + 2 * l + i % 2] = part_rows[part][l];
          }
        }
        for (int part = 0; part < parts; ++part, to += count * pack) {
          if (transposed) {
            transpose({count, pack, kBf16Depth / 2, pack, pack, kBf16Depth / 2}, rounded[part], to, sizeof(uint32_t));
          } else {
            std::memcpy(to, rounded[part], static_cast<size_t>(count * pack) * sizeof(uint32_t));
          }
        }
      }
    }
  };
  if (pool == nullptr) return pack_blocks(0, ceil_div(n, pack), 0);
  pool->parallel_for(ceil_div(n, pack), std::max<int64_t>(1, 65536 / (k * pack + 1)), pack_blocks);
}

}  // namespace minnow
#endif
