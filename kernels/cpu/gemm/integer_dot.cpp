// Products of bytes by the instruction of 64-bit Arm that adds four of them, sdot. It takes signed numbers on both
// sides, so the right ones have their top bit flipped as they are read: that is 128 times the sum of the left ones
// less.
#include "kernels/cpu/gemm/integer.h"

#include "kernels/cpu/machine/simd.h"

#if HWY_ARCH_ARM_A64
#include <arm_neon.h>

#include <cstring>

#include "hwy/base.h"

HWY_PUSH_ATTRIBUTES("arch=armv8.2-a+crypto+dotprod")
namespace minnow {
namespace {

constexpr int kVectors = 4;

// Step `kStep` of those whose left numbers `a` holds.
template <int kStep, int kRows>
inline __attribute__((always_inline)) void add_step(const uint32_t* b, const int8x16_t (&a)[kRows],
                                                    int32x4_t (&sum)[kRows][kVectors]) {
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const int8x16_t x = vreinterpretq_s8_u8(veorq_u8(vreinterpretq_u8_u32(vld1q_u32(b + 4 * v)), vdupq_n_u8(0x80)));
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sum[r][v] = vdotq_laneq_s32(sum[r][v], x, a[r], kStep);
  }
}

template <int kRows>
void dot_tile(const IntegerProduct& p, int64_t row, int64_t column) {
  int32x4_t sum[kRows][kVectors], left[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    left[r] = vdupq_n_s32(0);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = left[r];
  }
  const uint32_t *a = p.left + row * p.steps, *b = p.right + column;
  const int8x16_t ones = vdupq_n_s8(1);
  int8x16_t x[kRows];
  int64_t s = 0;
  for (; s + 4 <= p.steps; s += 4) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      x[r] = vreinterpretq_s8_u32(vld1q_u32(a + r * p.steps + s));
      left[r] = vdotq_s32(left[r], x[r], ones);
    }
    add_step<0>(b + p.offset[s], x, sum);
    add_step<1>(b + p.offset[s + 1], x, sum);
    add_step<2>(b + p.offset[s + 2], x, sum);
    add_step<3>(b + p.offset[s + 3], x, sum);
  }
  for (; s < p.steps; ++s) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      x[r] = vreinterpretq_s8_u32(vsetq_lane_u32(a[r * p.steps + s], vdupq_n_u32(0), 0));
      left[r] = vdotq_s32(left[r], x[r], ones);
    }
    add_step<0>(b + p.offset[s], x, sum);
  }
  const int64_t columns = std::min<int64_t>(4 * kVectors, p.columns - column);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    const int64_t i = row + r;
    const uint32_t start = p.start[i] + 128 * static_cast<uint32_t>(vaddvq_s32(left[r]));
    uint32_t part[4 * kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      vst1q_u32(part + 4 * v, vaddq_u32(vreinterpretq_u32_s32(sum[r][v]), vdupq_n_u32(start)));
    if (p.column != nullptr)
      for (int64_t j = 0; j < columns; ++j) part[j] -= p.factor[i] * p.column[column + j];
    std::memcpy(p.c + i * p.ldc + column, part, static_cast<size_t>(columns) * sizeof(uint32_t));
  }
}

}  // namespace

void gemm_integer_dot(const IntegerProduct& p) {
  constexpr int kRows = 4;
  for (int64_t j = 0; j < p.columns; j += kDotPanel) {
    int64_t i = 0;
    for (; i + kRows <= p.rows; i += kRows) dot_tile<kRows>(p, i, j);
    for (; i < p.rows; ++i) dot_tile<1>(p, i, j);
  }
}

}  // namespace minnow
HWY_POP_ATTRIBUTES
#endif
