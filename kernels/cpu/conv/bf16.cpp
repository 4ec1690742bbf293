// Convolution by tiles of bf16 (gemm/bf16_micro_kernel.h): as it is written down, a step for every tap and 32 channels.
// A band of the input is rounded first, with 32 channels of each pixel side by side.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/gemm/bf16.h"
#include "kernels/cpu/gemm/bf16_micro_kernel.h"
#include "kernels/core/interrupt.h"
#include "kernels/cpu/conv/scheme.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

constexpr int64_t kBf16BandBytes = 512 << 10;  // of rounded input, which stays in the second-level cache
constexpr int64_t kBf16SerialMacs = 20000;     // fewer are not worth waking a thread
constexpr int64_t kPixelBytes = 2 * kBf16Depth;
// The number of the band that a worker holds, and the sums of a tile; the band follows.
constexpr int64_t kHeadBytes = 64 + 4 * kBf16Pixels * kBf16Blocks * kBf16Columns;

class ConvBf16 final : public ConvScheme {
 public:
  [[gnu::cold]] explicit ConvBf16(const ConvShape& shape)
      : s_(shape), chunks_(ceil_div(s_.ic, kBf16Depth)), blocks_(ceil_div(s_.oc, kBf16Columns)) {
    flat_ = s_.kh == 1 && s_.kw == 1 && s_.sh == 1 && s_.sw == 1 && s_.top == 0 && s_.left == 0 && s_.oh == s_.ih &&
            s_.ow == s_.iw;
    // An image that is one row of pixels is cut into lines of a tile each.
    width_ = flat_ ? kBf16Pixels : s_.ow;
    lines_ = flat_ ? ceil_div(s_.oh * s_.ow, width_) : s_.oh;
    joined_ = !flat_ && s_.sh == 1 && s_.sw == 1;
    const int64_t line_bytes = (flat_ ? width_ : s_.sh * span()) * parts() * chunks_ * kPixelBytes;
    int64_t bands = std::max<int64_t>(1, ceil_div(lines_ * line_bytes, kBf16BandBytes));
    // Several pieces of work for each thread. Where lines are too few, columns are cut too.
    if (s_.threads > 1) bands = std::max(bands, ceil_div(4 * s_.threads, std::max<int64_t>(1, s_.n)));
    bands = std::max<int64_t>(1, std::min(bands, lines_));
    band_lines_ = std::max<int64_t>(1, ceil_div(lines_, bands));
    bands_ = ceil_div(lines_, band_lines_);
    const int64_t pieces = std::max<int64_t>(1, bands_ * s_.n);
    if (s_.threads > 1) groups_ = std::min(ceil_div(blocks_, kBf16Blocks), ceil_div(4 * s_.threads, pieces));
    name_ = std::string(flat_ ? "gemm_" : "direct_") + bf16_unit()->name + (split() ? "_split" : "");
  }

  const char* name() const override { return name_.c_str(); }
  const char* packing() const override { return split() ? "bf16_split" : "bf16"; }
  int64_t packed_floats() const override { return blocks_ * block_bytes() / 4; }

  // [output block][32 input channels][kh][kw][pairs of channels][output channel][2]
  [[gnu::cold]] void pack(const float* w, float* packed, ThreadPool*) const override {
    const int64_t taps = s_.kh * s_.kw;
    uint16_t* to = reinterpret_cast<uint16_t*>(packed);
    LongLoop loop;
    for (int64_t o = 0; o < blocks_ * kBf16Columns; o += kBf16Columns)
      for (int64_t c = 0; c < chunks_ * kBf16Depth; c += kBf16Depth)
        for (int64_t tap = 0; tap < taps && loop.goes_on(kBf16Depth * kBf16Columns); ++tap)
          for (int64_t pair = 0; pair < kBf16Depth / 2; ++pair) {
            alignas(64) float numbers[2 * kBf16Columns];
            for (int64_t i = 0; i < 2 * kBf16Columns; ++i) {
              const int64_t out = o + i / 2, in = c + 2 * pair + i % 2;
              numbers[i] = out < s_.oc && in < s_.ic ? w[(out * s_.ic + in) * taps + tap] : 0.0f;
            }
            uint16_t* left = s_.precision == Precision::kNormal ? to + kBf16StepBytes / 2 : nullptr;
            bf16_round_row(numbers, 2 * kBf16Columns, 2 * kBf16Columns, to, left, 0);
            to += 2 * kBf16Columns;
            if (pair + 1 == kBf16Depth / 2) to += (parts() - 1) * kBf16StepBytes / 2;
          }
  }

