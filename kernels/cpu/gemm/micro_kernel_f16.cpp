#include "kernels/cpu/gemm/micro_kernel_f16.h"

#include "kernels/cpu/machine/simd.h"

#if HWY_ARCH_ARM_A64
#include <arm_neon.h>

#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "hwy/base.h"

HWY_PUSH_ATTRIBUTES("arch=armv8.2-a+crypto+fp16")
namespace minnow {
namespace {

constexpr int kLanes = 4;  // of a block, in f32

// total[0..8n) += sums[0..8n)
__attribute__((noinline)) void add_sums(const float16_t* sums, int n, float* total) {
  for (int i = 0; i < n; ++i, sums += 8, total += 8) {
    const float16x8_t v = vld1q_f16(sums);
    vst1q_f32(total, vaddq_f32(vld1q_f32(total), vcvt_f32_f16(vget_low_f16(v))));
    vst1q_f32(total + 4, vaddq_f32(vld1q_f32(total + 4), vcvt_high_f32_f16(v)));
  }
}

__attribute__((noinline)) void finish(const Tile& t, const float* total, int pixels, int row) {
  for (int r = 0; r < pixels; ++r) {
    for (int b = 0; b < t.half.blocks; ++b) {
      float32x4_t v = vmulq_n_f32(vld1q_f32(total + r * row + b * kLanes), t.half.scale);
      if (t.bias != nullptr) v = vaddq_f32(v, vld1q_f32(t.bias + b * kLanes));
      const size_t bytes = sizeof(float) * static_cast<size_t>(b == t.half.blocks - 1 ? t.lanes : kLanes);
      const int64_t at = r * t.out_pixel + b * t.out_block;
      float part[kLanes] = {};
      if (t.start != nullptr) {
        std::memcpy(part, t.start + at, bytes);
        v = vaddq_f32(v, vld1q_f32(part));
      }
      vst1q_f32(part, vminq_f32(vmaxq_f32(v, vdupq_n_f32(t.low)), vdupq_n_f32(t.high)));
      std::memcpy(t.out + at, part, bytes);
    }
  }
}

// A step more, for what does not fill a step of four.
__attribute__((noinline)) void add_step(const float* p, int64_t stride, const float16_t* w, int pixels, int vectors,
                                        float* total) {
  for (int r = 0; r < pixels; ++r, p += stride)
    for (int i = 0; i < 2 * vectors; ++i, total += 4)
      vst1q_f32(total, vfmaq_n_f32(vld1q_f32(total), vcvt_f32_f16(vld1_f16(w + 4 * i)), *p));
}

// Sum plus w times number `kNumber` of x. By itself gcc spreads that number over a vector of its own first.
template <int kNumber>
inline float16x8_t plus_product(float16x8_t sum, float16x8_t w, float16x8_t x) {
  asm("fmla %0.8h, %1.8h, %2.h[%3]" : "+w"(sum) : "w"(w), "x"(x), "i"(kNumber));
  return sum;
}

// Step `kStep` of four; x has four numbers of each of R pixels.
template <int kStep, int V, int R>
inline __attribute__((always_inline)) void add_products(const float16_t* w, const float16x8_t (&x)[(R + 1) / 2],
                                                        float16x8_t (&sum)[R][V]) {
  float16x8_t weight[V];
#pragma GCC unroll 2
  for (int v = 0; v < V; ++v) weight[v] = vld1q_f16(w + (kStep * V + v) * 8);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v)
      sum[r][v] = r % 2 == 0 ? plus_product<kStep>(sum[r][v], weight[v], x[r / 2])
                             : plus_product<kStep + 4>(sum[r][v], weight[v], x[r / 2]);
}

// `pixels` pixels, from `kLeast` to `R`, times `V` vectors of 8 columns. What is missing to R is the last one again.
template <int V, int kLeast, int R>
void half_tile(const Tile& t, int pixels) {
  constexpr int kRow = 8 * V;
  float total[R * kRow] = {};
  const int64_t stride = t.in_pixel;
  int64_t to_next[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) to_next[r] = r + 1 < kLeast || r + 1 < pixels ? stride : 0;
  for (const TileSteps& s : t.steps) {
    float16x8_t sum[R][V];
    int64_t left = 0;  // steps until the sums must go into `total`
    const auto flush = [&] {
      float16_t sums[R * kRow];
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) vst1q_f16(sums + r * kRow + v * 8, sum[r][v]);
      add_sums(sums, R * V, total);
    };
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sum[r][v] = vdupq_n_f16(0);
    left = kHalfSteps;
    for (int64_t o = 0; o < s.outer; ++o) {
      for (int64_t middle = 0; middle < s.middle; ++middle) {
        const float* row = t.in + s.in + o * s.in_outer + middle * s.in_middle;
        const float16_t* w =
            static_cast<const float16_t*>(t.half.w) + (s.w + o * s.w_outer + middle * s.w_middle) / kLanes * kRow;
        for (int64_t i = 0; i < s.inner; ++i, row += s.in_inner) {
          const float* p = row;
          for (int64_t n = s.length; n > 0;) {
            if (n < 4) {
              add_step(p, stride, w, pixels, V, total);
              --n, ++p, w += kRow;
              continue;
            }
            int64_t m = std::min(n & ~int64_t{3}, left);
            n -= m;
            left -= m;
            for (; m > 0; m -= 4, p += 4, w += 4 * kRow) {
              float16x8_t x[(R + 1) / 2];
              const float* q = p;
#pragma GCC unroll 16
              for (int r = 0; r < R; q += to_next[r], ++r)
                x[r / 2] = r % 2 == 0 ? vcombine_f16(vcvt_f16_f32(vld1q_f32(q)), vcreate_f16(0))
                                      : vcvt_high_f16_f32(vget_low_f16(x[r / 2]), vld1q_f32(q));
              add_products<0>(w, x, sum);
              add_products<1>(w, x, sum);
              add_products<2>(w, x, sum);
              add_products<3>(w, x, sum);
            }
            if (left > 0) continue;
            flush();
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
              for (int v = 0; v < V; ++v) sum[r][v] = vdupq_n_f16(0);
            left = kHalfSteps;
          }
        }
      }
    }
    if (left < kHalfSteps) flush();
  }
  finish(t, total, pixels, kRow);
}

