// Convolution as it is written down: tiles of output pixels times blocks of output channels, summed over the input
// channels and the kernel. The input is read where it lies; only what tiles cannot read in even steps (padding to the
// left and right, fewer channels than a block, groups that begin inside a block) is first copied into a small band.
#include <algorithm>
#include <cstring>

#include "kernels/core/interrupt.h"
#include "kernels/cpu/conv/scheme.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/micro_kernel_f16.h"
#include "kernels/cpu/movement/transpose.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

// A band of input, with the weights of a few output blocks, should stay in the second-level cache while all output
// channels pass over it. Weights that do not fit there themselves are read anew for each band, so bands are larger
// then.
constexpr int64_t kBandBytes = 256 << 10, kLargeBandBytes = 1 << 20, kLargeWeightBytes = 512 << 10;
constexpr double kHalfTime = 0.64;  // that a product in f16 takes, of one in f32
constexpr int64_t kSome = 128, kMaxLanes = 16;

class ConvDirect final : public ConvScheme {
 public:
  explicit ConvDirect(const ConvShape& shape) : s_(shape), pack_(pack_width()) {
    half_ = takes_half(s_.precision, s_.oh * s_.ow);
    aligned_ = s_.group == 1 || (s_.icg() % pack_ == 0 && s_.ocg() % pack_ == 0);
    const bool pointwise = s_.kh == 1 && s_.kw == 1;
    const bool reads_padding = s_.left > 0 || span() > s_.iw;
    // Few channels, side by side, make the kernel's row one long run of steps.
    compact_ = s_.plain_input || (s_.icg() < pack_ && !(pointwise && aligned_));
    copies_ = !aligned_ || compact_ || reads_padding;
    const bool is_row = aligned_ && s_.oh == 1 && s_.ih == 1 && s_.kh == 1 && s_.top == 0;
    flat_ = is_row ||
            (pointwise && !copies_ && s_.sh == 1 && s_.sw == 1 && s_.top == 0 && s_.oh == s_.ih && s_.ow == s_.iw);
    width_ = flat_ ? s_.oh * s_.ow : s_.ow;
    blocks_ = ceil_div(s_.ocg(), pack_);
    by_rows_ = s_.threads > 1 && split_by_rows(4 * packed_floats(), 4 * s_.n * s_.ic * s_.ih * s_.iw);
    plan_ = TilePlan(width_, blocks_, panel() / pack_, flat_ && by_rows_ ? s_.threads : 1);
    choose_band();
  }

  const char* name() const override {
    const bool pointwise = flat_ && !copies_ && s_.kw == 1;
    if (half_) return pointwise ? "direct_1x1_f16" : "direct_f16";
    return pointwise ? "direct_1x1" : copies_ ? "direct_band" : "direct";
  }
  const char* packing() const override { return "direct"; }

  // [group][output block][input channel block][kh][kw][channel in block][output channel in block]
  int64_t packed_floats() const override { return s_.group * blocks_ * panel(); }

