// Convolution by tiles of bf16 that take pixels of 32 channels as the layer before left them, in Layout::kLast. A 1 x 1
// convolution reads the image itself; others a copy with its padding, in which all windows step by one pixel: a stride
// takes every so manyth pixel, so the image is cut into as many phases along each axis, and what a tap sees is a phase,
// shifted. Rows of a phase follow each other without a gap, and so do tiles; some results between rows are not wanted.
// Of an image of a few channels, in planes of f32, the copy has pixels of four numbers, and a step takes some taps that
// follow each other in a row: rows of a tile may lie over each other.
#include "kernels/cpu/conv/bf16_last.h"
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
#include "kernels/cpu/gemm/activation.h"
#include "kernels/cpu/gemm/bf16_micro_kernel.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

constexpr int64_t kHalfTaps = 128, kHalfChannels = 1 << 15;
constexpr int64_t kHalfPieceBytes = 32 << 10;  // of what the taps of a piece look at, which stays in the first cache
constexpr int64_t kHalfPartBytes = 512 << 10;  // of an image at a time, which stay in the second-level cache
constexpr int64_t kHalfTasks = 4;              // for each thread
constexpr int64_t kHalfOverlap = 6;            // rows of a part for each one that another thread copies too
constexpr int64_t kHalfSerialMacs = 20000;     // fewer are not worth waking a thread
constexpr int64_t kTileFloats = kBf16Pixels * kBf16Blocks * kBf16Columns;
constexpr size_t kAdded = 3;  // the input that is added to the result

