// Convolution where every channel, or every group of less than a block of channels, has its own kernel.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "kernels/core/interrupt.h"
#include "kernels/cpu/conv/scheme.h"
#include "kernels/cpu/conv/depthwise_micro_kernel.h"
#include "kernels/cpu/gemm/micro_kernel.h"
#include "kernels/cpu/elementwise/math-inl.h"
#include "kernels/cpu/machine/packed_layout.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

template <int R>
HWY_INLINE void begin_sums(const DepthwiseTile& t, V (&sum)[R]) {
  const D d;
  const V bias = t.bias == nullptr ? hn::Zero(d) : hn::LoadU(d, t.bias);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) sum[r] = bias;
}

// Adds what they begin with, clamps and stores sums: one function for all numbers of them.
HWY_NOINLINE void finish_sums(const DepthwiseTile& t, const float* sums, int pixels) {
  const D d;
  const V low = hn::Set(d, t.low), high = hn::Set(d, t.high);
  for (int64_t r = 0; r < pixels; ++r) {
    V sum = hn::Load(d, sums + r * kFloatLanes);
    if (t.start != nullptr) sum = hn::Add(sum, hn::LoadU(d, t.start + r * t.out_pixel));
    hn::StoreU(AtMost(high, AtLeast(low, sum)), d, t.out + r * t.out_pixel);
  }
}

template <int R>
HWY_INLINE void store_sums(const DepthwiseTile& t, const V (&sum)[R]) {
  const D d;
  HWY_ALIGN float sums[R * kFloatLanes];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) hn::Store(sum[r], d, sums + r * kFloatLanes);
  finish_sums(t, sums, R);
}

template <int R>
void depthwise(const DepthwiseTile& t) {
  const D d;
  V sum[R];
  begin_sums(t, sum);
  constexpr int kPointers = (R + 2) / 3;
  const int64_t stride = t.in_pixel;
  for (int64_t y = 0; y < t.rows; ++y) {
    const float* HWY_RESTRICT w = t.w + y * t.w_row;
    const float* HWY_RESTRICT p[kPointers];
#pragma GCC unroll 16
    for (int k = 0; k < kPointers; ++k) p[k] = t.in + y * t.in_row + 3 * k * stride;
    for (int64_t x = 0; x < t.columns; ++x, w += kFloatLanes) {
      const V weight = hn::LoadU(d, w);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) sum[r] = hn::MulAdd(hn::LoadU(d, p[r / 3] + (r % 3) * stride), weight, sum[r]);
#pragma GCC unroll 16
      for (int k = 0; k < kPointers; ++k) p[k] += t.in_column;
    }
  }
  store_sums(t, sum);
}

template <int R>
void group(const DepthwiseTile& t) {
  const D d;
  V sum[R];
  begin_sums(t, sum);
  for (int64_t y = 0; y < t.rows; ++y) {
    const float* HWY_RESTRICT w = t.w + y * t.w_row;
    for (int64_t x = 0; x < t.columns; ++x) {
      const float* HWY_RESTRICT in = t.in + y * t.in_row + x * t.in_column;
      V v[R];
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) v[r] = hn::LoadU(d, in + r * t.in_pixel);
      for (int64_t s = 0; s < t.steps; ++s, w += kFloatLanes) {
        const V weight = hn::LoadU(d, w);
        const auto lanes = hn::SetTableIndices(d, t.lanes + s * kFloatLanes);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) sum[r] = hn::MulAdd(hn::TableLookupLanes(v[r], lanes), weight, sum[r]);
      }
    }
  }
  store_sums(t, sum);
}