  void pack(const float* w, float* packed, ThreadPool* pool) const override {
    const auto blocks = [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) pack_block(w, i / blocks_, i % blocks_, packed + i * panel());
    };
    if (pool == nullptr) return blocks(0, s_.group * blocks_, 0);
    pool->parallel_for(s_.group * blocks_, std::max<int64_t>(1, 65536 / std::max<int64_t>(1, panel())), blocks);
  }

  int64_t workspace_bytes() const override { return s_.threads * worker_floats() * 4; }

  Work work() const override {
    const double pixels = static_cast<double>(s_.n * s_.oh * s_.ow), weights = static_cast<double>(packed_floats());
    return {(half_ ? kHalfTime : 1) * pixels * weights / static_cast<double>(pack_), 0, 4 * weights};
  }

  void run(const ConvCall& call) const override {
    if (s_.oh == 0 || s_.ow == 0) return;
    float* workspace = static_cast<float*>(call.workspace);
    if (copies_)  // no worker holds a band yet
      for (int i = 0; i < s_.threads; ++i) *held_band(workspace + i * worker_floats()) = -1;
    const int64_t items = s_.n * s_.group * bands_ * plan_.groups();
    call.pool->parallel_for(items, 1, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t image = i / plan_.groups() / bands_;
        const int64_t band = i / plan_.groups() % bands_;
        run_item(call, image / s_.group, image % s_.group, band, static_cast<int>(i % plan_.groups()),
                 flat_ ? image : i / plan_.groups(), workspace + worker * worker_floats());
      }
    });
  }

 private:
  // Input columns that one row of output reads.
  int64_t span() const { return (std::max<int64_t>(1, s_.ow) - 1) * s_.sw + (s_.kw - 1) * s_.dw + 1; }
  int64_t panel() const { return s_.icg() * s_.kh * s_.kw * pack_; }
  int64_t band_rows(int64_t lines) const { return (lines - 1) * s_.sh + (s_.kh - 1) * s_.dh + 1; }
  int64_t band_floats() const {
    return copies_ ? band_rows(flat_ ? 1 : band_lines_) * span() * (compact_ ? s_.icg() : round_up(s_.icg(), pack_))
                   : 0;
  }
  int64_t result_floats() const { return aligned_ ? 0 : plan_.most_blocks() * band_lines_ * width_ * pack_; }
  int64_t copied_floats() const {
    return copies_ ? 16 + round_up(band_floats(), 16) + round_up(result_floats(), 16) : 0;
  }
  int64_t worker_floats() const { return copied_floats() + (half_ ? half_panel_floats(panel() / pack_) : 0); }
  static int64_t* held_band(float* space) { return reinterpret_cast<int64_t*>(space); }

  // The weights of an output block of a group.
  void pack_block(const float* w, int64_t g, int64_t b, float* to) const {
    const int64_t taps = s_.kh * s_.kw, lanes = std::min<int64_t>(pack_, s_.ocg() - b * pack_), row = s_.icg() * taps;
    const float* from = w + (g * s_.ocg() + b * pack_) * row;
    if (taps == 1) return pack_columns(from, row, row, lanes, to);
    // As they come, [channel][tap], some channels at a time; then with the channels of a block side by side.
    alignas(64) float some[kSome * kMaxLanes];
    for (int64_t first = 0; first < s_.icg(); first += pack_) {
      const int64_t channels = std::min(pack_, s_.icg() - first);
      for (int64_t at = 0; at < channels * taps; at += kSome) {
        const int64_t count = std::min(kSome, channels * taps - at);
        pack_columns(from + first * taps + at, row, count, lanes, some);
        int64_t c = at / taps, t = at % taps;
        for (int64_t i = 0; i < count; ++i) {
          std::memcpy(to + (t * channels + c) * pack_, some + i * pack_, static_cast<size_t>(pack_) * sizeof(float));
          if (++t == taps) t = 0, ++c;
        }
      }
      to += channels * taps * pack_;
    }
  }

  void choose_band() {
    lines_ = flat_ ? plan_.tiles() : s_.oh;
    const int64_t line_bytes =
        4 * (flat_ ? ceil_div(width_, plan_.tiles()) * s_.sw : s_.sh * s_.iw) * std::max<int64_t>(1, s_.icg());
    const int64_t limit = 4 * blocks_ * panel() > kLargeWeightBytes ? kLargeBandBytes : kBandBytes;
    bands_ = std::max<int64_t>(1, ceil_div(lines_ * line_bytes, limit));
    // Several pieces of work for each thread, so that all end at the same time.
    const int64_t others = std::max<int64_t>(1, s_.n * s_.group * plan_.groups());
    if (s_.threads > 1) bands_ = std::max(bands_, ceil_div(4 * s_.threads, others));
    if (by_rows_) bands_ = round_up(bands_, s_.threads);
    bands_ = std::max<int64_t>(1, std::min(bands_, lines_));
    band_lines_ = std::max<int64_t>(1, ceil_div(lines_, bands_));
  }

  // Where a tile reads: distances in floats, and the input row that lies at `base`.
  struct Source {
    const float* base;
    int64_t pixel, row, block, first_row;
  };

  Source source_of(const ConvCall& call, int64_t n, int64_t g, int64_t line_begin, int64_t line_end, int64_t band_id,
                   float* space) const {
    const float* image = call.x + n * (s_.plain_input ? s_.ic : round_up(s_.ic, pack_)) * s_.ih * s_.iw;
    if (!copies_) return {image + g * s_.icg() * s_.ih * s_.iw, pack_, s_.iw * pack_, s_.ih * s_.iw * pack_, 0};
    const int64_t pixel = compact_ ? s_.icg() : pack_, first_row = line_begin * s_.sh - s_.top;
    const Source source = {space + 16, pixel, span() * pixel, band_rows(line_end - line_begin) * span() * pixel,
                           first_row};
    if (*held_band(space) != band_id) {
      copy_band(image, g, first_row, band_rows(line_end - line_begin), space + 16);
      *held_band(space) = band_id;
    }
    return source;
  }

  // Copies the part of the band that lies inside the image; columns of padding become 0, rows of padding stay unset,
  // for no tile reads them.
  void copy_band(const float* image, int64_t g, int64_t first_row, int64_t rows, float* band) const {
    const int64_t left = std::min(s_.left, span()), columns = std::max<int64_t>(0, std::min(s_.iw, span() - left));
    const int64_t begin = std::max<int64_t>(0, first_row), end = std::min(s_.ih, first_row + rows);
    const int64_t pixel = compact_ ? s_.icg() : pack_;
    if (s_.plain_input) {
      for (int64_t y = begin; y < end; ++y)
        interleave(image + y * s_.iw, left, columns, span() - left - columns, band + (y - first_row) * span() * pixel);
      return;
    }
    for (int64_t c = 0; c < s_.icg(); c += pack_) {
      const int64_t channel = g * s_.icg() + c, lanes = std::min<int64_t>(pack_, s_.icg() - c);
      for (int64_t y = begin; y < end; ++y) {
        float* to = band + ((compact_ ? 0 : c / pack_) * rows + y - first_row) * span() * pixel;
        std::fill(to, to + left * pixel, 0.0f);
        to += left * pixel;
        if (aligned_ && !compact_) {
          const float* from = image + ((channel / pack_ * s_.ih) + y) * s_.iw * pack_;
          std::memcpy(to, from, static_cast<size_t>(columns * pack_) * sizeof(float));
        } else {
          for (int64_t l = 0; l < lanes; ++l) {
            const int64_t in = channel + l;
            const float* from = image + ((in / pack_ * s_.ih) + y) * s_.iw * pack_ + in % pack_;
            for (int64_t x = 0; x < columns; ++x) to[x * pixel + l] = from[x * pack_];
          }
        }
        std::fill(to + columns * pixel, to + (span() - left) * pixel, 0.0f);
      }
    }
  }

  // A row of all planes of a plain image, pixel by pixel, with zeros before and after.
  void interleave(const float* row, int64_t before, int64_t columns, int64_t after, float* to) const {
    const int64_t channels = s_.ic, plane = s_.ih * s_.iw;
    std::fill(to, to + before * channels, 0.0f);
    to += before * channels;
    if (channels == 3) {
      interleave3(row, plane, columns, to);
    } else {
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t x = 0; x < columns; ++x) to[x * channels + c] = row[c * plane + x];
    }
    std::fill(to + columns * channels, to + (columns + after) * channels, 0.0f);
  }

  // The steps of the tiles of output row `y`: rows of the kernel that lie outside the image are left out.
  void set_steps(const Source& source, int64_t y, Tile* t) const {
    const int64_t row = y * s_.sh - s_.top;
    const auto [first, last] = taps_inside(row, s_.ih, s_.kh, s_.dh);
    const int64_t full = compact_ ? 0 : s_.icg() / pack_, rest = s_.icg() - full * pack_;
    const bool one_run = s_.dw == 1 || s_.kw == 1;
    for (int part = 0; part < 2; ++part) {
      const int64_t channels = part == 0 ? pack_ : rest;
      TileSteps& steps = t->steps[part];
      steps.outer = part == 0 ? full : std::min<int64_t>(1, rest);
      steps.in_outer = source.block;
      steps.w_outer = s_.kh * s_.kw * channels * pack_;
      steps.middle = last - first;
      steps.in_middle = s_.dh * source.row;
      steps.w_middle = s_.kw * channels * pack_;
      // Taps of one row follow each other without a gap when all numbers of a pixel are used.
      const bool joined = one_run && channels == source.pixel;
      steps.inner = joined ? 1 : s_.kw;
      steps.in_inner = s_.dw * source.pixel;
      steps.length = joined ? s_.kw * channels : channels;
      steps.in = (row - source.first_row + first * s_.dh) * source.row + (part == 0 ? 0 : full * source.block);
      steps.w = first * steps.w_middle + (part == 0 ? 0 : full * s_.kh * s_.kw * pack_ * pack_);
    }
  }

  void run_item(const ConvCall& call, int64_t n, int64_t g, int64_t band, int group, int64_t band_id,
                float* space) const {
    const int64_t line_begin = band * lines_ / bands_, line_end = (band + 1) * lines_ / bands_;
    const TilePlan::Blocks blocks = plan_.group(group);
    // A single row is copied whole.
    const Source source = source_of(call, n, g, flat_ ? 0 : line_begin, flat_ ? 1 : line_end, band_id, space);
    const int64_t plane = s_.oh * s_.ow * pack_, first_channel = g * s_.ocg() + blocks.first * pack_;
    const int64_t image = n * ceil_div(s_.oc, pack_) * plane;

    Tile t;
    t.in_pixel = s_.sw * source.pixel;
    t.w = call.w + (g * blocks_ + blocks.first) * panel();
    t.w_block = panel();
    t.bias = call.bias == nullptr ? nullptr : call.bias + first_channel;
    t.out_pixel = pack_;
    t.lanes = pack_;
    t.low = s_.activation.low;
    t.high = s_.activation.high;
    // Groups that begin inside a block are computed beside the output, and put into their lanes afterwards.
    float* result = call.y + image + first_channel * s_.oh * s_.ow;
    const float* start = call.residual == nullptr ? nullptr : call.residual + (result - call.y);
    t.out_block = plane;
    const int64_t shift = aligned_ ? 0 : line_begin * width_ * pack_;
    if (!aligned_) {
      result = space + 16 + round_up(band_floats(), 16);
      t.out_block = (line_end - line_begin) * width_ * pack_;
      start = nullptr;
      if (call.residual != nullptr) {
        move_lanes(const_cast<float*>(call.residual) + image, result, first_channel, blocks.count, line_begin, line_end,
                   true);
        start = result;
      }
    }
    const TilePlan::Blocks next = plan_.group((group + 1) % plan_.groups());
    const float* next_w = call.w + (g * blocks_ + next.first) * panel();
    const bool more = group + 1 < plan_.groups() || line_end < lines_;
    // Meanwhile the weights of the next item come.
    const int64_t tiles = (line_end - line_begin) * (flat_ ? 1 : plan_.tiles());
    if (more) t.fetch(next_w, next.count, 0, tiles);
    const int64_t fetched = more ? t.fetch_tile(next.count, tiles) : 0;
    if (kHasLowPrecision && half_) make_half_panel(&t, blocks.count, panel() / pack_, space + copied_floats());
    const auto function = kHasLowPrecision && half_ ? half_tile_function : tile_function;
    const int narrow = static_cast<int>(plan_.narrow());
    const TileFunction narrow_tile = narrow > 0 ? function(blocks.count, narrow) : nullptr;
    const TileFunction wide_tile = narrow < tile_pixels(blocks.count) ? function(blocks.count, narrow + 1) : nullptr;
    if (flat_) set_steps(source, 0, &t);
    LongLoop loop;
    for (int64_t line = line_begin; line < line_end; ++line) {
      const int64_t y = flat_ ? 0 : line;
      if (!flat_) set_steps(source, y, &t);
      for (int64_t tile = flat_ ? line : 0, last = flat_ ? line : plan_.tiles() - 1; tile <= last; ++tile) {
        const int64_t x = plan_.tile_begin(tile), pixels = plan_.tile_begin(tile + 1) - x;
        if (pixels == 0) continue;
        if (!loop.goes_on(blocks.count * panel() / 8)) return;
        const int64_t at = (y * width_ + x) * pack_ - shift;
        t.in = source.base + x * t.in_pixel;
        t.out = result + at;
        t.start = start == nullptr ? nullptr : start + at;
        (pixels > narrow ? wide_tile : narrow_tile)(t);
        t.prefetch += fetched;
        if (s_.activation.is_clamp()) continue;
        for (int b = 0; b < blocks.count; ++b) activate(s_.activation, t.out + b * t.out_block, pixels * pack_);
      }
    }
    if (!aligned_) move_lanes(call.y + image, result, first_channel, blocks.count, line_begin, line_end, false);
  }

  // Channels from `first` of some rows of an image, to (or from) blocks of their own.
  void move_lanes(float* image, float* blocks, int64_t first, int count, int64_t line_begin, int64_t line_end,
                  bool gather) const {
    const int64_t pixels = (line_end - line_begin) * width_;
    const int64_t channels = std::min<int64_t>(count * pack_, (first / s_.ocg() + 1) * s_.ocg() - first);
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t channel = first + c;
      float* there = image + (channel / pack_ * s_.oh * s_.ow + line_begin * width_) * pack_ + channel % pack_;
      float* here = blocks + c / pack_ * pixels * pack_ + c % pack_;
      for (int64_t p = 0; p < pixels * pack_; p += pack_) (gather ? here[p] : there[p]) = gather ? there[p] : here[p];
    }
  }

  ConvShape s_;
  int64_t pack_;
  bool half_, aligned_, compact_, copies_, flat_, by_rows_;
  int64_t width_, blocks_;  // pixels in a row of tiles; blocks of output channels of a group
  TilePlan plan_;
  int64_t lines_, bands_, band_lines_;  // rows of the output, or where it is one flat row, tiles; in a band at most
};

}  // namespace

std::unique_ptr<ConvScheme> make_conv_direct(const ConvShape& shape) { return std::make_unique<ConvDirect>(shape); }

}  // namespace minnow