class ConvHalf final : public Kernel {
 public:
  explicit ConvHalf(bool spreads) : spreads_(spreads) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Shape &x = node.in[0]->shape, &w = node.in[1]->shape, &y = node.out[0]->shape;
    Window window;
    MINNOW_RETURN_IF_ERROR(read_window(node.attrs, x, {w[2], w[3]}, &window));
    MINNOW_RETURN_IF_ERROR(read_activation(node.attrs, &activation_));
    images_ = x[0];
    channels_ = x[1];
    outs_ = y[1];
    own_ = half_channels(outs_);
    is_plain_ = node.in[0]->layout == Layout::kPlain;
    pixel_ = 2 * (is_plain_ ? kBf16PlanesAtOnce : half_channels(channels_));
    from_ = is_plain_ ? 0 : 2 * half_pixel(*node.in[0]);
    to_ = half_pixel(*node.out[0]);
    if (node.in.size() > kAdded && node.in[kAdded] != nullptr && half_pixel(*node.in[kAdded]) != to_)
      return fail(Code::kUnsupported, "what is added lies otherwise than the results");
    threads_ = std::max(1, node.threads);
    macs_ = spreads_ ? Shape{y.count(), channels_}.count() : Shape{y.count(), channels_, w[2], w[3]}.count();
    is_direct_ = spreads_ || (!is_plain_ && w[2] == 1 && w[3] == 1);
    for (size_t i = 0; i < 2; ++i) {
      Axis& a = axis_[i];
      const int64_t in = x[static_cast<int>(i) + 2], out = y[static_cast<int>(i) + 2];
      a = {in, out, window.kernel[i], window.stride[i], window.dilation[i], window.begin[i]};
      if (spreads_) {
        if (a.kernel != a.stride || a.dilation != 1 || a.begin != 0 || a.out != a.in * a.stride)
          return fail(Code::kUnsupported, "results of a transposed convolution overlap");
        a = {in, in, 1, 1, 1, 0};
        spread_[i] = window.stride[i];
      }
      is_direct_ = is_direct_ && a.stride == 1 && a.begin == 0 && a.in == a.out;
    }
    is_empty_ = y.count() == 0;
    *workspace = 0;
    if (is_empty_) return ok();
    blocks_ = own_ / kBf16Columns * spread_[0] * spread_[1];
    MINNOW_RETURN_IF_ERROR(lay_out());
    const auto fill = [&](void* to) { pack(node.constant[1]->as<float>(), static_cast<uint16_t*>(to)); };
    if (node.constant[1] != nullptr)
      weights_.make(node, {1},
                    is_plain_  ? "bf16_planes"
                    : spreads_ ? "bf16_spread"
                               : "bf16_last",
                    weights_bytes(), fill);
    else
      weights_.clear();
    *workspace = round_up(image_bytes(), 64) + 4 * own_ + (weights_.empty() ? weights_bytes() : 0);
    return ok();
  }

  void run(const RunContext& context) override {
    if (is_empty_) return;
    char* image = static_cast<char*>(context.workspace);
    float* bias = reinterpret_cast<float*>(image + round_up(image_bytes(), 64));
    const char* weights = weights_.as<char>();
    if (weights_.empty()) {
      weights = reinterpret_cast<char*>(bias + own_);
      pack(context.in[1]->as<float>(), reinterpret_cast<uint16_t*>(bias + own_));
    }
    std::memset(bias, 0, static_cast<size_t>(4 * own_));
    if (context.in.size() > 2 && context.in[2] != nullptr)
      std::memcpy(bias, context.in[2]->data, static_cast<size_t>(4 * outs_));
    const Tensor& x = *context.in[0];
    if (!is_direct_ && !by_parts_) {
      const auto lines = [&](int64_t begin, int64_t end, int) {
        LongLoop loop;
        for (int64_t i = begin; i < end && loop.goes_on(16 + row_bytes() / 64); ++i)
          is_plain_ ? fill_few(x.as<float>(), i, image) : fill_row(x.as<char>(), i, image);
      };
      const int64_t count = images_ * axis_[0].used * axis_[0].rows;
      context.pool->parallel_for(count, 1 + 32768 / (axis_[1].used * row_bytes()), lines);
    }
    Call call = {is_direct_ ? x.as<char>() : image, weights, bias, nullptr, context.out[0]->as<uint16_t>()};
    if (context.in.size() > kAdded && context.in[kAdded] != nullptr) call.residual = context.in[kAdded]->as<uint16_t>();
    const int64_t tasks = parts_ * shares_;
    context.pool->parallel_for(tasks, macs_ < kHalfSerialMacs ? tasks : 1, [&](int64_t begin, int64_t end, int thread) {
      Worker worker;
      Call part = call;
      if (by_parts_) part.from = image + thread * part_bytes();
      bf16_unit()->begin(depth_);
      for (int64_t i = begin; i < end; ++i) {
        if (by_parts_) fill_part(x.as<char>(), i, image + thread * part_bytes());
        run_task(part, i, worker);
      }
      store(worker);
      bf16_unit()->end();
    });
  }

  bool reads(int i) const override { return i != 1 || weights_.empty(); }
  [[gnu::cold]] Profile profile() const override {
    return {std::string(is_direct_  ? "gemm_last_"
                        : is_plain_ ? "few_last_"
                                    : "direct_last_") +
                bf16_unit()->name,
            macs_};
  }

 private:
  struct Axis {
    int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, begin = 0;
    int64_t used = 1, rows = 1;  // phases that some tap looks at, and pixels of one along the axis
  };
  struct Call {
    const char *from, *weights;
    const float* bias;
    const uint16_t* residual;  // or null
    uint16_t* y;
  };
  // A tile's results are stored while the next one is multiplied: sums and places of two take turns.
  struct Worker {
    alignas(64) float sums[2][kTileFloats];
    int64_t place[2][kBf16Pixels];
    int turn = 0, place_turn = 0;
    bool has_sums = false;
    int64_t before = 0;  // bytes of the images that lie before what is held of them
    Bf16Pixels last;     // what is to be stored, where there is something
    LongLoop loop;
  };

  [[gnu::cold]] Status lay_out() {
    for (Axis& a : axis_) {
      const int64_t reach = (a.kernel - 1) * a.dilation + 1;
      a.used = is_plain_ ? 1 : std::min(a.stride, reach);
      a.rows = is_plain_ ? (a.out - 1) * a.stride + reach : a.out + (reach - 1) / a.stride;
    }
    const Axis &rows = axis_[0], &columns = axis_[1];
    const int64_t all = Shape{images_, rows.used, columns.used, rows.rows, columns.rows, pixel_}.count();
    if (all > std::numeric_limits<int64_t>::max() / 8 / threads_)
      return fail(Code::kUnsupported, "the image is too large");
    // Taps of a row that are taken in one step, where channels are few: all of them or a part, so that none is read
    // that is not in the window.
    int64_t together = 1;
    for (int64_t n = 1; is_plain_ && columns.dilation == 1 && n * kBf16PlanesAtOnce <= kBf16Depth; ++n)
      if (columns.kernel % n == 0) together = n;
    depth_ = is_plain_ ? together * kBf16PlanesAtOnce : kBf16Depth;
    MINNOW_RETURN_IF_ERROR(kept_.keep(Shape{rows.kernel * columns.kernel, ceil_div(pixel_, kStepBytes), 8}.count()));
    steps_ = rows.kernel * columns.kernel * (is_plain_ ? 1 : ceil_div(pixel_, kStepBytes)) / together;
    // Where tiles are taken from: all images, or one, or a row of results.
    lines_ = is_direct_ ? 1 : is_plain_ ? images_ * rows.out : images_;
    width_ = is_direct_  ? images_ * rows.out * columns.out
             : is_plain_ ? columns.out
                         : (rows.out - 1) * columns.rows + columns.out;
    cut();
    offsets_.clear();
    for (int64_t ky = 0; ky < rows.kernel; ++ky)
      for (int64_t kx = 0; kx < columns.kernel; kx += together) {
        const int64_t y = ky * rows.dilation, x = kx * columns.dilation;
        if (is_plain_) {
          offsets_.push_back((y * columns.rows + x) * pixel_);
          continue;
        }
        const int64_t phase = y % rows.stride * columns.used + x % columns.stride;
        const int64_t row = phase * held_ + y / rows.stride;
        for (int64_t at = 0; at < pixel_; at += kStepBytes)
          offsets_.push_back((row * columns.rows + x / columns.stride) * pixel_ + at);
      }
    return ok();
  }

  static constexpr int64_t kStepBytes = 2 * kBf16Depth;  // of a pixel

  int64_t row_bytes() const { return axis_[1].rows * pixel_; }
  int64_t plane_bytes() const { return held_ * row_bytes(); }  // of a phase
  // What a thread holds of the images: those of a part, or all.
  int64_t part_bytes() const {
    const int64_t images = by_parts_ ? ceil_div(part_, line_pieces()) : images_;
    const int64_t behind = kReadPixels * (is_plain_ ? axis_[1].stride : 1) * pixel_ + kReadBytes;
    return round_up(images * axis_[0].used * axis_[1].used * plane_bytes() + behind, 64);
  }
  int64_t image_bytes() const { return is_direct_ ? 0 : (by_parts_ ? threads_ : 1) * part_bytes(); }
  int64_t line_pieces() const { return ceil_div(width_, kBf16Pixels); }
  int64_t block_bytes() const { return steps_ * kBf16StepBytes; }
  int64_t weights_bytes() const { return blocks_ * block_bytes(); }

  // [output block][kh][kw][32 input channels][pairs of channels][output channel][2]; of few channels, those of some
  // taps in place of the 32
  [[gnu::cold]] void pack(const float* w, uint16_t* to) const {
    const int64_t taps = axis_[0].kernel * axis_[1].kernel, places = spread_[0] * spread_[1];
    const int64_t of_tap = is_plain_ ? kBf16PlanesAtOnce : pixel_ / 2;
    LongLoop loop;
    for (int64_t o = 0; o < own_ * places; o += kBf16Columns)
      for (int64_t step = 0; step < steps_ && loop.goes_on(kBf16Depth * kBf16Columns); ++step)
        for (int64_t pair = 0; pair < kBf16Depth / 2; ++pair, to += 2 * kBf16Columns) {
          alignas(64) float numbers[2 * kBf16Columns];
          for (int64_t i = 0; i < 2 * kBf16Columns; ++i) {
            const int64_t k = 2 * pair + i % 2, at = step * depth_ + k;
            const int64_t out = (o + i / 2) % own_, in = at % of_tap, tap = at / of_tap;
            const int64_t from =
                spreads_ ? (in * outs_ + out) * places + (o + i / 2) / own_ : (out * channels_ + in) * taps + tap;
            numbers[i] = k < depth_ && out < outs_ && in < channels_ ? w[from] : 0.0f;
          }
          bf16_round_row(numbers, 2 * kBf16Columns, 2 * kBf16Columns, to, nullptr, 0);
        }
  }

  // A row of all phases along x, with its padding.
  void fill_row(const char* x, int64_t i, char* image) const {
    const Axis& rows = axis_[0];
    const int64_t row = i % rows.rows, plane = i / rows.rows;
    fill_phases(x, plane / rows.used, plane % rows.used, row,
                image + plane * axis_[1].used * plane_bytes() + row * row_bytes());
  }
  void fill_phases(const char* x, int64_t n, int64_t phase, int64_t row, char* image) const {
    const Axis &rows = axis_[0], &columns = axis_[1];
    const int64_t y = row * rows.stride + phase - rows.begin, step = columns.stride;
    for (int64_t p = 0; p < columns.used; ++p) {
      char* to = image + p * plane_bytes();
      // Column `at` of the row is pixel at * step + p - begin of the image.
      const int64_t first = std::clamp<int64_t>(ceil_div_any(columns.begin - p, step), 0, columns.rows);
      int64_t last = std::clamp<int64_t>(ceil_div_any(columns.in + columns.begin - p, step), first, columns.rows);
      if (y < 0 || y >= rows.in) last = first;
      std::memset(to, 0, static_cast<size_t>(first * pixel_));
      std::memset(to + last * pixel_, 0, static_cast<size_t>((columns.rows - last) * pixel_));
      if (first == last) continue;
      const char* from = x + ((n * rows.in + y) * columns.in + first * step + p - columns.begin) * from_;
      const int64_t together = step == 1 && from_ == pixel_ ? last - first : 1;
      for (int64_t at = first; at < last; at += together, from += step * from_)
        std::memcpy(to + at * pixel_, from, static_cast<size_t>(together * pixel_));
    }
  }

  // A row of an image in planes, with its padding.
  void fill_few(const float* x, int64_t i, char* image) const {
    const Axis &rows = axis_[0], &columns = axis_[1];
    const int64_t n = i / rows.rows, y = i % rows.rows - rows.begin, plane = rows.in * columns.in;
    char* to = image + i * row_bytes();
    const int64_t first = std::clamp<int64_t>(columns.begin, 0, columns.rows);
    int64_t last = std::clamp<int64_t>(columns.in + columns.begin, first, columns.rows);
    if (y < 0 || y >= rows.in) last = first;
    std::memset(to, 0, static_cast<size_t>(first * pixel_));
    std::memset(to + last * pixel_, 0, static_cast<size_t>((columns.rows - last) * pixel_));
    const float* from = x + n * channels_ * plane + y * columns.in + first - columns.begin;
    bf16_join_planes(from, plane, channels_, last - first, reinterpret_cast<uint16_t*>(to + first * pixel_));
  }

  static int64_t ceil_div_any(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }

  // Tasks are a part of the pieces, of 32 results each, and a share of the pairs of blocks. A part is of one line, or
  // of whole ones.
  [[gnu::cold]] void cut() {
    const Axis& rows = axis_[0];
    const int64_t pairs = ceil_div(blocks_, kBf16Blocks), per_line = line_pieces();
    pieces_ = lines_ * per_line;
    part_ = std::min(std::max<int64_t>(1, kHalfPartBytes / (kBf16Pixels * pixel_)), pieces_);
    if (threads_ > 1) part_ = std::min(part_, std::max<int64_t>(1, pieces_ / (kHalfTasks * threads_)));
    line_parts_ = ceil_div(per_line, part_);
    part_ = line_parts_ > 1 ? ceil_div(per_line, line_parts_) : part_ / per_line * per_line;
    line_parts_ = ceil_div(per_line, part_);
    parts_ = line_parts_ > 1 ? lines_ * line_parts_ : ceil_div(pieces_, part_);
    shares_ = threads_ == 1 ? 1 : std::min(pairs, ceil_div(kHalfTasks * threads_, parts_));
    share_ = ceil_div(pairs, shares_);
    shares_ = ceil_div(pairs, share_);
    const int64_t piece = (rows.kernel - 1) * row_bytes() + kBf16Pixels * pixel_;
    by_pieces_ = is_plain_ || (share_ * kBf16Blocks * block_bytes() <= kHalfPartBytes && piece <= kHalfPieceBytes);
    // Copies that are read by one thread are made by it, just before, so that they never leave its caches; not where
    // threads would copy many rows twice.
    const int64_t twice = rows.rows - rows.out, part_rows = part_ * kBf16Pixels / axis_[1].rows;
    const bool few_twice = threads_ == 1 || line_parts_ == 1 || kHalfOverlap * twice <= part_rows;
    by_parts_ = !is_direct_ && !is_plain_ && shares_ == 1 && few_twice;
    held_ = rows.rows;
    if (by_parts_ && line_parts_ > 1)
      held_ = std::min(held_, ceil_div(part_ * kBf16Pixels, axis_[1].rows) + 1 + rows.rows - rows.out);
  }

  int64_t first_piece(int64_t part) const {
    return line_parts_ > 1 ? part / line_parts_ * line_pieces() + part % line_parts_ * part_ : part * part_;
  }
  int64_t end_piece(int64_t part) const {
    const int64_t limit = line_parts_ > 1 ? (part / line_parts_ + 1) * line_pieces() : pieces_;
    return std::min(first_piece(part) + part_, limit);
  }
  // The first row of a part that begins within an image.
  int64_t first_row(int64_t part) const {
    return line_parts_ > 1 ? part % line_parts_ * part_ * kBf16Pixels / axis_[1].rows : 0;
  }

  // The rows of all phases that a part looks at.
  void fill_part(const char* x, int64_t part, char* image) const {
    const Axis& rows = axis_[0];
    const int64_t per_line = line_pieces(), first = first_piece(part), end = end_piece(part);
    const int64_t from = first_row(part), limit = std::min(rows.rows, from + held_);
    for (int64_t n = first / per_line; n < ceil_div(end, per_line); ++n)
      for (int64_t phase = 0; phase < rows.used; ++phase) {
        char* to = image + ((n - first / per_line) * rows.used + phase) * axis_[1].used * plane_bytes();
        for (int64_t row = from; row < limit; ++row, to += row_bytes()) fill_phases(x, n, phase, row, to);
      }
  }

  void run_task(const Call& call, int64_t task, Worker& worker) const {
    const int64_t part = task / shares_, first = first_piece(part), last = end_piece(part);
    if (by_parts_)
      worker.before =
          first / line_pieces() * axis_[0].used * axis_[1].used * plane_bytes() + first_row(part) * row_bytes();
    const int64_t share = task % shares_ * share_ * kBf16Blocks;
    const int64_t limit = std::min(share + share_ * kBf16Blocks, blocks_);
    Bf16Tile t;
    t.in_pixel = is_plain_ ? axis_[1].stride * pixel_ : is_direct_ ? from_ : pixel_;
    t.w_block = block_bytes();
    t.inner = steps_;
    t.in_inner = kStepBytes;
    t.offset = offsets_.data();
    t.depth = depth_;
    if (by_pieces_) {
      for (int64_t i = first; i < last && worker.loop.goes_on(2 * steps_ * (limit - share)); ++i) {
        take_piece(i, call, t, worker);
        for (int64_t block = share; block < limit; block += kBf16Blocks) multiply(call, block, limit, t, worker);
      }
      return;
    }
    for (int64_t block = share; block < limit; block += kBf16Blocks) {
      // The next weights, a part of them beside each piece.
      const int64_t next = std::clamp<int64_t>(limit - block - kBf16Blocks, 0, kBf16Blocks) * block_bytes();
      for (int64_t i = first; i < last && worker.loop.goes_on(4 * steps_); ++i) {
        take_piece(i, call, t, worker);
        t.bring(call.weights + (block + kBf16Blocks) * block_bytes(), next, i - first, last - first);
        multiply(call, block, limit, t, worker);
      }
    }
  }

  void multiply(const Call& call, int64_t block, int64_t limit, Bf16Tile& t, Worker& worker) const {
    const int64_t column = block * kBf16Columns % own_, place = block * kBf16Columns / own_;
    const int64_t to = place_of(place / spread_[1], place % spread_[1]) + column;
    const int64_t* places = worker.place[worker.place_turn];
    t.blocks = static_cast<int>(std::min(kBf16Blocks, limit - block));
    t.w = call.weights + block * block_bytes();
    t.sums = worker.sums[worker.turn];
    worker.turn ^= 1;
    // What is written to, and added, may be far away by now.
    for (int64_t r = 0; r < t.pixels; ++r) {
      if (places[r] < 0) continue;
      __builtin_prefetch(call.y + to + places[r], 1);
      if (call.residual != nullptr) __builtin_prefetch(call.residual + to + places[r]);
    }
    bf16_unit()->multiply(t);
    store(worker);
    worker.has_sums = true;
    worker.last = {t.sums,      t.pixels,           t.blocks,
                   places,      call.bias + column, call.residual == nullptr ? nullptr : call.residual + to,
                   call.y + to, activation_.low,    activation_.high};
  }

  void store(Worker& worker) const {
    if (!worker.has_sums) return;
    worker.has_sums = false;
    Bf16Pixels& result = worker.last;
    if (!activation_.is_clamp()) {
      bf16_add_to_sums(result);
      activate(activation_, result.sums, result.pixels * kBf16Blocks * kBf16Columns);
      result.bias = nullptr;
      result.residual = nullptr;
    }
    bf16_store_pixels(result);
  }

  // The pixels of a piece, and where their results belong.
  void take_piece(int64_t i, const Call& call, Bf16Tile& t, Worker& worker) const {
    worker.place_turn ^= 1;
    int64_t* place = worker.place[worker.place_turn];
    const Axis &rows = axis_[0], &columns = axis_[1];
    const int64_t per_line = ceil_div(width_, kBf16Pixels), line = i / per_line, at = i % per_line * kBf16Pixels;
    t.pixels = static_cast<int>(std::min(kBf16Pixels, width_ - at));
    if (is_plain_) {
      for (int64_t r = 0; r < t.pixels; ++r) place[r] = (line * columns.out + at + r) * to_;
      const int64_t row = line / rows.out * rows.rows + line % rows.out * rows.stride;
      t.in = call.from + (row * columns.rows + at * columns.stride) * pixel_;
      return;
    }
    if (is_direct_) {
      for (int64_t r = 0; r < t.pixels; ++r) {
        const int64_t line_of = (at + r) / columns.in;
        place[r] =
            spreads_ ? place_of(line_of * spread_[0], (at + r - line_of * columns.in) * spread_[1]) : (at + r) * to_;
      }
      t.in = call.from + at * from_;
      return;
    }
    t.in = call.from + line * rows.used * columns.used * plane_bytes() + at * pixel_ - worker.before;
    int64_t y = at / columns.rows, x = at % columns.rows;
    for (int64_t r = 0; r < t.pixels; ++r) {
      place[r] = x < columns.out ? ((line * rows.out + y) * columns.out + x) * to_ : -1;
      if (++x == columns.rows) ++y, x = 0;
    }
  }

  // Where a pixel of a transposed convolution's results is.
  int64_t place_of(int64_t row, int64_t column) const { return (row * axis_[1].in * spread_[1] + column) * to_; }

  Activation activation_;
  Axis axis_[2];
  int64_t images_ = 0, channels_ = 0, outs_ = 0, own_ = 0, macs_ = 0;
  int64_t pixel_ = 0;           // bytes of a pixel of the image that is read
  int64_t from_ = 0, to_ = 0;   // bytes from one of its pixels to the next; numbers between those of the result
  int64_t depth_ = kBf16Depth;  // numbers of a pixel, or of some taps, in a step
  int64_t steps_ = 0, width_ = 0, lines_ = 0, pieces_ = 0, blocks_ = 0;
  int64_t part_ = 1, parts_ = 1, share_ = 1, shares_ = 1;  // pieces of a part, pairs of blocks of a share
  int64_t line_parts_ = 1, held_ = 1;  // parts of a line, if there are some; rows of a phase that are held
  bool by_parts_ = false;              // a copy of what a part looks at, for each thread, in place of one of all images
  bool by_pieces_ = false;             // all weights of a share for a piece, which stays in the first cache
  const bool spreads_;                 // a transposed convolution: a pixel makes some pixels, and no other does
  int64_t spread_[2] = {1, 1};
  bool is_plain_ = false;  // few channels, in planes
  bool is_direct_ = false, is_empty_ = false;
  std::vector<int64_t> offsets_;  // of the steps
  KeptMemory kept_;
  Packed weights_;
  int threads_ = 1;
};

}  // namespace

