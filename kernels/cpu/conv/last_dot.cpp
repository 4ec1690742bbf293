// Quantized convolution of images with channels last by dot products of four bytes, for processors that have no tiles.
// The bytes that a result is made of are copied to one row each, for some pixels at a time (im2col); a 1 x 1
// convolution reads the image itself. Of an image of a few channels, which lies in planes, pixels are made before,
// without bytes in between.
#include "kernels/cpu/conv/last.h"
#include "kernels/cpu/machine/simd.h"

#if MINNOW_AVX512
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/core/interrupt.h"
#include "kernels/core/packed.h"
#include "kernels/core/rounding.h"
#include "kernels/core/window.h"
#include "kernels/cpu/gemm/byte_pixels.h"
#include "kernels/cpu/gemm/byte_product.h"
#include "kernels/cpu/gemm/integer.h"
#include "kernels/cpu/machine/packed_layout.h"
#include "kernels/cpu/quant/fixed_lanes.h"
#include "kernels/cpu/quant/requantize.h"

namespace minnow {
namespace {

constexpr int64_t kDotPanelBytes = 32 << 10;       // of the rows of a piece, which stay in the first-level cache
constexpr int64_t kDotAliased = 2048;              // rows so far apart would share few sets of the first-level cache
constexpr int64_t kDotStep = 4 * kByteRowColumns;  // bytes of weights for four bytes of a row, for each block
// Cycles: for results of a row and a block, for 64 bytes that are copied, and for a task.
constexpr double kDotResultCycles = 6, kDotCopyCycles = 3, kDotTaskCycles = 800, kDotSerialCycles = 6000;

// Writes up to 31 bytes more. Half vectors seldom lie in two lines of the cache where taps are short.
__attribute__((target("avx2"))) inline void copy_over(const uint8_t* from, int64_t bytes, uint8_t* to) {
  for (int64_t i = 0; i < bytes; i += 32)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i)));
}