  int64_t workspace_bytes() const override { return s_.threads * worker_bytes(); }

  void run(const ConvCall& call) const override {
    if (s_.oh == 0 || s_.ow == 0) return;
    char* space = static_cast<char*>(call.workspace);
    for (int i = 0; i < s_.threads; ++i) *reinterpret_cast<int64_t*>(space + i * worker_bytes()) = -1;
    const int64_t items = s_.n * bands_ * groups_;
    call.pool->parallel_for(items, s_.macs() < kBf16SerialMacs ? items : 1,
                            [&](int64_t begin, int64_t end, int worker) {
                              bf16_unit()->begin(kBf16Depth);
                              for (int64_t i = begin; i < end; ++i)
                                run_item(call, i / groups_, i % groups_, space + worker * worker_bytes());
                              bf16_unit()->end();
                            });
  }

 private:
  bool split() const { return s_.precision == Precision::kNormal; }
  int64_t parts() const { return split() ? 2 : 1; }
  int64_t step_bytes() const { return parts() * kBf16StepBytes; }
  int64_t block_bytes() const { return chunks_ * s_.kh * s_.kw * step_bytes(); }
  // Input pixels that a line of output reads, and input rows that some lines do.
  int64_t span() const { return flat_ ? width_ : (std::max<int64_t>(1, s_.ow) - 1) * s_.sw + (s_.kw - 1) * s_.dw + 1; }
  int64_t rows(int64_t lines) const { return flat_ ? lines : (lines - 1) * s_.sh + (s_.kh - 1) * s_.dh + 1; }
  // Tiles read whole: pixels behind the last one must be there.
  int64_t worker_bytes() const {
    return kHeadBytes + (parts() * chunks_ * rows(band_lines_) * span() + kBf16Pixels * s_.sw) * kPixelBytes;
  }

  // The part of the band that lies inside the image, and zeros for columns of padding. Where tiles are of one line,
  // rows of padding stay unset, for none reads them but beyond its own pixels.
  void round_band(const float* image, int64_t line_begin, int64_t line_end, char* band) const {
    const int64_t pixels = s_.ih * s_.iw, count = rows(line_end - line_begin);
    const int64_t part_bytes = chunks_ * count * span() * kPixelBytes;
    const auto clear = [&](char* to, int64_t n) {
      for (int64_t part = 0; part < parts(); ++part)
        std::memset(to + part * part_bytes, 0, static_cast<size_t>(n * kPixelBytes));
    };
    for (int64_t c = 0; c < chunks_; ++c, band += count * span() * kPixelBytes) {
      const float* first = image + 2 * c * pixels * kBf16Columns;
      const int64_t channels = s_.ic - c * kBf16Depth;
      const auto round = [&](int64_t from, int64_t n, char* to) {
        const float* at = first + from * kBf16Columns;
        bf16_round_blocks(at, channels > kBf16Columns ? at + pixels * kBf16Columns : nullptr, channels, n,
                          reinterpret_cast<uint16_t*>(to),
                          split() ? reinterpret_cast<uint16_t*>(to + part_bytes) : nullptr);
      };
      if (flat_) {
        round(line_begin * width_, std::min(pixels, line_end * width_) - line_begin * width_, band);
        continue;
      }
      const int64_t left = std::min(s_.left, span()), columns = std::max<int64_t>(0, std::min(s_.iw, span() - left));
      const int64_t first_row = line_begin * s_.sh - s_.top;
      if (joined_) {
        const int64_t begin = std::clamp<int64_t>(-first_row, 0, count);
        const int64_t end = std::clamp<int64_t>(s_.ih - first_row, begin, count);
        clear(band, begin * span());
        clear(band + end * span() * kPixelBytes, (count - end) * span());
      }
      for (int64_t y = std::max<int64_t>(0, first_row); y < std::min(s_.ih, first_row + count); ++y) {
        char* to = band + (y - first_row) * span() * kPixelBytes;
        clear(to, left);
        round(y * s_.iw, columns, to + left * kPixelBytes);
        clear(to + (left + columns) * kPixelBytes, span() - left - columns);
      }
    }
  }

