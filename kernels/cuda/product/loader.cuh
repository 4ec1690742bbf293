// Brings the operands of a tile to shared memory by ordinary threads: each copies chunks of 16 bytes, always the same
// chunk of every 8th of its rows. What lies outside of the images, beyond the channels or the columns is zero.
#pragma once

#include "kernels/cuda/product/arguments.h"
#include "kernels/cuda/product/ptx.cuh"

namespace minnow::cuda {

// kOne: x is a plain matrix of M rows. kKeep: x goes through the L1 cache, since windows overlap.
template <typename T, int kM, int kN, int kThreads, bool kOne, bool kKeep>
class Loader {
  static constexpr int kChunk = 16 / sizeof(T), kStep = 8 * kChunk;  // elements
  static constexpr int kRows = kThreads / 8, kRowsM = kM / kRows, kRowsN = kN / kRows;
  static_assert(kThreads % 64 == 0 && kM % kRows == 0 && kN % kRows == 0, "all threads have the same number of rows");

 public:
  // Loads begin at step `first` of the depth.
  __device__ __forceinline__ Loader(const ProductArguments& a, int thread, int tile_m, int tile_n, int first) {
    const int chunk = thread & 7, row = thread >> 3;
    place_ = row * 128 + ((chunk ^ (row & 7)) << 4);  // kRows is a multiple of 8: the same exchange in all rows
    x_ = static_cast<const T*>(a.x) + blockIdx.y * a.x_batch;
    more_ = a.split == 0 ? x_ : static_cast<const T*>(a.more) - a.split;
    w_ = static_cast<const T*>(a.w) + blockIdx.y * a.w_batch;
    column_ = tile_n + row;
#pragma unroll
    for (int i = 0; i < kRowsM; ++i) {
      const int m = tile_m + row + i * kRows;
      if (kOne) {
        offset_[i] = m < a.M ? m * a.pixel : -1;
        corner_[i] = 0;
      } else {
        const int n = m / (a.P * a.Q), pixel = m - n * a.P * a.Q, p = pixel / a.Q, q = pixel - p * a.Q;
        const int h = p * a.stride_h - a.pad_h, w = q * a.stride_w - a.pad_w;
        offset_[i] = (n * a.H + h) * a.pitch + w * a.pixel;
        corner_[i] = m < a.M ? (h << 16) | (w & 0xffff) : static_cast<int>(0x80000000);
      }
    }
    depth_ = channel_ = first * kStep + chunk * kChunk;
    if (!kOne) {
      const int padded = (a.C + 7) / 8 * 8, tap = channel_ / padded;
      channel_ -= tap * padded;
      tap_h_ = tap / a.S;
      tap_w_ = tap - tap_h_ * a.S;
    }
  }

  // The rows of w at the next step.
  __device__ __forceinline__ void load_w(const ProductArguments& a, uint32_t to) {
#pragma unroll
    for (int i = 0; i < kRowsN; ++i) {
      const int n = column_ + i * kRows;
      const bool inside = depth_ < a.depth && n < a.N;
      copy16(to + place_ + i * kRows * 128, w_ + (inside ? static_cast<int64_t>(n) * a.depth + depth_ : 0),
             inside ? 16 : 0);
    }
    depth_ += kStep;
  }

  // The windows of x at the next step.
  __device__ __forceinline__ void load_x(const ProductArguments& a, uint32_t to) {
    const int left = a.C - channel_;
    const int h0 = tap_h_ * a.dilation_h, w0 = tap_w_ * a.dilation_w;
    const T* const x = a.split != 0 && channel_ >= a.split ? more_ : x_;
    const int shift = kOne ? channel_ : h0 * a.pitch + w0 * a.pixel + channel_;
    // Lanes beyond the channels may hold anything; they must not be multiplied, not even with zeros.
    const int bytes = left <= 0 ? 0 : left < kChunk ? left * static_cast<int>(sizeof(T)) : 16;
#pragma unroll
    for (int i = 0; i < kRowsM; ++i) {
      bool inside;
      if (kOne) {
        inside = offset_[i] >= 0;
      } else {
        const int h = (corner_[i] >> 16) + h0, w = static_cast<int16_t>(corner_[i] & 0xffff) + w0;
        inside = static_cast<unsigned>(h) < static_cast<unsigned>(a.H) &&
                 static_cast<unsigned>(w) < static_cast<unsigned>(a.W) && tap_h_ < a.R;
      }
      const bool some = inside && bytes > 0;
      copy16<kKeep>(to + place_ + i * kRows * 128, some ? x + (offset_[i] + shift) : x_, some ? bytes : 0);
    }
    channel_ += kStep;
    if (!kOne) {
      const int padded = (a.C + 7) / 8 * 8;
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
  const T *x_, *more_, *w_;
  uint32_t place_;
  int column_, depth_, channel_, tap_h_ = 0, tap_w_ = 0;
  int offset_[kRowsM], corner_[kRowsM];
};

}  // namespace minnow::cuda
