// Quantized convolution by tiles that take pixels of 64 channels as the layer before left them. A 1 x 1 convolution
// reads the image itself; others a copy with its padding, in which all windows step by one pixel: a stride takes every
// so manyth pixel, so the image is cut into as many phases along each axis, and what a tap sees is a phase, shifted.
// Rows of a phase follow each other without a gap, and so do tiles; some results between rows are not wanted. An image
// of a few channels is copied as pixels of four, and the taps of a line are one row of bytes.
#include "kernels/cpu/conv/last.h"
#include "kernels/cpu/machine/simd.h"

#if MINNOW_AVX512
#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "kernels/core/interrupt.h"
#include "kernels/core/packed.h"
#include "kernels/core/rounding.h"
#include "kernels/core/window.h"
#include "kernels/cpu/gemm/byte_product.h"
#include "kernels/cpu/gemm/byte_pixels.h"
#include "kernels/cpu/gemm/integer.h"
#include "kernels/cpu/machine/packed_layout.h"
#include "kernels/cpu/quant/fixed_lanes.h"
#include "kernels/cpu/quant/requantize.h"

namespace minnow {
namespace {

constexpr int64_t kLastFewChannels = 4;  // of an image that is copied as pixels of as many
constexpr int64_t kLastChannels = 1 << 16;
constexpr int64_t kLastPieceBytes = 32 << 10;  // of what the taps of a piece look at, which stays in the first cache
constexpr int64_t kLastPartBytes = 512 << 10;  // of an image at a time, which stay in the second-level cache
// Cycles: for the products of a step and the results of 32 rows and 32 columns, for a byte that comes from a cache that
// threads share, and for a task. What a thread that comes late lets the others wait for is one task.
constexpr double kLastStepCycles = 80, kLastResultCycles = 300, kLastByteCycles = 0.06, kLastTaskCycles = 800;
constexpr double kLastSerialCycles = 6000;  // less is not worth waking others

class ConvLast final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Shape &x = node.in[0]->shape, &w = node.in[1]->shape, &y = node.out[0]->shape;
    attrs_ = &node.attrs;
    Window window;
    MINNOW_RETURN_IF_ERROR(read_window(node.attrs, x, {w[2], w[3]}, &window));
    images_ = x[0];
    channels_ = x[1];
    outs_ = y[1];
    own_ = last_channels(outs_);
    is_plain_ = node.in[0]->layout == Layout::kPlain;
    pixel_ = is_plain_ ? kLastFewChannels : last_channels(channels_);
    threads_ = std::max(1, node.threads);
    macs_ = Shape{y.count(), channels_, w[2], w[3]}.count();
    bool direct = !is_plain_ && w[2] == 1 && w[3] == 1;
    for (size_t i = 0; i < 2; ++i) {
      Axis& a = axis_[i];
      a = {x[static_cast<int>(i) + 2], y[static_cast<int>(i) + 2], window.kernel[i],
           window.stride[i],           window.dilation[i],         window.begin[i]};
      direct = direct && a.stride == 1 && a.begin == 0 && a.in == a.out;
    }
    is_direct_ = direct;
    is_empty_ = y.count() == 0;
    *workspace = 0;
    if (is_empty_) return ok();
    MINNOW_RETURN_IF_ERROR(lay_out());
    blocks_ = own_ / kByteRowColumns;
    const auto fill = [&](void* to) { pack(*node.constant[1], static_cast<uint8_t*>(to)); };
    if (node.constant[1] != nullptr)
      weights_.make(node, {1}, "conv_last," + std::to_string(pixel_) + "," + std::to_string(line_), weights_bytes(),
                    fill);
    else
      weights_.clear();
    cut();
    const int64_t piece = (axis_[0].kernel - 1) * row_bytes() + kByteRowsAtOnce * pixel_;
    by_pieces_ = share_ * kByteRowBlocks * steps() * kByteRowStep <= kLastPartBytes && piece <= kLastPieceBytes;
    *workspace = round_up(image_bytes(), 64) + 8 * own_ + fixed_bytes() + (weights_.empty() ? weights_bytes() : 0);
    return ok();
  }