  void run_item(const ConvCall& call, int64_t band_id, int64_t group, char* space) const {
    const int64_t n = band_id / bands_, line_begin = band_id % bands_ * band_lines_;
    const int64_t line_end = std::min(lines_, line_begin + band_lines_);
    int64_t* held = reinterpret_cast<int64_t*>(space);
    char* band = space + kHeadBytes;
    if (*held != band_id) {
      const int64_t in_blocks = ceil_div(s_.ic, kBf16Columns);
      round_band(call.x + n * in_blocks * s_.ih * s_.iw * kBf16Columns, line_begin, line_end, band);
      *held = band_id;
    }
    const int64_t plane = s_.oh * s_.ow * kBf16Columns, row_bytes = span() * kPixelBytes;
    const int64_t pairs = ceil_div(blocks_, kBf16Blocks);
    Bf16Tile t;
    t.in_pixel = s_.sw * kPixelBytes;
    t.w_block = block_bytes();
    t.outer = chunks_;
    t.in_outer = rows(line_end - line_begin) * row_bytes;
    t.split = split();
    t.in_left = chunks_ * t.in_outer;
    t.w_outer = s_.kh * s_.kw * step_bytes();
    t.in_middle = s_.dh * row_bytes;
    t.inner = s_.kw;
    t.in_inner = s_.dw * kPixelBytes;
    t.sums = reinterpret_cast<float*>(space + 64);
    LongLoop loop;
    for (int64_t pair = group * pairs / groups_; pair < (group + 1) * pairs / groups_; ++pair) {
      const int64_t block = pair * kBf16Blocks;
      t.blocks = static_cast<int>(std::min(kBf16Blocks, blocks_ - block));
      // The weights of the next blocks, a part of them beside each tile.
      const int64_t last = std::min((group + 1) * pairs / groups_ * kBf16Blocks, blocks_);
      const int64_t next = std::clamp<int64_t>(last - block - kBf16Blocks, 0, kBf16Blocks) * block_bytes();
      const int64_t tiles_of_line = ceil_div(width_, kBf16Pixels), tiles = (line_end - line_begin) * tiles_of_line;
      const auto finish = [&](int64_t first, int64_t pixels, int64_t pixel) {
        const int64_t at = (n * blocks_ + block) * plane + pixel * kBf16Columns;
        bf16_finish({t.sums + first * kBf16Blocks * kBf16Columns, static_cast<int>(pixels), t.blocks,
                     static_cast<int>(kBf16Columns), call.bias == nullptr ? nullptr : call.bias + block * kBf16Columns,
                     call.residual == nullptr ? nullptr : call.residual + at, call.y + at, kBf16Columns, plane,
                     s_.activation.low, s_.activation.high});
        if (s_.activation.is_clamp()) return;
        for (int b = 0; b < t.blocks; ++b) activate(s_.activation, call.y + at + b * plane, pixels * kBf16Columns);
      };
      const char* next_weights = reinterpret_cast<const char*>(call.w) + (block + kBf16Blocks) * block_bytes();
      if (joined_) {
        // Lines follow each other without a gap, and so do tiles; what lies between two lines is not wanted.
        const int64_t all = (line_end - line_begin - 1) * span() + s_.ow;
        t.middle = s_.kh;
        t.w = reinterpret_cast<const char*>(call.w) + block * block_bytes();
        for (int64_t v = 0; v < all && loop.goes_on(32 * chunks_ * t.middle * t.inner); v += kBf16Pixels) {
          t.pixels = static_cast<int>(std::min(kBf16Pixels, all - v));
          t.in = band + v * kPixelBytes;
          t.bring(next_weights, next, v / kBf16Pixels, ceil_div(all, kBf16Pixels));
          bf16_unit()->multiply(t);
          for (int64_t first = 0; first < t.pixels;) {
            const int64_t line = (v + first) / span(), x = (v + first) % span();
            const int64_t wanted = std::clamp<int64_t>(s_.ow - x, 0, t.pixels - first);
            if (wanted > 0) finish(first, wanted, (line_begin + line) * s_.ow + x);
            first += wanted > 0 ? wanted : span() - x;
          }
        }
        continue;
      }
      for (int64_t line = line_begin; line < line_end; ++line) {
        const int64_t row = flat_ ? line : line * s_.sh - s_.top,
                      first_row = flat_ ? line_begin : line_begin * s_.sh - s_.top;
        const Taps taps = flat_ ? Taps{0, 1} : taps_inside(row, s_.ih, s_.kh, s_.dh);
        t.middle = taps.end - taps.begin;
        t.w = reinterpret_cast<const char*>(call.w) + block * block_bytes() + taps.begin * s_.kw * step_bytes();
        const char* in = band + (row - first_row + taps.begin * s_.dh) * row_bytes;
        const int64_t width = flat_ ? std::min(width_, s_.oh * s_.ow - line * width_) : width_;
        for (int64_t x = 0; x < width && loop.goes_on(32 * chunks_ * t.middle * t.inner); x += kBf16Pixels) {
          t.pixels = static_cast<int>(std::min(kBf16Pixels, width - x));
          t.in = in + x * t.in_pixel;
          t.bring(next_weights, next, (line - line_begin) * tiles_of_line + x / kBf16Pixels, tiles);
          bf16_unit()->multiply(t);
          finish(0, t.pixels, line * width_ + x);
        }
      }
    }
  }

