#include "kernels/cpu/conv/quantized_transposed.h"

#include <algorithm>
#include <cstring>

#include "kernels/core/interrupt.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

// Bands have so many sums, and as many pixels, where they can: each reads all weights.
constexpr int64_t kBandSums = 1 << 18, kSmallestBand = 16, kLargestBand = 256;

int64_t band_of(int64_t pixels, int64_t columns) {
  const int64_t band = std::clamp(kBandSums / columns / 16 * 16, kSmallestBand, kLargestBand);
  return std::max<int64_t>(1, std::min(band, pixels));
}

}  // namespace

QuantizedTransposed::QuantizedTransposed(const QuantizedMatrix& w, const Window& window,
                                         const std::array<int64_t, 3>& in, const std::array<int64_t, 3>& out,
                                         int64_t in_channels, int64_t out_channels, const Activation& activation,
                                         int threads, Precision precision)
    : window_(window),
      in_(in),
      out_(out),
      in_channels_(in_channels),
      out_channels_(out_channels),
      band_(band_of(pixels(), out_channels * taps())),
      activation_(activation),
      columns_(w, band_, in_channels, out_channels * taps(), taps(), threads, precision) {}

int64_t QuantizedTransposed::workspace_bytes() const {
  return 4 * band_ * (in_channels_ + out_channels_ * taps()) + columns_.workspace_bytes();
}

// Rows of the channels of a band of pixels; zeros behind the last pixel.
void QuantizedTransposed::gather(const float* image, int64_t begin, float* rows, ThreadPool* pool) const {
  const int64_t pack = pack_width(), count = std::min(band_, pixels() - begin);
  pool->parallel_for(in_channels_ / pack, 16, [&](int64_t first, int64_t end, int) {
    for (int64_t block = first; block < end; ++block) {
      const float* from = image + (block * pixels() + begin) * pack;
      float* to = rows + block * pack;
      for (int64_t i = 0; i < band_; ++i, from += pack, to += in_channels_)
        i < count ? std::copy_n(from, pack, to) : std::fill_n(to, pack, 0.0f);
    }
  });
}

// What a band of pixels adds to a block of output channels.
void QuantizedTransposed::add(const float* sums, int64_t block, int64_t begin, float* out) const {
  const int64_t pack = pack_width(), part = columns_.part(), row = out_channels_ * taps();
  const int64_t channel = block * pack, end = std::min(begin + band_, pixels());
  sums += channel / part * part * taps() + channel % part;
  out += block * out_[1] * out_[2] * pack;
  for (int64_t pixel = begin; pixel < end; ++pixel, sums += row) {
    const int64_t top = pixel / in_[2] * window_.stride[1] - window_.begin[1];
    const int64_t left = pixel % in_[2] * window_.stride[2] - window_.begin[2];
    const float* from = sums;
    for (int64_t ky = 0; ky < window_.kernel[1]; ++ky) {
      const int64_t y = top + ky * window_.dilation[1];
      for (int64_t kx = 0; kx < window_.kernel[2]; ++kx, from += part) {
        const int64_t x = left + kx * window_.dilation[2];
        if (y < 0 || y >= out_[1] || x < 0 || x >= out_[2]) continue;
        float* to = out + (y * out_[2] + x) * pack;
        for (int64_t lane = 0; lane < pack; ++lane) to[lane] += from[lane];
      }
    }
  }
}

void QuantizedTransposed::run(const Call& call) const {
  const int64_t pack = pack_width(), blocks = out_channels_ / pack, size = out_[1] * out_[2] * pack;
  float *rows = static_cast<float*>(call.workspace), *sums = rows + band_ * in_channels_;
  void* space = sums + band_ * out_channels_ * taps();
  const auto each_block = [&](const auto& body) {
    call.pool->parallel_for(blocks, 1, [&](int64_t first, int64_t end, int) {
      for (int64_t block = first; block < end; ++block) body(block, call.out + block * size);
    });
  };
  each_block([&](int64_t block, float* out) {
    for (int64_t i = 0; i < size; ++i) {
      const float start = call.residual == nullptr ? 0.0f : call.residual[block * size + i];
      out[i] = call.bias == nullptr ? start : start + call.bias[block * pack + i % pack];
    }
  });
  LongLoop loop;
  for (int64_t begin = 0; begin < pixels() && loop.goes_on(band_ * in_channels_ * out_channels_ / 8); begin += band_) {
    gather(call.in, begin, rows, call.pool);
    columns_.run({rows, in_channels_, false, call.w, nullptr, sums, out_channels_ * taps(), space, call.pool});
    each_block([&](int64_t block, float* out) { add(sums, block, begin, out - block * size); });
  }
  each_block([&](int64_t, float* out) {
    if (!activation_.is_clamp()) return activate(activation_, out, size);
    for (int64_t i = 0; i < size; ++i)
      out[i] = out[i] < activation_.low ? activation_.low : out[i] > activation_.high ? activation_.high : out[i];
  });
}

}  // namespace minnow