// R pixels of a row, with kernels of K columns and stride S: each number of the input is loaded once for all the
// columns that read it.
template <int K, int S, int R>
void depthwise_row(const DepthwiseRow& t) {
  const D d;
  constexpr int kSpan = (R - 1) * S + K;
  V sum[R];
  const V bias = t.bias == nullptr ? hn::Zero(d) : hn::LoadU(d, t.bias);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) sum[r] = bias;
  for (int64_t y = 0; y < t.rows; ++y) {
    const float* HWY_RESTRICT w = t.w + y * K * kFloatLanes;
    const float* HWY_RESTRICT in = t.in + y * t.in_row;
    V weight[K];
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) weight[k] = hn::Load(d, w + k * kFloatLanes);
#pragma GCC unroll 32
    for (int p = 0; p < kSpan; ++p) {
      // Padding, which only the first and the last columns can be.
      if ((p >= K - 1 || p >= t.first) && (p <= kSpan - K || p < t.last)) {
        const V v = hn::Load(d, in + p * kFloatLanes);
#pragma GCC unroll 8
        for (int k = p % S; k < K; k += S)
          if (p >= k && (p - k) / S < R) sum[(p - k) / S] = hn::MulAdd(v, weight[k], sum[(p - k) / S]);
      }
    }
  }
  const V low = hn::Set(d, t.low), high = hn::Set(d, t.high);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) hn::Store(AtMost(high, AtLeast(low, sum[r])), d, t.out + r * kFloatLanes);
}

template <int K, int S>
DepthwiseRowFunction pick_row_of(int pixels) {
  switch (pixels) {
    case 7:
      return depthwise_row<K, S, 7>;
    case 8:
      return depthwise_row<K, S, 8>;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON  // 32 registers
    case 10:
      return depthwise_row<K, S, 10>;
    case 12:
      return depthwise_row<K, S, 12>;
    case 13:
      return depthwise_row<K, S, 13>;
    case 14:
      return depthwise_row<K, S, 14>;
#endif
    default:
      return nullptr;
  }
}

DepthwiseRowFunction pick_row(int kernel, int stride, int pixels) {
  if constexpr (is_kept("depthwise 3/1"))
    if (kernel == 3 && stride == 1) return pick_row_of<3, 1>(pixels);
  if constexpr (is_kept("depthwise 3/2"))
    if (kernel == 3 && stride == 2) return pick_row_of<3, 2>(pixels);
  if constexpr (is_kept("depthwise 5/1"))
    if (kernel == 5 && stride == 1) return pick_row_of<5, 1>(pixels);
  if constexpr (is_kept("depthwise 5/2"))
    if (kernel == 5 && stride == 2) return pick_row_of<5, 2>(pixels);
  return nullptr;
}

// `before` zeros, `pixels` pixels and `after` zeros.
void copy_row(const float* from, int64_t before, int64_t pixels, int64_t after, float* to) {
  const D d;
  for (; before > 0; --before, to += kFloatLanes) hn::StoreU(hn::Zero(d), d, to);
  for (; pixels > 0; --pixels, from += kFloatLanes, to += kFloatLanes) hn::StoreU(hn::LoadU(d, from), d, to);
  for (; after > 0; --after, to += kFloatLanes) hn::StoreU(hn::Zero(d), d, to);
}

// Rows from `first` on; those outside the image are zeros.
void copy_padded(const PaddedCopy& c, const float* image, int64_t first, int64_t rows, float* to) {
  for (int64_t y = first; y < first + rows; ++y, to += c.span * kFloatLanes) {
    if (y < 0 || y >= c.height) {
      copy_row(nullptr, c.span, 0, 0, to);
    } else {
      copy_row(image + y * c.width * kFloatLanes, c.before, c.inside, c.span - c.before - c.inside, to);
    }
  }
}

template <size_t... I>
DepthwiseFunction pick(int pixels, std::index_sequence<I...>) {
  static constexpr std::array<DepthwiseFunction, sizeof...(I)> kTable = {depthwise<static_cast<int>(I) + 1>...};
  return kTable[static_cast<size_t>(pixels - 1)];
}

template <size_t... I>
DepthwiseFunction pick_of_groups(int pixels, std::index_sequence<I...>) {
  static constexpr std::array<DepthwiseFunction, sizeof...(I)> kTable = {group<static_cast<int>(I) + 1>...};
  return kTable[static_cast<size_t>(pixels - 1)];
}