// Each size serves those below it that have none of their own.
template <int V, int kPixels>
void half_tile_of(const Tile& t) {
  constexpr int kSizes[] = {0, V == 2 ? 2 : 4, V == 2 ? 4 : 7, V == 2 ? 6 : 12, 14 / V};
  constexpr int i = 1 + (kPixels > kSizes[1]) + (kPixels > kSizes[2]) + (kPixels > kSizes[3]);
  half_tile<V, kSizes[i - 1] + 1, kSizes[i]>(t, kPixels);
}

template <int V, size_t... I>
TileFunction pick(int pixels, std::index_sequence<I...>) {
  static constexpr std::array<TileFunction, sizeof...(I)> kTable = {half_tile_of<V, static_cast<int>(I) + 1>...};
  return kTable[static_cast<size_t>(pixels - 1)];
}

// `count` blocks (1 or 2), times `scale`, as 8 columns of every `row`.
void round_blocks(const float* w, int64_t w_block, int count, int64_t steps, float scale, float16_t* to, int row) {
  const float* second = count > 1 ? w + w_block : w;
  const float second_scale = count > 1 ? scale : 0;
  for (int64_t i = 0; i < steps; ++i, to += row) {
    const float16x4_t low = vcvt_f16_f32(vmulq_n_f32(vld1q_f32(w + i * kLanes), scale));
    vst1q_f16(to, vcvt_high_f16_f32(low, vmulq_n_f32(vld1q_f32(second + i * kLanes), second_scale)));
  }
}

}  // namespace

void make_half_panel(Tile* t, int blocks, int64_t steps, void* panel) {
  float32x4_t most = vdupq_n_f32(0);
  for (int b = 0; b < blocks; ++b)
    for (int64_t i = 0; i < steps; ++i)
      most = vmaxnmq_f32(most, vabsq_f32(vld1q_f32(t->w + b * t->w_block + i * kLanes)));
  int exponent = 0;
  const float largest = vmaxvq_f32(most);
  if (std::isfinite(largest)) std::frexp(largest, &exponent);  // largest < 2^exponent
  exponent = std::max(exponent, -100);                         // what is smaller still vanishes
  const int row = blocks > 2 ? 16 : 8;
  float16_t* to = static_cast<float16_t*>(panel);
  static_assert(kHalfSteps == 1 << 6, "the exponent below");
  for (int b = 0; b < blocks; b += 2)
    round_blocks(t->w + b * t->w_block, t->w_block, std::min(2, blocks - b), steps, std::ldexp(1.0f, -6 - exponent),
                 to + b * kLanes, row);
  t->half = {panel, std::ldexp(1.0f, 6 + exponent), blocks};
}

TileFunction half_tile_function(int blocks, int pixels) {
  if (blocks == 4) return pick<2>(pixels, std::make_index_sequence<7>());
  return pick<1>(pixels, std::make_index_sequence<14>());
}

}  // namespace minnow
HWY_POP_ATTRIBUTES

#else

namespace minnow {

void make_half_panel(Tile*, int, int64_t, void*) {}
TileFunction half_tile_function(int blocks, int pixels) { return tile_function(blocks, pixels); }

}  // namespace minnow

#endif

namespace minnow {

bool takes_half(Precision precision, int64_t pixels) {
  return kHasLowPrecision && precision == Precision::kLow && has_half() && pixels >= 16;
}

}  // namespace minnow