  void run(const RunContext& context) override {
    if (is_empty_) return;
    uint8_t* image = static_cast<uint8_t*>(context.workspace);
    int32_t* start = reinterpret_cast<int32_t*>(image + round_up(image_bytes(), 64));
    float* scale = reinterpret_cast<float*>(start + own_);
    FixedLanes* fixed = reinterpret_cast<FixedLanes*>(scale + own_);
    const uint8_t* weights = weights_.as<uint8_t>();
    if (weights_.empty()) {
      uint8_t* packed = reinterpret_cast<uint8_t*>(fixed) + fixed_bytes();
      pack(*context.in[1], packed);
      weights = packed;
    }
    const Tensor &x = *context.in[0], *zeros = context.in[2];
    const int32_t zero = zeros == nullptr ? 0 : byte_at(*zeros, 0);
    const std::optional<Requantization> given = read_requantization(*attrs_, context, 4, false);
    if (!given) return;
    const Requantization& quantized = *given;
    const int32_t* sums = reinterpret_cast<const int32_t*>(weights + blocks_ * steps() * kByteRowStep);
    const bool is_fixed = quantized.multiplier != nullptr;
    prepare_ends(quantized, sums, static_cast<uint32_t>(zero), steps() * kByteRowDepth, outs_, own_,
                 {start, scale, fixed});
    const bool serial = context.pool->threads() > threads_;
    if (!is_direct_) {
      const auto lines = [&](int64_t begin, int64_t end, int) {
        LongLoop loop;
        for (int64_t i = begin; i < end && loop.goes_on(16 + row_bytes() / 64); ++i)
          fill_row(x, i, static_cast<uint8_t>(zero), image);
      };
      const int64_t count = images_ * axis_[0].used * axis_[0].rows;
      serial ? lines(0, count, 0) : context.pool->parallel_for(count, 1 + 32768 / (axis_[1].used * row_bytes()), lines);
    }
    BytePixels t;
    t.row = is_plain_ ? axis_[1].stride * pixel_ : pixel_;
    t.steps = steps();
    t.takes_signed = x.type.dtype == DType::kI8;
    t.gives_signed = quantized.to == DType::kI8;
    t.zero = quantized.zero;
    t.least = quantized.least;
    t.most = quantized.most;
    if (is_fixed) t.fixed = fixed;
    t.bytes = context.out[0]->as<uint8_t>();
    const uint8_t* from = is_direct_ ? x.as<uint8_t>() : image;
    const auto range = [&](int64_t begin, int64_t end, int) {
      Worker worker;
      for (int64_t i = begin; i < end; ++i) run_task(t, i, from, weights, start, scale, worker);
      finish_byte_pixels(worker.space);
    };
    serial ? range(0, parts_ * shares_, 0) : context.pool->parallel_for(parts_ * shares_, 1, range);
  }

  bool reads(int i) const override { return i != 1 || weights_.empty(); }
  [[gnu::cold]] Profile profile() const override { return {is_direct_ ? "gemm_last" : "direct_last", macs_}; }

 private:
  struct Axis {
    int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, begin = 0;
    int64_t used = 1, rows = 1;  // phases that some tap looks at, and pixels of one along the axis
  };

  struct Worker {
    ByteUse use{*byte_unit()};
    BytePixelsSpace space;
    int64_t places[2][kByteRowsAtOnce], turn = 0;  // by turns, since results come late
    LongLoop loop;
  };

