// Brings the operands of a tile of bytes to shared memory. As kernels/cuda/product/loader.cuh, but x is copied in
// chunks of 16 or of 8 bytes, and what lies outside of the image is the zero point of x.
#pragma once

#include "kernels/cuda/integer/arguments.h"
#include "kernels/cuda/integer/integer_instructions.cuh"

namespace minnow::cuda {

// kOne: x is a plain matrix of M rows.
template <int kM, int kN, int kThreads, int kChunk, bool kOne>
class IntegerLoader {
  static constexpr int kPer = 128 / kChunk;  // chunks of a row
  static constexpr int kRows = kThreads / kPer, kPasses = kM / kRows;
  static constexpr int kRowsW = kThreads / 8, kPassesW = kN / kRowsW;
  static_assert(kRows % 8 == 0 && kM % kRows == 0 && kN % kRowsW == 0, "all threads have the same number of rows");

 public:
  // Loads begin at step `first` of the depth.
  __device__ __forceinline__ IntegerLoader(const IntegerArguments& a, int thread, int tile_m, int tile_n, int first) {
    const int chunk = thread % kPer, row = thread / kPer;
    const int part = chunk * kChunk / 16, half = chunk * kChunk % 16;
    place_ = row * 128 + ((part ^ (row & 7)) << 4) + half;  // kRows is a multiple of 8: the same exchange in all rows
    place_w_ = (thread >> 3) * 128 + (((thread & 7) ^ ((thread >> 3) & 7)) << 4);
    x_ = static_cast<const int8_t*>(a.x) + blockIdx.y * a.x_batch;
    w_ = a.w + blockIdx.y * a.w_batch;
    column_ = tile_n + (thread >> 3);
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      const int m = tile_m + row + i * kRows;
      if (kOne) {
        offset_[i] = m < a.M ? m * a.pixel : -1;
        corner_[i] = 0;
      } else {
        const int n = m / (a.P * a.Q), pixel = m - n * a.P * a.Q, p = pixel / a.Q, q = pixel - p * a.Q;
        const int h = p * a.stride_h - a.pad_h, w = q * a.stride_w - a.pad_w;
        offset_[i] = ((n * a.H + h) * a.W + w) * a.pixel;
        corner_[i] = m < a.M ? (h << 16) | (w & 0xffff) : static_cast<int>(0x80000000);
      }
    }
    depth_ = first * 128 + (thread & 7) * 16;
    channel_ = first * 128 + chunk * kChunk;
    if (!kOne) {
      const int padded = (a.C + kChunk - 1) / kChunk * kChunk, tap = channel_ / padded;
      channel_ -= tap * padded;
      tap_h_ = tap / a.S;
      tap_w_ = tap - tap_h_ * a.S;
    }
  }

  // The rows of w at the next step.
  __device__ __forceinline__ void load_w(const IntegerArguments& a, uint32_t to) {
#pragma unroll
    for (int i = 0; i < kPassesW; ++i) {
      const int n = column_ + i * kRowsW;
      const bool inside = depth_ < a.depth && n < a.N;
      copy16(to + place_w_ + i * kRowsW * 128, w_ + (inside ? static_cast<int64_t>(n) * a.depth + depth_ : 0),
             inside ? 16 : 0);
    }
    depth_ += 128;
  }

  // The windows of x at the next step.
  __device__ __forceinline__ void load_x(const IntegerArguments& a, uint32_t to) {
    const int h0 = tap_h_ * a.dilation_h, w0 = tap_w_ * a.dilation_w;
    const int shift = kOne ? channel_ : (h0 * a.W + w0) * a.pixel + channel_;
    const bool is_tap = kOne || tap_h_ < a.R;
    const int left = is_tap ? a.C - channel_ : 0, bytes = left <= 0 ? 0 : left < kChunk ? left : kChunk;
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      bool inside;
      if (kOne) {
        inside = offset_[i] >= 0;
      } else {
        const int h = (corner_[i] >> 16) + h0, w = static_cast<int16_t>(corner_[i] & 0xffff) + w0;
        inside = static_cast<unsigned>(h) < static_cast<unsigned>(a.H) &&
                 static_cast<unsigned>(w) < static_cast<unsigned>(a.W);
      }
      const void* from = x_;
      int count = bytes;
      if (inside && bytes > 0) {
        from = x_ + (offset_[i] + shift);
      } else if (!kOne && a.pad != nullptr) {
        from = a.pad;
      } else {
        count = 0;
      }
      const uint32_t at = to + place_ + i * kRows * 128;
      if constexpr (kChunk == 16) {
        copy16(at, from, count);
      } else {
        copy8(at, from, count);
      }
    }
    channel_ += 128;
    if (!kOne) {
      const int padded = (a.C + kChunk - 1) / kChunk * kChunk;
      while (channel_ >= padded) {
        channel_ -= padded;
        if (++tap_w_ == a.S) {
          tap_w_ = 0;
          ++tap_h_;
        }
      }
    }
  }

 private:
  const int8_t *x_, *w_;
  uint32_t place_, place_w_;
  int column_, depth_, channel_, tap_h_ = 0, tap_w_ = 0;
  int offset_[kPasses], corner_[kPasses];
};

}  // namespace minnow::cuda
