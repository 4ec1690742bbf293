// The op ConvInteger: convolution of 8-bit integers less their zero points, in i32; and QuantizedConv, which has three
// more inputs, as the planner may give them to the other one, too: its sums are requantized at once
// (quant/requantize.h). The image is copied once, with its padding (which stands for zero points), so that what lies
// under one tap of all windows is a part of it as it lies.
#include <cstring>

#include "kernels/cpu/conv/byte_windows.h"
#include "kernels/cpu/conv/copy_line.h"
#include "kernels/cpu/conv/last.h"
#include "kernels/cpu/convert/blocks.h"
#include "kernels/cpu/gemm/byte_cut.h"
#include "kernels/cpu/gemm/byte_product.h"
#include "kernels/cpu/gemm/integer.h"
#include "kernels/cpu/gemm/term_weights.h"
#include "kernels/cpu/machine/packed_layout.h"
#include "kernels/cpu/quant/requantize.h"
#include "kernels/core/interrupt.h"
#include "kernels/core/packed.h"
#include "kernels/core/rounding.h"
#include "kernels/core/window.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

class ConvInteger final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Shape &x = node.in[0]->shape, &w = node.in[1]->shape;
    attrs_ = &node.attrs;
    group_ = node.attrs.i("group", 1);
    MINNOW_RETURN_IF_ERROR(read_window(node.attrs, x, std::vector<int64_t>(w.begin() + 2, w.end()), &window_));
    window_ = as_3d(window_);
    in_ = spatial_3d(x);
    out_ = spatial_3d(node.out[0]->shape);
    channels_ = w[1];
    taps_ = channels_ == 0 ? 0 : w.count(2, w.rank());
    outs_ = w[0];
    threads_ = std::max(1, node.threads);
    macs_ = Shape{node.out[0]->count(), channels_, taps_}.count();
    *workspace = 0;
    if (node.out[0]->count() == 0) return ok();
    unit_ = is_depthwise() ? nullptr : byte_unit();
    planes_ = is_depthwise() ? x[1] : (channels_ + integer_group() - 1) / integer_group() * group_;
    MINNOW_RETURN_IF_ERROR(lay_out());
    if (unit_ != nullptr) cut_ = cut_product(*unit_, work(x[0]));
    const bool zero_known = node.in.size() < 4 || node.in[3] == nullptr || node.constant[3] != nullptr;
    std::vector<uint32_t> places;
    terms_ = 0;
    if (unit_ != nullptr && unit_->takes_terms && node.constant[1] != nullptr && zero_known)
      terms_ = conv_terms().find_places(*node.constant[1], node.pool, &places);
    // The blocks of a byte unit are mostly padding where groups have a few channels.
    const bool keeps = 4 * weights_size() <= kLeastBytes + kMostBytes * w.count();
    if (node.constant[1] != nullptr && zero_known && keeps) {
      const Tensor* zeros = operand(node.constant, 3);
      const auto fill = [&](void* to) {
        pack(*node.constant[1], zeros, places, node.pool, static_cast<uint32_t*>(to));
      };
      const std::string form = std::string("integer_conv,") + scheme() + "," + std::to_string(group_);
      zeros != nullptr ? weights_.make(node, {1, 3}, form, 4 * weights_size(), fill)
                       : weights_.make(node, {1}, form, 4 * weights_size(), fill);
    } else {
      terms_ = 0;
      weights_.clear();
    }
    image_ = is_depthwise() ? threads_ * (plane_ + kRoom) : in_place() ? 0 : x[0] * planes_ * plane_ + kRoom;
    image_ = whole_lines(image_);
    *workspace = 4 * (image_ + whole_lines(outs_) + threads_ * scratch() + (weights_.empty() ? weights_size() : 0));
    table_at_ = *workspace = round_up(*workspace, 8);
    if (kept_.empty()) *workspace += table_size() * static_cast<int64_t>(sizeof(int64_t));
    return ok();
  }

  void run(const RunContext& context) override {
    if (context.out[0]->count() == 0) return;
    const Tensor &x = *context.in[0], *zeros = operand(context.in, 2);
    uint32_t* image = static_cast<uint32_t*>(context.workspace);
    uint32_t* starts = image + image_;
    uint32_t* scratch_space = starts + whole_lines(outs_);
    // Nothing is read from a table that is not whole.
    if (kept_.empty() && !make_table(reinterpret_cast<int64_t*>(static_cast<char*>(context.workspace) + table_at_)))
      return;
    const uint32_t* weights = weights_.as<uint32_t>();
    if (weights_.empty()) {
      uint32_t* packed = scratch_space + threads_ * scratch();
      pack(*context.in[1], operand(context.in, 3), {}, context.pool, packed);
      weights = packed;
    }
    const int32_t zero = (zeros == nullptr ? 0 : byte_at(*zeros, 0)) + shift_for(x.type.dtype, false);
    const std::optional<Requantization> given = read_requantization(*attrs_, context, 4, false);
    if (!given) return;
    const Requantization& quantized = *given;
    if (is_depthwise()) return convolve_planes(context, image, weights, zero, quantized, scratch_space);
    const int64_t grain = 1 + 4000 / (plane_ + 1);
    if (!in_place())
      context.pool->parallel_for(x.dim(0) * planes_, grain, [&](int64_t begin, int64_t end, int) {
        LongLoop loop;
        for (int64_t i = begin; i < end; ++i) fill_plane(x, i, zero, loop, image + i * plane_);
      });
    const uint32_t* sums = weights + left_size();
    for (int64_t o = 0; o < outs_; ++o) starts[o] = 0u - static_cast<uint32_t>(zero) * sums[o];
    if (unit_ != nullptr) {
      if (quantized.scale != nullptr && quantized.bias != nullptr)
        for (int64_t o = 0; o < outs_; ++o) starts[o] += static_cast<uint32_t>(quantized.bias[o * quantized.bias_step]);
      return convolve_panels(context, image, weights, starts, zero, quantized, scratch_space);
    }
    convolve(context, image, weights, starts, zero, quantized, scratch_space);
  }

  bool reads(int i) const override { return (i != 1 && i != 3) || weights_.empty(); }
  [[gnu::cold]] Profile profile() const override { return {scheme(), macs_}; }

 private:
  static constexpr int64_t kRows = 64;  // of sums at a time
  // Lanes of panels at a time, which stay in the second cache; those of processors without AVX-512 are smaller.
  static int64_t panel_lanes() { return pack_width() == kByteLanes ? 1 << 17 : 1 << 15; }
  static constexpr int64_t kRoom = 64;           // lanes that are read beyond the last pixel
  static constexpr int64_t kMostKept = 1 << 16;  // places in a table that is not made again for each run
  // Packed weights that are kept have some bytes, or so many for each number.
  static constexpr int64_t kLeastBytes = 1 << 20, kMostBytes = 16;

  ByteWork work(int64_t images) const {
    const int64_t pixels = out_[1] * out_[2], line = 64;  // bytes of a line
    ByteWork w;
    w.products = images * group_ * out_[0];
    w.rows = outs_ / group_;
    w.vectors = (pixels + kByteLanes - 1) / kByteLanes;
    w.steps = steps();
    w.most_panels = std::max<int64_t>(1, panel_lanes() / (steps() * integer_panel() + 1));
    w.line = pixels * out_[0] % line == 0 ? line / kByteLanes : 1;
    w.threads = threads_;
    return w;
  }
  // Lanes of whole cache lines.
  static int64_t whole_lines(int64_t lanes) { return (lanes + 15) / 16 * 16; }
  const char* scheme() const {
    return is_depthwise() ? "depthwise" : unit_ != nullptr ? unit_->name : integer_group() == 4 ? "bytes" : "pairs";
  }
  bool is_depthwise() const { return channels_ == 1 && group_ > 1; }
  int64_t depth() const { return channels_ * taps_; }
  int64_t steps() const {
    const int64_t groups = integer_steps(channels_) * taps_;
    return unit_ == nullptr ? groups : byte_steps(*unit_, groups);
  }
  // Rows of lanes (in blocks for a byte unit, which it has for each group of channels); then, for each row, the sum and
  // the zero point; then a row of ones, and whether a zero point is not 0.
  int64_t row_size(int64_t rows) const { return unit_ == nullptr ? rows * steps() : byte_size(*unit_, rows, steps()); }
  int64_t left_size() const { return terms_ > 0 ? terms_ : group_ * row_size(outs_ / group_); }
  int64_t weights_size() const { return is_depthwise() ? outs_ * taps_ : left_size() + 2 * outs_ + row_size(1) + 1; }
  TermWeights conv_terms() const { return {group_, outs_ / group_, channels_, taps_, depth(), taps_}; }
  // Whether panels are made of the pixels where they are.
  bool in_place() const { return unit_ != nullptr && whole_ && taps_ == 1; }
  // Lines of a depthwise convolution that are computed as one: sums of as many stay in the cache.
  int64_t lines_at_once() const { return std::clamp<int64_t>(1024 / std::max<int64_t>(phase_[2], 1), 1, 1 + out_[1]); }
  int64_t scratch() const {
    if (unit_ != nullptr) return (cut_.at_once * steps() + 1 + std::min(kRows, outs_ / group_)) * integer_panel();
    return is_depthwise() ? (lines_at_once() * phase_[2] + 63) / 16 * 32
                          : (std::min(kRows, outs_ / group_) + 1) * integer_panel();
  }
  // A stride takes every so manyth pixel, so the image is cut into as many phases along each axis. In a phase all
  // windows step by 1: what a tap sees is the phase, shifted, whose rows follow each other without a gap.
  Status lay_out() {
    int64_t phases = 1;
    for (size_t i = 0; i < 3; ++i) {
      const int64_t kernel = (window_.kernel[i] - 1) * window_.dilation[i] + 1;
      phase_[i] = (std::max<int64_t>(out_[i] - 1, 0) * window_.stride[i] + kernel - 1) / window_.stride[i] + 1;
      // Phases that no tap looks at are left out.
      used_[i] = std::min(window_.stride[i], kernel);
      phases *= used_[i];
    }
    plane_ = phases * phase_[0] * phase_[1] * phase_[2];
    const int64_t kept = table_size() <= kMostKept ? table_size() : 0, lines = in_[0] * in_[1];
    MINNOW_RETURN_IF_ERROR(
        tables_.keep((kept + (lines <= kMostKept ? lines : 0)) * static_cast<int64_t>(sizeof(int64_t))));
    kept_.assign(static_cast<size_t>(kept), 0);
    if (!kept_.empty()) make_table(kept_.data());
    // Without strides and padding the image is the only phase.
    whole_ = phases == 1 && phase_ == in_;
    for (size_t i = 0; i < 3; ++i) whole_ = whole_ && window_.begin[i] == 0 && window_.stride[i] == 1;
    lines_.clear();
    for (int64_t i = 0; lines <= kMostKept && i < lines; ++i) lines_.push_back(place_of_line(i / in_[1], i % in_[1]));
    return ok();
  }

  int64_t table_size() const { return taps_ * (is_depthwise() ? 1 : integer_steps(channels_)); }

  // Where the taps are in a phase. False if the work is to end before all are there.
  bool make_table(int64_t* table) {
    const int64_t own = is_depthwise() ? 1 : integer_steps(channels_), size = phase_[0] * phase_[1] * phase_[2];
    table_ = table;
    LongLoop loop;
    for (int64_t k = 0; k < taps_; k += window_.kernel[2]) {
      const int64_t z = k / window_.kernel[2] / window_.kernel[1] * window_.dilation[0];
      const int64_t y = k / window_.kernel[2] % window_.kernel[1] * window_.dilation[1];
      const int64_t phase = z % window_.stride[0] * used_[1] + y % window_.stride[1];
      const int64_t line = z / window_.stride[0] * phase_[1] + y / window_.stride[1];
      for (int64_t i = 0; i < window_.kernel[2]; ++i) {
        if (!loop.goes_on(4 + own)) return false;
        const int64_t x = i * window_.dilation[2];
        const int64_t place =
            (phase * used_[2] + x % window_.stride[2]) * size + line * phase_[2] + x / window_.stride[2];
        for (int64_t c = 0; c < own; ++c) *table++ = c * plane_ + place;
      }
    }
    return true;
  }

  // Where a line of the image begins in a plane; -1 if no tap looks at it.
  int64_t place_of_line(int64_t z, int64_t y) const {
    const int64_t at[2] = {z + window_.begin[0], y + window_.begin[1]};
    int64_t phase = 0, line = 0;
    for (size_t i = 0; i < 2; ++i) {
      const int64_t s = window_.stride[i];
      if (at[i] % s >= used_[i] || at[i] / s >= phase_[i]) return -1;
      phase = phase * used_[i] + at[i] % s;
      line = line * phase_[i] + at[i] / s;
    }
    return phase * used_[2] * (phase_[0] * phase_[1] * phase_[2]) + line * phase_[2];
  }

  // The phases of some channels that share lanes (of one channel for depthwise), padding being zero points.
  void fill_plane(const Tensor& x, int64_t plane, int32_t zero, LongLoop& loop, uint32_t* to) const {
    constexpr int64_t kPart = 512;
    const int64_t own = integer_steps(channels_), size = in_[0] * in_[1] * in_[2];
    const uint8_t flip = flip_for(x.type.dtype, false);
    int64_t first = plane, channels = 1;
    if (!is_depthwise()) {
      first = plane / own * channels_ + plane % own * integer_group();
      channels = std::min(integer_group(), channels_ - plane % own * integer_group());
    }
    const uint8_t* from = x.as<uint8_t>() + first * size;
    uint32_t padding =
        is_depthwise() ? 0 : static_cast<uint32_t>(zero) * (integer_group() == 4 ? 0x01010101u : 0x10001u);
    const auto convert = [&](int64_t pixel, int64_t n, uint32_t* lanes) {
      const uint8_t* pixels = from + pixel;
      if (is_depthwise()) return widen_lanes(pixels, n, flip, zero, reinterpret_cast<int32_t*>(lanes));
      const uint8_t* rows[4] = {};
      for (int64_t c = 0; c < channels; ++c) rows[c] = pixels + c * size;
      pack_right(rows, n, flip, lanes);
    };
    if (whole_) return convert(0, size, to);
    fill_lanes(padding, plane_, to);
    alignas(64) uint32_t part[kPart];
    const int64_t stride = window_.stride[2];
    // Short lines are converted some at a time: they would leave vectors half empty.
    const bool fits = in_[2] % 16 == 0 && stride == 1;
    const int64_t joined = fits ? 1 : std::max<int64_t>(1, kPart / std::max<int64_t>(in_[2], 1));
    for (int64_t z = 0; z < in_[0]; ++z) {
      for (int64_t y = 0, held = -1; y < in_[1] && loop.goes_on(16 + in_[2] / 4); ++y) {
        held = held + 1 < joined ? held + 1 : 0;
        const int64_t pixel = (z * in_[1] + y) * in_[2];
        if (joined > 1 && (y == 0 || held == 0)) convert(pixel, std::min(joined, in_[1] - y) * in_[2], part);
        const int64_t line = lines_.empty() ? place_of_line(z, y) : lines_[static_cast<size_t>(z * in_[1] + y)];
        if (line < 0) continue;
        uint32_t* row = to + line;
        for (int64_t i = 0; i < in_[2]; i += kPart) {
          const int64_t n = std::min({kPart, in_[2] - i, phase_[2] * stride - window_.begin[2] - i});
          if (n <= 0) break;
          const uint32_t* lanes = joined > 1 ? part + held * in_[2] : part;
          uint32_t* place = row + window_.begin[2] + i;
          if (joined == 1) convert(pixel + i, n, stride == 1 ? place : part);
          if (stride != 1)
            scatter(lanes, n, window_.begin[2] + i, row);
          else if (joined > 1)
            copy_line(lanes, static_cast<size_t>(n) * sizeof(uint32_t), place);
        }
      }
    }
  }

  // Pixels of a row from column `at` on into the phases of that row.
  void scatter(const uint32_t* lanes, int64_t n, int64_t at, uint32_t* row) const {
    const int64_t stride = window_.stride[2], size = phase_[0] * phase_[1] * phase_[2];
    if (stride == 2 && used_[2] == 2) {
      if (at % 2 == 1 && n > 0) {
        row[size + at / 2] = *lanes++;
        ++at;
        --n;
      }
      return split_lanes(lanes, n, row + at / 2, row + size + at / 2);
    }
    for (int64_t p = 0; p < used_[2]; ++p) {
      int64_t i = ((p - at) % stride + stride) % stride;
      uint32_t* to = row + p * size + (at + i) / stride;
      for (; i < n; i += stride) *to++ = lanes[i];
    }
  }

  void pack(const Tensor& w, const Tensor* zeros, const std::vector<uint32_t>& places, ThreadPool* pool,
            uint32_t* to) const {
    const uint8_t* from = w.as<uint8_t>();
    const auto zero_of = [&](int64_t o) { return zeros == nullptr ? 0 : byte_at(*zeros, zeros->count() == 1 ? 0 : o); };
    if (is_depthwise()) {
      LongLoop loop;
      for (int64_t i = 0; i < outs_ * taps_ && loop.goes_on(); ++i)
        to[i] = static_cast<uint32_t>(byte_at(w, i) - zero_of(i / taps_));
      return;
    }
    const int64_t own = integer_steps(channels_), rows = outs_ / group_;
    uint32_t *sums = to + left_size(), *factors = sums + outs_, *ones = factors + outs_, *any = ones + row_size(1);
    *any = 0;
    std::vector<uint32_t> lanes(unit_ == nullptr ? 0 : static_cast<size_t>(own));
    if (unit_ != nullptr) std::fill(ones, any, 0u);
    if (terms_ > 0)
      conv_terms().pack(w, places, pool, to, sums);
    else if (unit_ != nullptr)
      std::fill(to, sums, 0u);
    LongLoop loop;
    for (int64_t o = 0; o < outs_; ++o) {
      if (terms_ == 0) sums[o] = 0;
      for (int64_t k = 0; terms_ == 0 && k < taps_ && loop.goes_on(8 + channels_ / 4); ++k) {
        uint32_t* row = unit_ == nullptr ? to + (o * taps_ + k) * own : lanes.data();
        sums[o] += pack_left(from + o * depth() + k, channels_, taps_, flip_for(w.type.dtype, true), row);
        if (unit_ != nullptr) place_left(*unit_, row, own, o % rows, k * own, steps(), to + o / rows * row_size(rows));
      }
      factors[o] = static_cast<uint32_t>(zero_of(o) + shift_for(w.type.dtype, true));
      *any |= factors[o];
    }
    const int64_t group = integer_group();
    for (int64_t i = 0; i < taps_ * own; ++i) {
      const int64_t bits = 32 / group * std::min(group, channels_ - i % own * group);
      ones[unit_ == nullptr ? i : byte_index(*unit_, 0, i, steps())] =
          (group == 4 ? 0x01010101u : 0x10001u) & (~0u >> (32 - bits));
    }
  }

  // Calls body(image, plane of results, first column, columns, first channel, channels, worker) for parts of the planes
  // of results that follow each other in a phase: rows as wide as the phase's, of which out_[2] columns count. Small
  // planes are shared out by channels, too.
  template <typename Body>
  void for_columns(int64_t planes, int64_t channels, ThreadPool* pool, Body body) const {
    const int64_t length = (out_[1] - 1) * phase_[2] + out_[2];
    const int64_t width = integer_panel(), parts = (length + width - 1) / width, all = planes * out_[0] * parts;
    const int64_t wanted = threads_ == 1 ? 1 : (4 * threads_ + all - 1) / std::max<int64_t>(all, 1);
    const int64_t some = std::max<int64_t>(kRows, ((channels + wanted - 1) / wanted + 7) / 8 * 8);
    const int64_t shares = (channels + some - 1) / some;
    const auto range = [&](int64_t begin, int64_t end, int worker) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t channel = task % shares * some, part = task / shares, first = part % parts * width;
        body(part / parts / out_[0], part / parts % out_[0], first, std::min(width, length - first), channel,
             std::min(some, channels - channel), worker);
      }
    };
    const int64_t grain = std::max<int64_t>(1, 200000 / (std::min(some, channels) * depth() * width + 1));
    if (pool->threads() > threads_) return range(0, all * shares, 0);
    pool->parallel_for(all * shares, grain, range);
  }

  void convolve(const RunContext& context, const uint32_t* image, const uint32_t* weights, const uint32_t* starts,
                int32_t zero, const Requantization& quantized, uint32_t* scratch_space) const {
    const int64_t rows = outs_ / group_, own = integer_steps(channels_), out_size = out_[0] * out_[1] * out_[2];
    const uint32_t *factors = weights + outs_ * (steps() + 1), *ones = factors + outs_;
    const bool corrected = ones[row_size(1)] != 0;
    void* y = context.out[0]->data;
    const uint32_t start_of_ones = 0u - static_cast<uint32_t>(depth()) * static_cast<uint32_t>(zero);
    const auto body = [&](int64_t plane, int64_t z, int64_t first, int64_t columns, int64_t channel, int64_t channels,
                          int worker) {
      const int64_t g = plane % group_;
      uint32_t *column = scratch_space + worker * scratch(), *tile = column + integer_panel();
      IntegerProduct p;
      p.right = image + plane * own * plane_ + z * phase_[1] * phase_[2] + first;
      p.offset = table_;
      p.steps = steps();
      p.columns = columns;
      if (corrected) {
        p.left = ones;
        p.rows = 1;
        p.start = &start_of_ones;
        p.c = column;
        gemm_integer(p);
        p.column = column;
      }
      // Some channels at a time: their sums stay in the cache until they are results.
      LongLoop loop;
      for (int64_t end = channel + channels; channel < end && loop.goes_on(kRows * steps() * 4); channel += kRows) {
        const int64_t own_row = g * rows + channel, count = std::min(kRows, end - channel);
        p.left = weights + own_row * steps();
        p.rows = count;
        p.start = starts + own_row;
        p.factor = corrected ? factors + own_row : nullptr;
        const int64_t width = integer_panel();
        const int64_t out = (plane * rows + channel) * out_size + z * out_[1] * out_[2];
        uint32_t* to = static_cast<uint32_t*>(y) + out;
        const bool gapless = phase_[2] == out_[2], direct = gapless && !quantized.active();
        p.c = direct ? to + first : tile;
        p.ldc = direct ? out_size : width;
        gemm_integer(p);
        if (direct) continue;
        const auto put = [&](int64_t at, int64_t n, int64_t pixel) {
          if (quantized.active())
            return requantize(quantized, own_row, count, reinterpret_cast<int32_t*>(tile) + at, width, n,
                              offset(y, out + pixel, dtype_size(quantized.to)), out_size);
          for (int64_t r = 0; r < count; ++r) std::copy_n(tile + r * width + at, n, to + r * out_size + pixel);
        };
        gapless ? put(0, columns, first) : for_segments(first, columns, put);
      }
    };
    for_columns(context.in[0]->dim(0) * group_, rows, context.pool, body);
  }

  // By a byte unit. Columns are pixels of the result, without what a phase has between its lines; a task has some
  // panels, or with many threads and small planes, some channels of these.
  void convolve_panels(const RunContext& context, const uint32_t* image, const uint32_t* weights,
                       const uint32_t* starts, int32_t zero, const Requantization& quantized,
                       uint32_t* scratch_space) const {
    const ByteUnit& unit = *unit_;
    const int64_t rows = outs_ / group_, pixels = out_[1] * out_[2];
    const uint32_t *factors = weights + left_size() + outs_, *ones = factors + outs_;
    const bool corrected = ones[row_size(1)] != 0, fused = quantized.scale != nullptr;
    const uint32_t start_of_ones = 0u - static_cast<uint32_t>(depth()) * static_cast<uint32_t>(zero);
    const int64_t planes = context.in[0]->dim(0) * group_ * out_[0], width = integer_panel();
    const int64_t at_once = cut_.at_once, parts = cut_.parts, shares = cut_.shares, some = cut_.rows;
    const uint8_t flip = flip_for(context.in[0]->type.dtype, false);
    const int64_t work_of_block = std::min(kRows, rows) * steps() * at_once / 64 + 1;
    const auto range = [&](int64_t begin, int64_t end, int worker) {
      uint32_t *column = scratch_space + worker * scratch(), *tile = column + width;
      uint32_t* panel = tile + std::min(kRows, rows) * width;
      LongLoop loop;
      ByteUse use(unit);
      for (int64_t task = begin; task < end; ++task) {
        const int64_t share = task % shares, part = task / shares % parts, plane = task / shares / parts;
        const int64_t of_group = plane / out_[0], z = plane % out_[0], g = of_group % group_;
        const int64_t first = part * at_once, last = std::min(first + at_once, cut_.panels);
        const auto bound = [&](int64_t i) { return cut_.bound(i) * kByteLanes; };
        for (int64_t i = first; i < last; ++i) {
          const int64_t at = bound(i), n = std::min(bound(i + 1), pixels) - at;
          make_panel(*context.in[0], image, of_group, z, at, n, bound(i + 1) - at, flip,
                     panel + (i - first) * steps() * width);
        }
        // Some channels at a time: their weights stay in the cache for all panels.
        const int64_t limit = std::min(share * some + some, rows);
        for (int64_t channel = share * some; channel < limit && loop.goes_on(work_of_block); channel += kRows) {
          const int64_t row = g * rows + channel;
          ByteProduct p;
          p.steps = steps();
          p.rows = std::min(kRows, limit - channel);
          p.start = starts + row;
          // The next weights, a part of them beside each panel.
          const int64_t next = std::clamp<int64_t>(limit - channel - kRows, 0, kRows) * steps();
          const uint32_t* next_weights = weights + g * row_size(rows) + (channel + kRows) * steps();
          for (int64_t i = first; i < last; ++i) {
            const int64_t at = bound(i);
            const int64_t soon = next * (i - first) / (last - first);
            p.soon = next_weights + soon;
            p.soon_lanes = next * (i - first + 1) / (last - first) - soon;
            p.right = panel + (i - first) * steps() * width;
            p.width = bound(i + 1) - at;
            p.columns = std::min(bound(i + 1), pixels) - at;
            if (corrected) {
              ByteProduct all = p;
              all.left = ones;
              all.terms = nullptr;
              all.rows = 1;
              all.scale = nullptr;
              all.factor = nullptr;
              all.start = &start_of_ones;
              all.sums = column;
              use.multiply(all);
              p.factor = factors + row;
              p.column = column;
            }
            if (terms_ > 0) {
              p.terms = weights;
              p.blocks = weights + g * conv_terms().blocks_of_group() + channel / kTermRows;
            } else {
              p.left = weights + g * row_size(rows) + channel * steps();
            }
            const int64_t out = (of_group * rows + channel) * out_[0] * pixels + z * pixels + at;
            void* y = context.out[0]->data;
            p.ldc = out_[0] * pixels;
            if (fused) {
              p.scale = quantized.scale + row * quantized.factor_step;
              p.scale_of_row = quantized.factor_step != 0;
              p.is_signed = quantized.to == DType::kI8;
              p.zero = quantized.zero;
              p.bytes = static_cast<uint8_t*>(y) + out;
            } else if (!quantized.active()) {
              p.sums = static_cast<uint32_t*>(y) + out;
            } else {
              p.sums = tile;
              p.ldc = width;
            }
            use.multiply(p);
            if (quantized.active() && !fused)
              requantize(quantized, row, p.rows, reinterpret_cast<int32_t*>(tile), width, p.columns,
                         offset(y, out, dtype_size(quantized.to)), out_[0] * pixels);
          }
        }
      }
    };
    if (context.pool->threads() > threads_) return range(0, planes * parts * shares, 0);
    const int64_t work = std::min(some, rows) * steps() * width * at_once;
    context.pool->parallel_for(planes * parts * shares, 1 + 50000 / (work + 1), range);
  }

  // n pixels from `at` on.
  void make_panel(const Tensor& x, const uint32_t* image, int64_t of_group, int64_t z, int64_t at, int64_t n,
                  int64_t width, uint8_t flip, uint32_t* panel) const {
    const int64_t own = integer_steps(channels_), groups = own * taps_;
    std::fill(panel + groups * width, panel + steps() * width, 0u);
    if (in_place()) {
      const int64_t plane = in_[0] * in_[1] * in_[2];
      const uint8_t* from = x.as<uint8_t>() + of_group * channels_ * plane + z * in_[1] * in_[2] + at;
      return unit_->panel_of_planes(from, plane, channels_, n, flip, width, panel);
    }
    ByteSegment segments[64];
    int count = 0;
    for (int64_t done = 0; done < n;) {
      const int64_t line = (at + done) / out_[2], first = (at + done) % out_[2];
      const int64_t some = phase_[2] == out_[2] ? n - done : std::min(n - done, out_[2] - first);
      segments[count++] = {line * phase_[2] + first, done, some};
      done += some;
    }
    unit_->panel_of_lanes(image + of_group * own * plane_ + z * phase_[1] * phase_[2], table_, groups, segments, count,
                          width, panel);
  }

  // The parts of columns that are pixels: body(column less `first`, how many, pixel).
  template <typename Body>
  void for_segments(int64_t first, int64_t columns, Body body) const {
    for (int64_t at = 0; at < columns;) {
      const int64_t y = (first + at) / phase_[2], x = (first + at) % phase_[2];
      const int64_t n = std::min(columns - at, out_[2] - x);
      if (n > 0) body(at, n, y * out_[2] + x);
      at += std::min(columns - at, phase_[2] - x);
    }
  }

  // One channel makes each result: its pixels lie one in a lane, in memory that the next channel takes after it.
  void convolve_planes(const RunContext& context, uint32_t* image, const uint32_t* weights, int32_t zero,
                       const Requantization& quantized, uint32_t* scratch_space) const {
    const int64_t rows = outs_ / group_, n = out_[2], most = lines_at_once();
    const int64_t lanes = std::max<int64_t>(64, (1 << 22) / std::max<int64_t>(taps_, 1) / 64 * 64);
    const size_t size = quantized.active() ? dtype_size(quantized.to) : sizeof(int32_t);
    const auto range = [&](int64_t begin, int64_t end, int worker) {
      int32_t* sums = reinterpret_cast<int32_t*>(scratch_space) + worker * scratch();
      int32_t* results = quantized.active() ? sums + scratch() / 2 : sums;
      uint32_t* plane = image + worker * (plane_ + kRoom);
      LongLoop loop;
      for (int64_t task = begin; task < end; ++task) {
        fill_plane(*context.in[0], task, zero, loop, plane);
        for (int64_t i = 0; i < rows * out_[0]; ++i) {
          const int64_t slice = task * rows * out_[0] + i, o = slice / out_[0] % outs_;
          // Lines of the phase follow each other without a gap: some of them are one line, of which parts are left out.
          for (int64_t row = 0; row < out_[1]; row += most) {
            const int64_t count = std::min(most, out_[1] - row), length = (count - 1) * phase_[2] + n;
            const int32_t* from = reinterpret_cast<int32_t*>(plane) + (i % out_[0] * phase_[1] + row) * phase_[2];
            for (int64_t at = 0; at < length; at += lanes) {
              const int64_t some = std::min(lanes, length - at);
              if (!loop.goes_on(taps_ * some / 8)) return;
              convolve_lanes(from + at, table_, reinterpret_cast<const int32_t*>(weights) + o * taps_, taps_, some,
                             sums + at);
            }
            if (quantized.active()) requantize(quantized, o, 1, sums, length, length, results, length);
            char* to = offset(context.out[0]->data, (slice * out_[1] + row) * n, size);
            for (int64_t k = 0; k < count; ++k)
              copy_line(offset(static_cast<const void*>(results), k * phase_[2], size), static_cast<size_t>(n) * size,
                        to + k * n * static_cast<int64_t>(size));
          }
        }
      }
    };
    const int64_t all = context.in[0]->dim(0) * planes_;
    if (context.pool->threads() > threads_) return range(0, all, 0);
    context.pool->parallel_for(all, 1 + 50000 / (rows * out_[0] * out_[1] * n * taps_ + plane_ + 1), range);
  }

  const Attrs* attrs_ = nullptr;
  const ByteUnit* unit_ = nullptr;
  ByteCut cut_;
  Window window_;
  std::array<int64_t, 3> in_{}, out_{}, phase_{}, used_{};
  // Of taps in a phase; of lines of the image in a plane, -1 for unused ones. Longer ones are not kept.
  std::vector<int64_t> kept_, lines_;
  KeptMemory tables_;               // those two
  const int64_t* table_ = nullptr;  // of taps
  int64_t table_at_ = 0;            // in the workspace, where it is not kept
  Packed weights_;
  int64_t group_ = 1, channels_ = 0, taps_ = 0, outs_ = 0, macs_ = 0;
  int64_t planes_ = 0, plane_ = 0;  // of lanes, of an image; lanes of one
  bool whole_ = false;
  int64_t terms_ = 0;  // words of the weights as terms, with the table of their blocks; 0: they are no terms
  int64_t image_ = 0;  // lanes of all, or of those that threads work on
  int threads_ = 1;
};

std::unique_ptr<Kernel> create_conv_integer(const NodeContext& node) {
  if (node.out[0]->layout == Layout::kLast)
    return node.in[1]->shape[1] == node.in[0]->shape[1] ? create_conv_last() : create_depthwise_last();
  std::unique_ptr<Kernel> windows = create_depthwise_bytes(node);
  return windows != nullptr ? std::move(windows) : std::make_unique<ConvInteger>();
}

MINNOW_KERNEL("ConvInteger", create_conv_integer);
MINNOW_KERNEL("QuantizedConv", create_conv_integer, LayoutRule::kPlain, /*in_place=*/false, layout_of_quantized_conv);

}  // namespace
}  // namespace minnow