  Status lay_out() {
    for (size_t i = 0; i < 2; ++i) {
      Axis& a = axis_[i];
      const int64_t reach = (a.kernel - 1) * a.dilation + 1;
      const bool phases = i == 0 || !is_plain_;
      a.used = phases ? std::min(a.stride, reach) : 1;
      a.rows = phases ? a.out + (reach - 1) / a.stride : (a.out - 1) * a.stride + reach;
    }
    if (image_bytes() > std::numeric_limits<int64_t>::max() / 4)
      return fail(Code::kUnsupported, "the image is too large");
    const Axis &rows = axis_[0], &columns = axis_[1];
    const bool joined = columns.dilation == 1 && (columns.stride == 1 || is_plain_);
    offsets_.clear();
    MINNOW_RETURN_IF_ERROR(kept_.keep(Shape{rows.kernel * columns.kernel, pixel_ / kByteRowDepth + 1, 8}.count()));
    line_ = joined ? columns.kernel * pixel_ : pixel_;
    const int64_t lines = joined ? 1 : columns.kernel;
    for (int64_t ky = 0; ky < rows.kernel; ++ky) {
      for (int64_t kx = 0; kx < lines; ++kx) {
        const int64_t y = ky * rows.dilation, x = kx * columns.dilation;
        const int64_t phase = y % rows.stride * columns.used + x % columns.stride;
        const int64_t row = phase * rows.rows + y / rows.stride;
        for (int64_t at = 0; at < line_; at += kByteRowDepth)
          offsets_.push_back((row * columns.rows + x / columns.stride) * pixel_ + at);
      }
    }
    // Where tiles are taken from: all images, one, or a row of results.
    width_ = is_direct_  ? images_ * rows.out * columns.out
             : is_plain_ ? columns.out
                         : (rows.out - 1) * columns.rows + columns.out;
    lines_ = is_direct_ ? 1 : is_plain_ ? images_ * rows.out : images_;
    pieces_ = lines_ * ceil_div(width_, kByteRowsAtOnce);
    return ok();
  }

  int64_t steps() const { return static_cast<int64_t>(offsets_.size()); }
  int64_t row_bytes() const { return axis_[1].rows * pixel_; }
  int64_t plane_bytes() const { return axis_[0].rows * row_bytes(); }  // of a phase
  int64_t image_bytes() const {
    if (is_direct_) return 0;
    const Axis &rows = axis_[0], &columns = axis_[1];
    const int64_t all = Shape{images_, rows.used, columns.used, rows.rows, columns.rows, pixel_}.count();
    const int64_t behind = kReadPixels * pixel_ * columns.stride + kReadBytes;
    return all > std::numeric_limits<int64_t>::max() / 2 ? all : all + behind;
  }
  int64_t fixed_bytes() const { return own_ / kByteRowColumns * static_cast<int64_t>(sizeof(FixedLanes)); }
  // The blocks, then the sum for each result.
  int64_t weights_bytes() const { return blocks_ * steps() * kByteRowStep + 4 * own_; }

  void pack(const Tensor& w, uint8_t* to) const {
    const int64_t taps = axis_[0].kernel * axis_[1].kernel, lines = taps * pixel_ / line_;
    const int64_t of_line = steps() / lines;
    const int8_t* from = w.as<int8_t>();
    int32_t* sums = reinterpret_cast<int32_t*>(to + blocks_ * steps() * kByteRowStep);
    std::memset(to, 0, static_cast<size_t>(weights_bytes()));
    LongLoop loop;
    for (int64_t o = 0; o < outs_; ++o) {
      uint8_t* block = to + o / kByteRowColumns * steps() * kByteRowStep + o % kByteRowColumns * 4;
      for (int64_t k = 0; k < taps && loop.goes_on(8 + channels_ / 4); ++k) {
        const int64_t first = k * pixel_ % line_, line = k * pixel_ / line_;
        for (int64_t c = 0; c < channels_; ++c) {
          const int64_t at = first + c, byte = at % kByteRowDepth;
          const int8_t v = from[(o * channels_ + c) * taps + k];
          uint8_t* step = block + (line * of_line + at / kByteRowDepth) * kByteRowStep;
          step[byte / 4 * 4 * kByteRowColumns + byte % 4] = static_cast<uint8_t>(v);
          sums[o] += v;
        }
      }
    }
  }