DepthwiseFunction pick_depthwise(int pixels) { return pick(pixels, std::make_index_sequence<kDepthwisePixels>()); }
DepthwiseFunction pick_group(int pixels) { return pick_of_groups(pixels, std::make_index_sequence<kGroupPixels>()); }

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow {

HWY_EXPORT(pick_depthwise);
HWY_EXPORT(pick_group);
HWY_EXPORT(pick_row);
HWY_EXPORT(copy_padded);

DepthwiseFunction depthwise_function(int pixels) { return HWY_DYNAMIC_DISPATCH(pick_depthwise)(pixels); }
DepthwiseFunction group_function(int pixels) { return HWY_DYNAMIC_DISPATCH(pick_group)(pixels); }

namespace {

constexpr int64_t kBandBytes = 256 << 10, kLineBytes = 16 << 10;
// Where fewer of the windows than this lie inside the input, the input is copied with its padding.
constexpr double kPaddedShare = 0.8;
constexpr int64_t kMostLanes = 16;

// Output positions whose window lies inside the input, along one axis.
struct Inside {
  int64_t begin, end;
};
Inside inside(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad) {
  const int64_t begin = std::min(out, ceil_div(pad, stride));
  const int64_t last_start = in - ((kernel - 1) * dilation + 1) + pad;
  const int64_t end = last_start < 0 ? 0 : std::min(out, last_start / stride + 1);
  return {begin, std::max(begin, end)};
}

class ConvDepthwise final : public DepthwiseScheme {
 public:
  explicit ConvDepthwise(const ConvShape& shape)
      : s_(shape),
        pack_(pack_width()),
        in_blocks_(ceil_div(s_.ic, pack_)),
        blocks_(ceil_div(s_.oc, pack_)),
        rows_(inside(s_.ih, s_.oh, s_.kh, s_.sh, s_.dh, s_.top)),
        columns_(inside(s_.iw, s_.ow, s_.kw, s_.sw, s_.dw, s_.left)) {
    const int64_t bytes = 4 * pack_ * (s_.ih * s_.iw + s_.oh * s_.ow);
    bands_ = std::max<int64_t>(1, ceil_div(bytes, kBandBytes));
    if (s_.threads > 1) bands_ = std::max(bands_, ceil_div(4 * s_.threads, std::max<int64_t>(1, s_.n * blocks_)));
    by_rows_ = s_.threads > 1 && s_.n == 1 && split_by_rows(s_.ic, s_.ih * s_.iw);
    if (by_rows_) bands_ = round_up(bands_, s_.threads);
    bands_ = std::max<int64_t>(1, std::min(bands_, s_.oh));
    // What is computed in a second pass should still be in the first-level cache then.
    if (!s_.activation.is_clamp())
      lines_ = std::max<int64_t>(1, kLineBytes / (4 * pack_ * std::max<int64_t>(1, s_.ow)));
    choose_row_pixels();
    const int64_t whole = (rows_.end - rows_.begin) * (columns_.end - columns_.begin);
    padded_ = row_ == nullptr && is_depthwise() &&
              kPaddedShare * static_cast<double>(s_.oh * s_.ow) > static_cast<double>(whole) &&
              4 * padded_floats() <= kBandBytes;
  }

  const char* name() const override { return is_depthwise() ? "depthwise" : "group"; }
  const char* packing() const override { return name(); }
  int64_t packed_floats() const override { return blocks_ * panel(); }  // [block][kh][kw][channel of the group][lane]

  void pack(const float* w, float* packed, ThreadPool*) const override {
    const int64_t taps = s_.kh * s_.kw;
    std::fill(packed, packed + packed_floats(), 0.0f);
    LongLoop loop;
    for (int64_t o = 0; o < s_.oc; ++o)
      for (int64_t c = 0; c < s_.icg() && loop.goes_on(taps); ++c)
        for (int64_t k = 0; k < taps; ++k)
          packed[o / pack_ * panel() + (k * s_.icg() + c) * pack_ + o % pack_] = w[(o * s_.icg() + c) * taps + k];
  }

  int64_t workspace_bytes() const override { return padded_ ? 4 * s_.threads * padded_floats() : 0; }

  void run(const ConvCall& call) const override {
    const int64_t items = s_.n * blocks_ * bands_;
    call.pool->parallel_for(items, 1, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t plane = by_rows_ ? i % blocks_ : i / bands_, block = plane % blocks_;
        const int64_t band = by_rows_ ? i / blocks_ : i % bands_;
        ConvCall part = call;
        part.workspace = padded_ ? static_cast<float*>(call.workspace) + worker * padded_floats() : nullptr;
        part.x += (plane / blocks_ * in_blocks_ + first_input(block) / pack_) * s_.ih * s_.iw * pack_;
        part.w += block * panel();
        if (part.bias != nullptr) part.bias += block * pack_;
        if (part.residual != nullptr) part.residual += plane * s_.oh * s_.ow * pack_;
        part.y += plane * s_.oh * s_.ow * pack_;
        run_lines(part, first_input(block), band * s_.oh / bands_, (band + 1) * s_.oh / bands_);
      }
    });
  }

  void run_rows(const ConvCall& block, int64_t y_begin, int64_t y_end) const override {
    run_lines(block, 0, y_begin, y_end);
  }
  int64_t block_floats() const override { return panel(); }

 private:
  int64_t first_input(int64_t block) const { return block * pack_ / s_.ocg() * s_.icg(); }

  void run_lines(const ConvCall& call, int64_t first_input, int64_t y_begin, int64_t y_end) const {
    for (int64_t y = y_begin; y < y_end; y += lines_) run_band(call, first_input, y, std::min(y + lines_, y_end));
  }

  void run_band(const ConvCall& call, int64_t first_input, int64_t y_begin, int64_t y_end) const {
    if (row_ != nullptr && call.residual == nullptr) {
      run_whole_rows(call, y_begin, y_end);
    } else if (call.workspace != nullptr) {
      run_padded(call, y_begin, y_end);
    } else {
      run_in_place(call, first_input, y_begin, y_end);
    }
    if (!s_.activation.is_clamp())
      activate(s_.activation, call.y + y_begin * s_.ow * pack_, (y_end - y_begin) * s_.ow * pack_);
  }

  // Pixels of a tile in a row: the last tile of a row may compute some that the one before it did.
  void choose_row_pixels() {
    const int64_t over =
        (s_.ow - 1) * s_.sw + s_.kw - s_.left - s_.iw;  // columns of padding that are read on the right
    if (!is_depthwise() || s_.kh != s_.kw || s_.sh != s_.sw || s_.dh != 1 || s_.dw != 1) return;
    if (s_.left >= s_.kw || over >= s_.kw) return;
    int64_t best = s_.ow + s_.ow / 4 + 1;  // more would be a waste
    for (int64_t pixels = std::min<int64_t>(kDepthwisePixels, s_.ow); pixels > 0; --pixels) {
      const DepthwiseRowFunction row =
          HWY_DYNAMIC_DISPATCH(pick_row)(static_cast<int>(s_.kw), static_cast<int>(s_.sw), static_cast<int>(pixels));
      if (row == nullptr || ceil_div(s_.ow, pixels) * pixels >= best) continue;
      best = ceil_div(s_.ow, pixels) * pixels;
      row_pixels_ = pixels;
      row_ = row;
    }
  }

  void run_whole_rows(const ConvCall& call, int64_t y_begin, int64_t y_end) const {
    DepthwiseRow t;
    t.in_row = s_.iw * pack_;
    t.bias = call.bias;
    t.low = s_.activation.low;
    t.high = s_.activation.high;
    LongLoop loop;
    for (int64_t y = y_begin; y < y_end && loop.goes_on(2 * s_.ow); ++y) {
      const int64_t top = y * s_.sh - s_.top;
      const Taps rows = taps_inside(top, s_.ih, s_.kh, 1);
      t.rows = rows.end - rows.begin;
      t.w = call.w + rows.begin * s_.kw * pack_;
      for (int64_t x = 0; x < s_.ow; x += row_pixels_) {
        const int64_t from = std::min(x, s_.ow - row_pixels_), left = from * s_.sw - s_.left;
        t.first = -left;
        t.last = s_.iw - left;
        t.in = call.x + ((top + rows.begin) * s_.iw + left) * pack_;
        t.out = call.y + (y * s_.ow + from) * pack_;
        row_(t);
      }
    }
  }

  int64_t span() const { return (s_.ow - 1) * s_.sw + (s_.kw - 1) * s_.dw + 1; }
  int64_t input_rows(int64_t lines) const { return (lines - 1) * s_.sh + (s_.kh - 1) * s_.dh + 1; }
  int64_t padded_floats() const { return input_rows(std::min(lines_, ceil_div(s_.oh, bands_))) * span() * pack_; }

  // With a copy of the input that has its padding: then all windows are whole.
  void run_padded(const ConvCall& call, int64_t y_begin, int64_t y_end) const {
    float* space = static_cast<float*>(call.workspace);
    const int64_t rows = input_rows(y_end - y_begin), first = y_begin * s_.sh - s_.top, row = span() * pack_;
    PaddedCopy copy = {s_.ih, s_.iw, span(), std::min(s_.left, span()), 0};
    copy.inside = std::min(s_.iw, copy.span - copy.before);
    HWY_DYNAMIC_DISPATCH(copy_padded)(copy, call.x, first, rows, space);
    DepthwiseTile t;
    t.in_pixel = s_.sw * pack_;
    t.in_row = s_.dh * row;
    t.in_column = s_.dw * pack_;
    t.w = call.w;
    t.w_row = s_.kw * pack_;
    t.rows = s_.kh;
    t.columns = s_.kw;
    t.bias = call.bias;
    t.out_pixel = pack_;
    t.low = s_.activation.low;
    t.high = s_.activation.high;
    const int64_t tiles = ceil_div(s_.ow, kDepthwisePixels), narrow = s_.ow / tiles, wide = s_.ow % tiles;
    const DepthwiseFunction narrow_tile = depthwise_function(static_cast<int>(narrow));
    const DepthwiseFunction wide_tile = wide == 0 ? narrow_tile : depthwise_function(static_cast<int>(narrow + 1));
    LongLoop loop;
    for (int64_t y = y_begin; y < y_end && loop.goes_on(s_.kh * s_.kw * s_.ow / 4); ++y) {
      int64_t at = y * s_.ow * pack_;
      t.in = space + (y - y_begin) * s_.sh * row;
      for (int64_t i = 0; i < tiles; ++i) {
        const int64_t pixels = narrow + (i < wide ? 1 : 0);
        t.out = call.y + at;
        t.start = call.residual == nullptr ? nullptr : call.residual + at;
        (i < wide ? wide_tile : narrow_tile)(t);
        at += pixels * pack_;
        t.in += pixels * t.in_pixel;
      }
    }
  }

  void run_in_place(const ConvCall& call, int64_t first_input, int64_t y_begin, int64_t y_end) const {
    Plane p = {call.x, call.w, call.bias, call.residual, call.y, {}};
    for (int64_t c = 0; !is_depthwise() && c < s_.icg(); ++c)
      for (int64_t l = 0; l < pack_; ++l)
        p.lanes[c * pack_ + l] = static_cast<int32_t>(first_input % pack_ + l / s_.ocg() * s_.icg() + c);
    const int64_t inner_begin = std::clamp(rows_.begin, y_begin, y_end),
                  inner_end = std::clamp(rows_.end, inner_begin, y_end);
    LongLoop loop;
    for (int64_t y = y_begin; y < y_end; ++y) {
      run_line(p, y, columns_.begin, columns_.end - columns_.begin, false, &loop);
      if (y >= inner_begin && y < inner_end) continue;
      for (int64_t x = 0; x < columns_.begin; ++x) run_line(p, y, x, 1, false, &loop);
      for (int64_t x = columns_.end; x < s_.ow; ++x) run_line(p, y, x, 1, false, &loop);
    }
    // Columns at the border, many rows at once.
    for (int64_t x = 0; x < columns_.begin; ++x) run_line(p, inner_begin, x, inner_end - inner_begin, true, &loop);
    for (int64_t x = columns_.end; x < s_.ow; ++x) run_line(p, inner_begin, x, inner_end - inner_begin, true, &loop);
  }

  struct Plane {
    const float *in, *w, *bias, *residual;
    float* out;
    std::array<int32_t, kMostLanes * kMostLanes> lanes;
  };

  bool is_depthwise() const { return s_.icg() == 1 && s_.ocg() == 1; }
  int64_t panel() const { return s_.kh * s_.kw * s_.icg() * pack_; }

  // `count` pixels from (y, x) on, to the right or down, all with the same taps inside the input.
  void run_line(const Plane& plane, int64_t y, int64_t x, int64_t count, bool down, LongLoop* loop) const {
    if (count <= 0) return;
    const int64_t top = y * s_.sh - s_.top, left = x * s_.sw - s_.left;
    const Taps rows = taps_inside(top, s_.ih, s_.kh, s_.dh), columns = taps_inside(left, s_.iw, s_.kw, s_.dw);
    DepthwiseTile t;
    t.in_pixel = (down ? s_.sh * s_.iw : s_.sw) * pack_;
    t.in_row = s_.dh * s_.iw * pack_;
    t.in_column = s_.dw * pack_;
    t.w = plane.w + (rows.begin * s_.kw + columns.begin) * s_.icg() * pack_;
    t.w_row = s_.kw * s_.icg() * pack_;
    t.steps = s_.icg();
    t.lanes = plane.lanes.data();
    t.rows = rows.end - rows.begin;
    t.columns = columns.end - columns.begin;
    t.bias = plane.bias;
    t.out_pixel = (down ? s_.ow : 1) * pack_;
    t.low = s_.activation.low;
    t.high = s_.activation.high;
    const bool any = t.rows > 0 && t.columns > 0;
    const float* in =
        any ? plane.in + ((top + rows.begin * s_.dh) * s_.iw + left + columns.begin * s_.dw) * pack_ : plane.in;
    const int64_t tiles = ceil_div(count, is_depthwise() ? kDepthwisePixels : kGroupPixels);
    for (int64_t i = 0; i < tiles; ++i) {
      if (!loop->goes_on(2 + t.rows * t.columns * t.steps)) return;
      const int64_t begin = i * count / tiles, end = (i + 1) * count / tiles;
      const int64_t at = (y * s_.ow + x) * pack_ + begin * t.out_pixel;
      t.in = in + begin * t.in_pixel;
      t.out = plane.out + at;
      t.start = plane.residual == nullptr ? nullptr : plane.residual + at;
      const int pixels = static_cast<int>(end - begin);
      (is_depthwise() ? depthwise_function(pixels) : group_function(pixels))(t);
    }
  }

  ConvShape s_;
  int64_t pack_, in_blocks_, blocks_, bands_;
  bool padded_ = false;
  DepthwiseRowFunction row_ = nullptr;  // for the usual kernels and strides, and images that are not too narrow
  int64_t row_pixels_ = 0;
  bool by_rows_ = false;                                     // all blocks of one band, then those of the next
  int64_t lines_ = std::numeric_limits<int64_t>::max() / 2;  // rows computed at a time
  Inside rows_, columns_;
};

}  // namespace

std::unique_ptr<DepthwiseScheme> make_conv_depthwise(const ConvShape& shape) {
  return std::make_unique<ConvDepthwise>(shape);
}

}  // namespace minnow
#endif
