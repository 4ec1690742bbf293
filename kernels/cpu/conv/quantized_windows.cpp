#include "kernels/cpu/conv/quantized_windows.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

// Bands have so many floats in their rows, and as many pixels, where they can: each reads all weights.
constexpr int64_t kBandFloats = 1 << 17, kLeastPixels = 32, kMostPixels = 256;
constexpr int64_t kGrain = 8;  // pixels that are worth another thread

}  // namespace

QuantizedWindows::QuantizedWindows(const ConvShape& shape, const QuantizedForm& form, bool one_pixel, bool has_residual)
    : shape_(shape), one_pixel_(one_pixel), has_residual_(has_residual), out_row_(round_up(shape.oc, pack_width())) {
  band_ = one_pixel ? shape.n : std::clamp(kBandFloats / form.columns / 16 * 16, kLeastPixels, kMostPixels);
  band_ = std::max<int64_t>(1, std::min(band_, pixels()));
  for (int last = 0; last < 2; ++last) {
    const int64_t rows = last == 0 ? band_ : pixels() - (ceil_div(pixels(), band_) - 1) * band_;
    gemm_[last] = QuantizedGemm(rows, form, shape.activation, shape.threads, shape.precision);
  }
}

int64_t QuantizedWindows::row_bytes() const {
  return one_pixel_ ? 0 : 4 * (round_up(form().columns, 16) + (has_residual_ ? 2 : 1) * out_row_);
}

int64_t QuantizedWindows::workspace_bytes() const {
  const int64_t own = std::max(gemm_[0].workspace_bytes(), gemm_[1].workspace_bytes());
  return round_up(own, 64) + round_up(band_ * row_bytes(), 64);
}

// [channel block][tap][channel in block], 0 where the window leaves the image.
void QuantizedWindows::gather(const float* x, int64_t group, int64_t pixel, float* row) const {
  const ConvShape& s = shape_;
  const int64_t pack = pack_width(), image = s.ih * s.iw * pack, blocks = ceil_div(s.icg(), pack);
  const int64_t column = pixel % s.ow, lines = pixel / s.ow, line = lines % s.oh;
  x += (lines / s.oh * s.group + group) * blocks * image;
  for (int64_t block = 0; block < blocks; ++block, x += image) {
    const int64_t lanes = std::min(pack, s.icg() - block * pack);
    for (int64_t ky = 0; ky < s.kh; ++ky) {
      const int64_t y = line * s.sh - s.top + ky * s.dh;
      for (int64_t kx = 0; kx < s.kw; ++kx, row += lanes) {
        const int64_t at = column * s.sw - s.left + kx * s.dw;
        if (y < 0 || y >= s.ih || at < 0 || at >= s.iw) {
          std::fill_n(row, lanes, 0.0f);
          continue;
        }
        const float* from = x + (y * s.iw + at) * pack;
        std::memcpy(row, from, static_cast<size_t>(lanes) * sizeof(float));
      }
    }
  }
}

void QuantizedWindows::move(float* image, float* rows, int64_t begin, int64_t count, bool to_image,
                            ThreadPool* pool) const {
  const int64_t pack = pack_width(), size = shape_.oh * shape_.ow;
  pool->parallel_for(count, kGrain, [&](int64_t first, int64_t end, int) {
    for (int64_t i = first; i < end; ++i) {
      const int64_t pixel = begin + i;
      float* at = image + (pixel / size * size * out_row_ + pixel % size * pack);
      float* row = rows + i * out_row_;
      for (int64_t c = 0; c < out_row_; c += pack, at += size * pack)
        std::memcpy(to_image ? at : row + c, to_image ? row + c : at, static_cast<size_t>(pack) * sizeof(float));
    }
  });
}

void QuantizedWindows::run(const ConvCall& call) const {
  if (one_pixel_) {
    const int64_t in_row = round_up(shape_.ic, pack_width());
    return gemm_[0].run(
        {call.x, in_row, false, call.w, call.bias, call.y, out_row_, call.workspace, call.pool, call.residual});
  }
  const int64_t in_row = round_up(form().columns, 16);
  float* rows = static_cast<float*>(call.workspace);
  float *results = rows + band_ * in_row, *start = nullptr, *space = results + band_ * out_row_;
  if (call.residual != nullptr) start = space, space += band_ * out_row_;
  space = rows + round_up(space - rows, 16);
  for (int64_t begin = 0; begin < pixels(); begin += band_) {
    const int64_t count = std::min(band_, pixels() - begin);
    if (start != nullptr) move(const_cast<float*>(call.residual), start, begin, count, false, call.pool);
    for (int64_t g = 0; g < shape_.group; ++g) {
      const int64_t at = g * form().rows;  // whole blocks, where there are groups
      call.pool->parallel_for(count, kGrain, [&](int64_t first, int64_t end, int) {
        for (int64_t i = first; i < end; ++i) gather(call.x, g, begin + i, rows + i * in_row);
      });
      gemm_[begin + count == pixels()].run({rows, in_row, false, call.w + g * form().bytes() / 4,
                                            call.bias == nullptr ? nullptr : call.bias + at, results + at, out_row_,
                                            space, call.pool, start == nullptr ? nullptr : start + at});
    }
    move(call.y, results, begin, count, true, call.pool);
  }
}

}  // namespace minnow