  // A row of all phases along x, with its padding.
  void fill_row(const Tensor& x, int64_t i, uint8_t padding, uint8_t* image) const {
    const Axis &rows = axis_[0], &columns = axis_[1];
    const int64_t row = i % rows.rows, phase = i / rows.rows % rows.used, n = i / rows.rows / rows.used;
    const int64_t y = row * rows.stride + phase - rows.begin;
    for (int64_t p = 0; p < columns.used; ++p) {
      uint8_t* to = image + ((n * rows.used + phase) * columns.used + p) * plane_bytes() + row * row_bytes();
      const int64_t step = is_plain_ ? 1 : columns.stride;
      // Column `at` of the row is pixel at * step + p - begin of the image.
      const int64_t first = std::clamp<int64_t>(ceil_div_any(columns.begin - p, step), 0, columns.rows);
      int64_t last = std::clamp<int64_t>(ceil_div_any(columns.in + columns.begin - p, step), first, columns.rows);
      if (y < 0 || y >= rows.in) last = first;
      std::memset(to, padding, static_cast<size_t>(first * pixel_));
      std::memset(to + last * pixel_, padding, static_cast<size_t>((columns.rows - last) * pixel_));
      if (first == last) continue;
      const int64_t pixel = first * step + p - columns.begin;
      if (is_plain_) {
        fill_few(x, n, y * columns.in + pixel, last - first, to + first * pixel_);
        continue;
      }
      const uint8_t* from = x.as<uint8_t>() + ((n * rows.in + y) * columns.in + pixel) * pixel_;
      if (step == 1) {
        std::memcpy(to + first * pixel_, from, static_cast<size_t>((last - first) * pixel_));
        continue;
      }
      for (int64_t at = first; at < last; ++at, from += step * pixel_)
        std::memcpy(to + at * pixel_, from, static_cast<size_t>(pixel_));
    }
  }

  static int64_t ceil_div_any(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }

  // Some pixels of planes as pixels of four.
  void fill_few(const Tensor& x, int64_t n, int64_t pixel, int64_t count, uint8_t* to) const {
    const int64_t plane = axis_[0].in * axis_[1].in, whole = count / kByteLanes * kByteLanes;
    const uint8_t* from = x.as<uint8_t>() + n * channels_ * plane + pixel;
    byte_unit()->panel_of_planes(from, plane, channels_, whole, 0, whole, reinterpret_cast<uint32_t*>(to));
    if (whole == count) return;
    alignas(64) uint32_t rest[kByteLanes];
    byte_unit()->panel_of_planes(from + whole, plane, channels_, count - whole, 0, kByteLanes, rest);
    std::memcpy(to + whole * kLastFewChannels, rest, static_cast<size_t>((count - whole) * kLastFewChannels));
  }

  // Tasks are a part of the pieces, of 32 results each, and a share of the pairs of blocks.
  void cut() {
    const int64_t pairs = ceil_div(blocks_, kByteRowBlocks);
    const int64_t most = std::max<int64_t>(1, kLastPartBytes / (kByteRowsAtOnce * pixel_));
    const auto cycles = [&](int64_t parts, int64_t shares) {
      const double pieces = static_cast<double>(ceil_div(pieces_, parts)),
                   own = static_cast<double>(ceil_div(pairs, shares));
      const double s = static_cast<double>(steps()), bytes = static_cast<double>(kByteRowBlocks * kByteRowStep);
      return pieces * own * (s * kLastStepCycles + kLastResultCycles) +
             (own + pieces / 2) * s * bytes * kLastByteCycles + kLastTaskCycles;
    };
    part_ = std::min(most, pieces_);
    parts_ = ceil_div(pieces_, part_);
    shares_ = 1;
    share_ = pairs;
    if (threads_ == 1 || cycles(1, 1) < kLastSerialCycles) return;
    double least = std::numeric_limits<double>::infinity();
    int64_t best_parts = parts_, best_shares = 1;
    for (int64_t parts = parts_; parts <= std::min(pieces_, 8 * threads_ + parts_); ++parts) {
      if (ceil_div(pieces_, ceil_div(pieces_, parts)) != parts) continue;
      for (int64_t shares = 1; shares <= std::min(pairs, 4 * int64_t{threads_}); ++shares) {
        const double rounds = static_cast<double>(ceil_div(parts * shares, threads_));
        const double all = cycles(parts, shares) * (rounds + 0.5);
        if (all >= least) continue;
        least = all;
        best_parts = parts;
        best_shares = shares;
      }
    }
    part_ = ceil_div(pieces_, best_parts);
    parts_ = ceil_div(pieces_, part_);
    share_ = ceil_div(pairs, best_shares);
    shares_ = ceil_div(pairs, share_);
  }