  ConvShape s_;
  int64_t chunks_, blocks_;  // of 32 input and 16 output channels
  bool flat_, joined_ = false;
  int64_t width_, lines_, band_lines_, bands_, groups_ = 1;
  std::string name_;
};

// Images of one pixel, as after a global pooling: rows of channels, of which only the weights take time.
class ConvRows final : public ConvScheme {
 public:
  explicit ConvRows(const ConvShape& s)
      : inputs_(s.ic),
        outputs_(s.oc),
        in_(round_up(s.ic, pack_width())),
        out_(round_up(s.oc, pack_width())),
        gemm_(s.n, out_, s.ic, s.activation, s.threads, Precision::kLow) {}

  const char* name() const override { return "gemv_bf16"; }
  const char* packing() const override { return "bf16_rows"; }
  int64_t packed_floats() const override { return gemm_.packed_floats(); }
  void pack(const float* w, float* packed, ThreadPool* pool) const override {
    bf16_pack_b(w, inputs_, true, inputs_, outputs_, false, packed, pool);
  }
  int64_t workspace_bytes() const override { return gemm_.workspace_bytes(); }
  void run(const ConvCall& call) const override {
    gemm_.run({call.x, in_, false, call.w, call.bias, call.y, out_, call.workspace, call.pool, call.residual});
  }

 private:
  int64_t inputs_, outputs_, in_, out_;  // channels, and whole blocks of them
  Bf16Gemm gemm_;
};

}  // namespace

bool conv_is_rows(const ConvShape& s) {
  return Shape{s.ih, s.iw, s.oh, s.ow, s.kh, s.kw}.count() == 1 && s.group == 1 && !s.plain_input && s.top == 0 &&
         s.left == 0 && Bf16Gemm::takes(s.n, s.oc, s.ic, s.precision) && s.n <= kBf16Rows;
}

std::unique_ptr<ConvScheme> make_conv_rows(const ConvShape& shape) {
  if constexpr (!kHasLowPrecision) return nullptr;
  return std::make_unique<ConvRows>(shape);
}

double conv_bf16_gain(const ConvShape& s) {
  const bool fits = s.group == 1 && !s.plain_input && s.ic >= kBf16Columns && s.oc >= kBf16Columns && s.oh * s.ow >= 4;
  return fits ? bf16_gain(s.precision) : 1;
}

std::unique_ptr<ConvScheme> make_conv_bf16(const ConvShape& shape) {
  if constexpr (!kHasLowPrecision) return nullptr;
  return std::make_unique<ConvBf16>(shape);
}

}  // namespace minnow