LayoutRule layout_of_half_images(const std::vector<const TensorType*>& in, LayoutRule other) {
  if (!kHasLowPrecision || bf16_unit() == nullptr || in.size() < 2 || (in.size() > 4 && in[4] != nullptr)) return other;
  const Shape &x = in[0]->shape, &w = in[1]->shape;
  if (in[0]->dtype != DType::kF32 || x.rank() != 4 || x.count() == 0 || w.count() == 0) return other;
  if (is_half_depthwise(*in[0], *in[1])) return in.size() > kAdded && in[kAdded] != nullptr ? other : LayoutRule::kLast;
  if (w[1] != x[1] || w[2] * w[3] > kHalfTaps || std::max(x[1], w[0]) > kHalfChannels) return other;
  const bool few = x[1] <= kBf16PlanesAtOnce;
  return few && (in.size() < 4 || in[3] == nullptr) ? LayoutRule::kMakesLast : LayoutRule::kLast;
}

bool is_half_depthwise(const TensorType& image, const TensorType& weights) {
  return weights.shape.rank() == 4 && weights.shape[1] == 1 && weights.shape[0] == image.shape[1] && image.shape[1] > 1;
}

std::unique_ptr<Kernel> create_conv_half(bool transposed) { return std::make_unique<ConvHalf>(transposed); }

LayoutRule layout_of_half_deconv(const std::vector<const TensorType*>& in, LayoutRule other) {
  if (!kHasLowPrecision || bf16_unit() == nullptr || in.size() < 2 || in.size() > 4) return other;
  const Shape &x = in[0]->shape, &w = in[1]->shape;
  const bool fits = in[0]->dtype == DType::kF32 && x.rank() == 4 && x.count() > 0 && w.count() > 0 && w[0] == x[1] &&
                    w[2] * w[3] <= kHalfTaps && std::max(x[1], w[1]) <= kHalfChannels;
  return fits ? LayoutRule::kLast : other;
}

}  // namespace minnow
#else
namespace minnow {

LayoutRule layout_of_half_images(const std::vector<const TensorType*>&, LayoutRule other) { return other; }
LayoutRule layout_of_half_deconv(const std::vector<const TensorType*>&, LayoutRule other) { return other; }
bool is_half_depthwise(const TensorType&, const TensorType&) { return false; }
std::unique_ptr<Kernel> create_conv_half(bool) { return nullptr; }

}  // namespace minnow
#endif