  void run_task(BytePixels t, int64_t task, const uint8_t* from, const uint8_t* weights, const int32_t* start,
                const float* scale, Worker& worker) const {
    uint8_t* y = t.bytes;
    const FixedLanes* fixed = t.fixed;
    const int64_t block_bytes = steps() * kByteRowStep;
    const int64_t first = task / shares_ * part_, last = std::min(first + part_, pieces_);
    const int64_t share = task % shares_ * share_ * kByteRowBlocks;
    const int64_t limit = std::min(share + share_ * kByteRowBlocks, blocks_);
    t.offset = offsets_.data();
    const auto multiply = [&](int64_t block) {
      t.blocks = std::min(kByteRowBlocks, limit - block);
      t.weights = weights + block * block_bytes;
      t.start = start + block * kByteRowColumns;
      t.scale = scale + block * kByteRowColumns;
      if (fixed != nullptr) t.fixed = fixed + block;
      t.bytes = y + block * kByteRowColumns;
      worker.use.multiply(t, worker.space);
    };
    if (by_pieces_) {
      for (int64_t i = first; i < last && worker.loop.goes_on(4 * steps() * (limit - share)); ++i) {
        take_piece(i, from, t, worker.places[++worker.turn % 2]);
        for (int64_t block = share; block < limit; block += kByteRowBlocks) multiply(block);
      }
      return;
    }
    for (int64_t block = share; block < limit; block += kByteRowBlocks) {
      // The next weights, a part of them beside each piece.
      const int64_t next = std::clamp<int64_t>(limit - block - kByteRowBlocks, 0, kByteRowBlocks) * block_bytes;
      for (int64_t i = first; i < last && worker.loop.goes_on(8 * steps()); ++i) {
        take_piece(i, from, t, worker.places[++worker.turn % 2]);
        const int64_t done = next * (i - first) / (last - first);
        t.soon = weights + (block + kByteRowBlocks) * block_bytes + done;
        t.soon_bytes = next * (i - first + 1) / (last - first) - done;
        multiply(block);
      }
    }
  }

  // The rows of a piece, and where their results belong.
  void take_piece(int64_t i, const uint8_t* from, BytePixels& t, int64_t* place) const {
    const Axis &rows = axis_[0], &columns = axis_[1];
    const int64_t per_line = ceil_div(width_, kByteRowsAtOnce), line = i / per_line,
                  at = i % per_line * kByteRowsAtOnce;
    const int64_t image = rows.used * columns.used * plane_bytes();
    t.rows = std::min(kByteRowsAtOnce, width_ - at);
    t.place = place;
    if (is_direct_ || is_plain_) {
      for (int64_t r = 0; r < t.rows; ++r) place[r] = (line * width_ + at + r) * own_;
      t.from = from + (is_direct_ ? 0 : line / rows.out * image + line % rows.out * row_bytes()) + at * t.row;
      return;
    }
    t.from = from + line * image + at * pixel_;
    int64_t y = at / columns.rows, x = at % columns.rows;
    for (int64_t r = 0; r < t.rows; ++r) {
      place[r] = x < columns.out ? ((line * rows.out + y) * columns.out + x) * own_ : -1;
      if (++x == columns.rows) ++y, x = 0;
    }
  }