class ConvLastDot final : public Kernel {
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
    blocks_ = own_ / kByteRowColumns;
    is_plain_ = node.in[0]->layout == Layout::kPlain;
    is_signed_ = node.in[0]->dtype == DType::kI8;
    pixel_ = is_plain_ ? channels_ : last_channels(channels_);
    used_ = is_plain_ ? channels_ : round_up(channels_, 4);
    threads_ = std::max(1, node.threads);
    macs_ = Shape{y.count(), channels_, w[2], w[3]}.count();
    *workspace = 0;
    is_empty_ = y.count() == 0;
    if (is_empty_) return ok();
    is_direct_ = !is_plain_ && !is_signed_ && w[2] == 1 && w[3] == 1 && pixel_ % kDotAliased != 0;
    for (size_t i = 0; i < 2; ++i) {
      Axis& a = axis_[i];
      a = {x[static_cast<int>(i) + 2], y[static_cast<int>(i) + 2], window.kernel[i],
           window.stride[i],           window.dilation[i],         window.begin[i]};
      is_direct_ = is_direct_ && a.stride == 1 && a.begin == 0 && a.in == a.out;
    }
    is_joined_ = axis_[1].dilation == 1 && used_ == pixel_;
    const int64_t depth = round_up(Shape{w[2], w[3], used_}.count(), 4);
    steps_ = depth / 4;
    row_ = is_direct_ ? pixel_ : depth + (depth % 512 == 0 ? 64 : 0);
    if (Shape{images_, x[2], x[3], pixel_}.count() > std::numeric_limits<int64_t>::max() / 4)
      return fail(Code::kUnsupported, "the image is too large");
    pixels_ = images_ * y[2] * y[3];
    const auto fill = [&](void* to) { pack(*node.constant[1], static_cast<uint8_t*>(to)); };
    if (node.constant[1] != nullptr)
      weights_.make(node, {1}, "conv_last_dot", weights_bytes(), fill);
    else
      weights_.clear();
    cut();
    *workspace =
        image_bytes() + 8 * own_ + fixed_bytes() + threads_ * panel_bytes() + (weights_.empty() ? weights_bytes() : 0);
    return ok();
  }

  void run(const RunContext& context) override {
    if (is_empty_) return;
    uint8_t* image = static_cast<uint8_t*>(context.workspace);
    int32_t* start = reinterpret_cast<int32_t*>(image + image_bytes());
    float* scale = reinterpret_cast<float*>(start + own_);
    FixedLanes* fixed = reinterpret_cast<FixedLanes*>(scale + own_);
    uint8_t* panels = reinterpret_cast<uint8_t*>(fixed) + fixed_bytes();
    const uint8_t* weights = weights_.as<uint8_t>();
    if (weights_.empty()) {
      pack(*context.in[1], panels + threads_ * panel_bytes());
      weights = panels + threads_ * panel_bytes();
    }
    const Tensor &x = *context.in[0], *zeros = context.in[2];
    const int32_t zero = zeros == nullptr ? 0 : byte_at(*zeros, 0);
    const std::optional<Requantization> given = read_requantization(*attrs_, context, 4, false);
    if (!given) return;
    const Requantization& quantized = *given;
    // Signed bytes become unsigned ones, which are 128 more.
    const auto shifted = static_cast<uint32_t>(is_signed_ ? zero + 128 : zero);
    const int32_t* sums = reinterpret_cast<const int32_t*>(weights + blocks_ * steps_ * kDotStep);
    const bool is_fixed = quantized.multiplier != nullptr;
    prepare_ends(quantized, sums, shifted, 4 * steps_, outs_, own_, {start, scale, fixed});
    const bool serial = context.pool->threads() > threads_;
    if (is_plain_) {
      const auto lines = [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) fill_few(x, i, image);
      };
      const int64_t count = images_ * ceil_div(plane(), kFewAtOnce);
      serial ? lines(0, count, 0) : context.pool->parallel_for(count, 16, lines);
    }
    BytePixels all;
    all.row = row_;
    all.steps = steps_;
    all.gives_signed = quantized.to == DType::kI8;
    all.zero = quantized.zero;
    all.least = quantized.least;
    all.most = quantized.most;
    const uint8_t* from = is_plain_ ? image : x.as<uint8_t>();
    const auto range = [&](int64_t begin, int64_t end, int thread) {
      BytePixels t = all;
      BytePixelsSpace space;
      LongLoop loop;
      uint8_t* panel = panels + thread * panel_bytes();
      int64_t held = -1;  // the piece whose rows are in the panel
      for (int64_t i = begin; i < end; ++i) {
        const int64_t piece = i / shares_, first = piece * pixels_ / parts_, last = (piece + 1) * pixels_ / parts_;
        const int64_t share = i % shares_;
        if (!is_direct_ && held != piece) fill_rows(from, first, last, static_cast<uint8_t>(zero), panel, loop);
        held = piece;
        const uint8_t* rows = is_direct_ ? from + first * row_ : panel;
        const int64_t pairs = ceil_div(blocks_, kByteRowBlocks), limit = (share + 1) * pairs / shares_;
        for (int64_t pair = share * pairs / shares_; pair < limit; ++pair) {
          const int64_t block = pair * kByteRowBlocks;
          if (!loop.goes_on(steps_ * (last - first) / 8)) return;
          t.blocks = std::min(kByteRowBlocks, blocks_ - block);
          t.weights = weights + block * steps_ * kDotStep;
          t.start = start + block * kByteRowColumns;
          t.scale = scale + block * kByteRowColumns;
          if (is_fixed) t.fixed = fixed + block;
          multiply(t, rows, first, last - first, context.out[0]->as<uint8_t>() + block * kByteRowColumns, space);
        }
      }
    };
    serial ? range(0, parts_ * shares_, 0) : context.pool->parallel_for(parts_ * shares_, 1, range);
  }

  bool reads(int i) const override { return i != 1 || weights_.empty(); }
  [[gnu::cold]] Profile profile() const override { return {is_direct_ ? "gemm_last" : "direct_last", macs_}; }

 private:
  static constexpr int64_t kFewAtOnce = 512;  // pixels

  struct Axis {
    int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, begin = 0;
  };

  int64_t plane() const { return axis_[0].in * axis_[1].in; }
  // What is copied a vector at a time is read and written beyond its end.
  int64_t image_bytes() const { return is_plain_ ? round_up(images_ * plane() * pixel_, 64) + kReadBytes : 0; }
  int64_t panel_bytes() const {
    return is_direct_ ? 0 : round_up((ceil_div(pixels_, parts_) + kByteDotRows) * row_, 64) + kReadBytes;
  }
  int64_t fixed_bytes() const { return blocks_ * static_cast<int64_t>(sizeof(FixedLanes)); }
  // The blocks, then the sum for each result.
  int64_t weights_bytes() const { return blocks_ * steps_ * kDotStep + 4 * own_; }

  // Blocks by pairs: for each step, 16 columns of one and of the other.
  void pack(const Tensor& w, uint8_t* to) const {
    const int64_t taps = axis_[0].kernel * axis_[1].kernel;
    const int8_t* from = w.as<int8_t>();
    int32_t* sums = reinterpret_cast<int32_t*>(to + blocks_ * steps_ * kDotStep);
    std::memset(to, 0, static_cast<size_t>(weights_bytes()));
    LongLoop loop;
    for (int64_t o = 0; o < outs_; ++o) {
      const int64_t block = o / kByteRowColumns, first = block / kByteRowBlocks * kByteRowBlocks;
      const int64_t step = std::min(kByteRowBlocks, blocks_ - first) * kDotStep;
      uint8_t* column = to + first * steps_ * kDotStep + (block - first) * kDotStep + o % kByteRowColumns * 4;
      for (int64_t k = 0; k < taps && loop.goes_on(8 + channels_ / 4); ++k) {
        for (int64_t c = 0; c < channels_; ++c) {
          const int64_t at = k * used_ + c;
          const int8_t v = from[(o * channels_ + c) * taps + k];
          column[at / 4 * step + at % 4] = static_cast<uint8_t>(v);
          sums[o] += v;
        }
      }
    }
  }

  // Some pixels of planes: as fours first, whose bytes are then moved together.
  __attribute__((target("avx512f,ssse3"))) void fill_few(const Tensor& x, int64_t i, uint8_t* image) const {
    const int64_t parts = ceil_div(plane(), kFewAtOnce), n = i / parts, at = i % parts * kFewAtOnce;
    const int64_t count = std::min(kFewAtOnce, plane() - at);
    const uint8_t* from = x.as<uint8_t>() + n * channels_ * plane() + at;
    alignas(64) uint32_t fours[kFewAtOnce];
    uint8_t together[4 * kFewAtOnce + 16], order[16] = {};
    byte_unit()->panel_of_planes(from, plane(), channels_, count, 0, round_up(count, kByteLanes), fours);
    for (int64_t k = 0; k < 4 * pixel_; ++k) order[k] = static_cast<uint8_t>(k / pixel_ * 4 + k % pixel_);
    const __m128i places = _mm_loadu_si128(reinterpret_cast<const __m128i*>(order));
    for (int64_t k = 0; k < count; k += 4)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(together + k * pixel_),
                       _mm_shuffle_epi8(_mm_load_si128(reinterpret_cast<const __m128i*>(fours + k)), places));
    std::memcpy(image + (n * plane() + at) * pixel_, together, static_cast<size_t>(count * pixel_));
  }

  // What the results of pixels from `first` on are made of, a row for each, one after the other: each copy writes
  // beyond its end, where the next one follows.
  __attribute__((target("avx2"))) void fill_rows(const uint8_t* from, int64_t first, int64_t last, uint8_t zero,
                                                 uint8_t* to, LongLoop& loop) const {
    const Axis &rows = axis_[0], &columns = axis_[1];
    int64_t x = first % columns.out, y = first / columns.out % rows.out, n = first / columns.out / rows.out;
    const int64_t line = columns.kernel * used_;
    const uint8_t* lines[kMostTapsOfLast];  // of the image, for the taps of a column; null: padding
    bool is_new = true;
    for (int64_t i = first; i < last && loop.goes_on(8 + row_ / 64); ++i, to += row_) {
      for (int64_t ky = 0; is_new && ky < rows.kernel; ++ky) {
        const int64_t iy = y * rows.stride - rows.begin + ky * rows.dilation;
        lines[ky] = iy < 0 || iy >= rows.in ? nullptr : from + (n * rows.in + iy) * columns.in * pixel_;
      }
      is_new = false;
      uint8_t* at = to;
      const int64_t left = x * columns.stride - columns.begin;
      const bool is_inside = is_joined_ && left >= 0 && left + columns.kernel <= columns.in;
      for (int64_t ky = 0; ky < rows.kernel; ++ky, at += line) {
        const uint8_t* pixels = lines[ky];
        if (pixels == nullptr) {
          std::memset(at, zero, static_cast<size_t>(line));
          continue;
        }
        if (is_inside) {
          copy_over(pixels + left * pixel_, line, at);
          continue;
        }
        if (is_joined_) {
          const int64_t before = std::clamp<int64_t>(-left, 0, columns.kernel);
          const int64_t inside = std::clamp<int64_t>(columns.in - left, before, columns.kernel);
          if (before > 0) std::memset(at, zero, static_cast<size_t>(before * used_));
          copy_over(pixels + (left + before) * pixel_, (inside - before) * used_, at + before * used_);
          if (inside < columns.kernel)
            std::memset(at + inside * used_, zero, static_cast<size_t>((columns.kernel - inside) * used_));
          continue;
        }
        for (int64_t kx = 0; kx < columns.kernel; ++kx) {
          const int64_t ix = left + kx * columns.dilation;
          if (ix < 0 || ix >= columns.in)
            std::memset(at + kx * used_, zero, static_cast<size_t>(used_));
          else
            copy_over(pixels + ix * pixel_, used_, at + kx * used_);
        }
      }
      for (int64_t k = 0; is_signed_ && k < 4 * steps_; ++k) to[k] ^= 0x80;
      if (++x < columns.out) continue;
      x = 0;
      is_new = true;
      if (++y < rows.out) continue;
      y = 0;
      ++n;
    }
  }

  // The results of some rows for a pair of blocks.
  void multiply(BytePixels& t, const uint8_t* rows, int64_t first, int64_t count, uint8_t* to,
                BytePixelsSpace& space) const {
    const int64_t times = ceil_div(count, kByteDotRows);
    int64_t place[kByteDotRows];
    t.place = place;
    t.bytes = to;
    for (int64_t i = 0; i < times; ++i) {
      const int64_t at = i * count / times;
      t.rows = (i + 1) * count / times - at;
      t.from = rows + at * row_;
      for (int64_t r = 0; r < t.rows; ++r) place[r] = (first + at + r) * own_;
      byte_unit()->multiply_pixels(t, space);
    }
  }

  // Tasks are a part of the pixels and a share of the pairs of blocks.
  void cut() {
    const int64_t pairs = ceil_div(blocks_, kByteRowBlocks);
    const int64_t most = std::max(kByteDotRows, kDotPanelBytes / row_ / kByteDotRows * kByteDotRows);
    const int64_t fewest = ceil_div(pixels_, most);
    const auto cycles = [&](int64_t parts, int64_t shares) {
      const double rows = static_cast<double>(ceil_div(pixels_, parts)), s = static_cast<double>(steps_);
      const double own = static_cast<double>(ceil_div(pairs, shares) * kByteRowBlocks);
      return rows * (own * (s + kDotResultCycles) + (is_direct_ ? 0 : s / 16 * kDotCopyCycles)) + kDotTaskCycles;
    };
    parts_ = fewest;
    shares_ = 1;
    if (threads_ == 1 || cycles(1, 1) < kDotSerialCycles) return;
    double least = std::numeric_limits<double>::infinity();
    for (int64_t parts = fewest; parts <= std::min(pixels_, 8 * threads_ + fewest); ++parts) {
      for (int64_t shares = 1; shares <= std::min(pairs, 4 * int64_t{threads_}); ++shares) {
        const double rounds = static_cast<double>(ceil_div(parts * shares, threads_));
        const double all = cycles(parts, shares) * (rounds + 0.5);
        if (all >= least) continue;
        least = all;
        parts_ = parts;
        shares_ = shares;
      }
    }
  }

  const Attrs* attrs_ = nullptr;
  Axis axis_[2];
  int64_t images_ = 0, channels_ = 0, outs_ = 0, own_ = 0, blocks_ = 0, macs_ = 0;
  int64_t pixel_ = 0, used_ = 0;    // bytes of a pixel of the image that is read, and of those that a row takes
  int64_t steps_ = 0, row_ = 0;     // fours of a row, and bytes from one to the next
  int64_t pixels_ = 0;              // of results
  int64_t parts_ = 1, shares_ = 1;  // of these, and of the pairs of blocks
  bool is_plain_ = false, is_signed_ = false, is_direct_ = false, is_empty_ = false;
  bool is_joined_ = false;  // the taps of a line follow each other
  Packed weights_;
  int threads_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> create_conv_last_dot() { return std::make_unique<ConvLastDot>(); }

}  // namespace minnow
#endif