  const Attrs* attrs_ = nullptr;
  Axis axis_[2];
  int64_t images_ = 0, channels_ = 0, outs_ = 0, own_ = 0, macs_ = 0;
  int64_t pixel_ = 0;  // bytes of a pixel of the image that is read
  int64_t line_ = 0;   // bytes of taps that follow each other
  int64_t width_ = 0, lines_ = 0, pieces_ = 0, blocks_ = 0;
  int64_t part_ = 1, parts_ = 1, share_ = 1, shares_ = 1;  // pieces of a part, pairs of blocks of a share
  bool by_pieces_ = false;  // all weights of a share for a piece, which stays in the first cache
  bool is_plain_ = false, is_direct_ = false, is_empty_ = false;
  std::vector<int64_t> offsets_;  // of the steps
  KeptMemory kept_;
  Packed weights_;
  int threads_ = 1;
};

}  // namespace

void prepare_ends(const Requantization& quantized, const int32_t* sums, uint32_t zero, int64_t depth, int64_t count,
                  int64_t padded, const ChannelEnds& to) {
  const bool is_fixed = quantized.multiplier != nullptr;
  for (int64_t b = 0; is_fixed && b < padded / kByteRowColumns; ++b) to.fixed[b].clear();
  for (int64_t o = 0; o < padded; ++o) {
    const bool is_there = o < count;
    const uint32_t bias =
        quantized.bias == nullptr || !is_there ? 0u : static_cast<uint32_t>(quantized.bias[o * quantized.bias_step]);
    to.start[o] = static_cast<int32_t>(bias - zero * static_cast<uint32_t>(sums[o]));
    const int64_t factor = o * quantized.factor_step;
    if (!is_fixed) to.scale[o] = is_there ? quantized.scale[factor] : 0.0f;
    if (!is_fixed || !is_there) continue;
    const int64_t limit = std::abs(int64_t{to.start[o]}) + depth * kMostProductOfBytes;
    to.fixed[o / kByteRowColumns].set(o % kByteRowColumns, quantized.multiplier[factor], quantized.shift[factor],
                                      limit);
  }
}

LayoutRule layout_of_quantized_conv(const std::vector<const TensorType*>& in) {
  const ByteUnit* unit = byte_unit();
  if (unit == nullptr || unit->multiply_pixels == nullptr || in.size() < 6 || in[0] == nullptr || in[1] == nullptr ||
      in[5] == nullptr)
    return LayoutRule::kPlain;
  const Shape &x = in[0]->shape, &w = in[1]->shape;
  const bool fits = x.rank() == 4 && w.rank() == 4 && x.count() > 0 && w.count() > 0 &&
                    w[2] * w[3] <= kMostTapsOfLast && std::max(x[1], w[0]) <= kLastChannels &&
                    in[1]->dtype == DType::kI8 && in[3] == nullptr &&
                    (in[5]->dtype == DType::kF32 || in[5]->dtype == DType::kI32);
  if (!fits) return LayoutRule::kPlain;
  if (x[1] > 1 && w[1] == 1 && w[0] == x[1])
    return w[2] * w[3] <= kMostTapsOfOne ? LayoutRule::kLast : LayoutRule::kPlain;
  if (w[1] != x[1]) return LayoutRule::kPlain;
  return x[1] <= kLastFewChannels ? LayoutRule::kMakesLast : LayoutRule::kLast;
}

std::unique_ptr<Kernel> create_conv_last() {
  if (byte_unit()->tiles == ByteTiles::kNone) return create_conv_last_dot();
  return std::make_unique<ConvLast>();
}

}  // namespace minnow
#else
namespace minnow {

LayoutRule layout_of_quantized_conv(const std::vector<const TensorType*>&) { return LayoutRule::kPlain; }
std::unique_ptr<Kernel> create_conv_last() { return nullptr; }

}  // namespace minnow
#endif
