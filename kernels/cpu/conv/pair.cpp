// A pointwise convolution that widens an image, and the depthwise one that alone reads its result: band by band, so
// that the wide image is never in memory, only some rows of a few blocks of its channels in the second-level cache.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/conv/scheme.h"
#include "kernels/cpu/gemm/micro_kernel.h"
#include "kernels/core/interrupt.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

constexpr int64_t kPairBandBytes = 256 << 10;
constexpr size_t kWeights = 1, kBias = 2, kNextWeights = 4, kNextBias = 5;  // inputs; 3 would be a residual

// The attributes of the depthwise convolution, and the activation of the pointwise one.
Attrs first_attrs(const Attrs& both) {
  Attrs attrs;
  attrs.set("activation", both.s("first_activation"));
  if (both.has("first_alpha")) attrs.set("alpha", both.f("first_alpha"));
  if (both.has("first_beta")) attrs.set("beta", both.f("first_beta"));
  return attrs;
}

Shape wide_shape(const Shape& x, const Shape& w) {
  Shape wide = x;
  wide[1] = w[0];
  return wide;
}

// Made by the planner alone, which has checked the types.
Status infer_pair(InferContext& c) {
  if (!c.has(0) || !c.has(kWeights) || !c.has(kNextWeights)) return fail(Code::kFormat, "three inputs are needed");
  const Shape &x = c.shape(0), &w = c.shape(kNextWeights);
  if (x.rank() != 4 || w.rank() != 4) return fail(Code::kFormat, "images are needed");
  const Shape wide = wide_shape(x, c.shape(kWeights));
  Window window;
  std::array<int64_t, 3> size;
  MINNOW_RETURN_IF_ERROR(read_window(c.attrs, wide, {w[2], w[3]}, &window));
  MINNOW_RETURN_IF_ERROR(slide_window(window, wide, false, &size));
  c.set(0, c.in(0).dtype, {x[0], w[0], size[0], size[1]});
  return ok();
}

class ConvPair final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Shape &x = node.in[0]->shape, &w = node.in[kWeights]->shape;
    const Shape wide = wide_shape(x, w);
    MINNOW_RETURN_IF_ERROR(read_conv_shape(first_attrs(node.attrs), x, w, wide, false, &a_));
    MINNOW_RETURN_IF_ERROR(
        read_conv_shape(node.attrs, wide, node.in[kNextWeights]->shape, node.out[0]->shape, false, &b_));
    const auto first = make_conv_direct(a_);
    depthwise_ = make_conv_depthwise(b_);
    pack_weights(node, kWeights, *first, a_.group, &weights_);
    pack_weights(node, kNextWeights, *depthwise_, b_.group, &next_weights_);
    copy_bias(node, kBias, &bias_);
    copy_bias(node, kNextBias, &next_bias_);
    const int64_t blocks = ceil_div(a_.oc, pack_);
    plan_ = TilePlan(a_.iw * b_.sh, std::min<int64_t>(blocks, 2), a_.ic);
    pair_ = plan_.most_blocks();
    const int64_t row = 4 * pair_ * std::max<int64_t>(1, a_.iw) * pack_;
    lines_ = std::max<int64_t>(1, (kPairBandBytes / row - reach()) / b_.sh + 1);
    lines_ = std::min(lines_, std::max<int64_t>(1, b_.oh));
    rows_ = (lines_ - 1) * b_.sh + reach();
    const int threads = std::max(1, node.threads);
    groups_ = ceil_div(blocks, pair_);
    chunks_ = threads == 1 ? 1 : std::min(b_.oh, ceil_div(4 * threads, std::max<int64_t>(1, a_.n * groups_)));
    if (chunks_ > 1 || lines_ < b_.oh) chunks_ = round_up(chunks_, threads);
    chunks_ = std::max<int64_t>(1, std::min(b_.oh, chunks_));
    *workspace = threads * worker_floats() * 4;
    return ok();
  }

  void run(const RunContext& context) override {
    const int64_t items = b_.oh * b_.ow == 0 ? 0 : a_.n * groups_ * chunks_;
    context.pool->parallel_for(items, 1, [&](int64_t begin, int64_t end, int worker) {
      float* space = static_cast<float*>(context.workspace) + worker * worker_floats();
      for (int64_t i = begin; i < end; ++i) {
        const int64_t image = i / chunks_ / groups_, block = i % groups_ * pair_, chunk = i / groups_ % chunks_;
        run_part(context, image, block, chunk * b_.oh / chunks_, (chunk + 1) * b_.oh / chunks_, space);
      }
    });
  }

  bool reads(int i) const override { return i == 0; }
  [[gnu::cold]] Profile profile() const override { return {"direct_1x1_depthwise", a_.macs() + b_.macs()}; }

 private:
  int64_t reach() const { return (b_.kh - 1) * b_.dh + 1; }  // rows under a window
  int64_t worker_floats() const { return pair_ * rows_ * a_.iw * pack_; }

  void copy_bias(const NodeContext& node, size_t input, Packed* packed) const {
    const int64_t floats = round_up(a_.oc, pack_);
    packed->make(node, {input}, "padded", 4 * floats, [&](void* to) {
      std::fill_n(static_cast<float*>(to), floats, 0.0f);
      if (input < node.constant.size() && node.constant[input] != nullptr)
        std::memcpy(to, node.constant[input]->data, static_cast<size_t>(a_.oc) * sizeof(float));
    });
  }

  // Output rows from y_begin to y_end of some blocks.
  void run_part(const RunContext& context, int64_t image, int64_t block, int64_t y_begin, int64_t y_end,
                float* space) const {
    const int64_t blocks = ceil_div(a_.oc, pack_), row = a_.iw * pack_, plane = rows_ * row;
    const int64_t count = std::min(pair_, blocks - block);
    const float* x = context.in[0]->as<float>() + image * ceil_div(a_.ic, pack_) * a_.ih * row;
    int64_t held_begin = 0, held_end = 0;  // rows of the wide image that `space` has
    for (int64_t y = y_begin; y < y_end; y += lines_) {
      const int64_t last = std::min(y + lines_, y_end);
      const int64_t begin = std::clamp<int64_t>(y * b_.sh - b_.top, 0, a_.ih);
      const int64_t end = std::clamp((last - 1) * b_.sh - b_.top + reach(), begin, a_.ih);
      const int64_t from = std::clamp(held_end, begin, end);
      if (from > begin && begin != held_begin) {
        for (int64_t b = 0; b < count; ++b)
          std::memmove(space + b * plane, space + b * plane + (begin - held_begin) * row,
                       static_cast<size_t>((from - begin) * row) * sizeof(float));
      }
      widen(x, block, count, from, end, space + (from - begin) * row);
      held_begin = begin;
      held_end = end;
      for (int64_t b = 0; b < count; ++b) {
        ConvCall call = {};
        call.x = space + b * plane - begin * row;
        call.w = next_weights_.data() + (block + b) * depthwise_->block_floats();
        call.bias = next_bias_.data() + (block + b) * pack_;
        call.y = context.out[0]->as<float>() + (image * blocks + block + b) * b_.oh * b_.ow * pack_;
        depthwise_->run_rows(call, y, last);
      }
    }
  }

  // Rows of the wide image, as far as `count` of its blocks go.
  void widen(const float* x, int64_t block, int64_t count, int64_t begin, int64_t end, float* out) const {
    const int64_t pixels = (end - begin) * a_.iw, most = tile_pixels(static_cast<int>(count));
    if (pixels == 0) return;
    const int64_t full = a_.ic / pack_, rest = a_.ic % pack_, image_block = a_.ih * a_.iw * pack_;
    Tile t;
    t.in = x + begin * a_.iw * pack_;
    t.in_pixel = t.out_pixel = pack_;
    t.w_block = a_.ic * pack_;
    t.w = weights_.data() + block * t.w_block;
    t.bias = bias_.data() + block * pack_;
    t.out = out;
    t.out_block = rows_ * a_.iw * pack_;
    t.lanes = static_cast<int>(pack_);
    t.low = a_.activation.low;
    t.high = a_.activation.high;
    t.steps[0].outer = full;
    t.steps[0].in_outer = image_block;
    t.steps[0].w_outer = pack_ * pack_;
    t.steps[0].length = pack_;
    t.steps[1].in = full * image_block;
    t.steps[1].w = full * pack_ * pack_;
    t.steps[1].outer = std::min<int64_t>(1, rest);
    t.steps[1].length = rest;
    const int64_t tiles = ceil_div(pixels, most), narrow = pixels / tiles, wide = pixels % tiles;
    LongLoop loop;
    for (int64_t i = 0; i < tiles && loop.goes_on(count * a_.ic * 2); ++i) {
      const int64_t n = narrow + (i < wide ? 1 : 0);
      tile_function(static_cast<int>(count), static_cast<int>(n))(t);
      for (int64_t b = 0; b < count && !a_.activation.is_clamp(); ++b)
        activate(a_.activation, t.out + b * t.out_block, n * pack_);
      t.in += n * pack_;
      t.out += n * pack_;
    }
  }

  const int64_t pack_ = pack_width();
  ConvShape a_, b_;
  std::unique_ptr<DepthwiseScheme> depthwise_;
  Packed weights_, bias_, next_weights_, next_bias_;
  TilePlan plan_;
  int64_t pair_ = 1, groups_ = 1, chunks_ = 1;
  int64_t lines_ = 1, rows_ = 1;  // of the output in a band, and of the wide image under them
};

std::unique_ptr<Kernel> create_pair(const NodeContext&) { return std::make_unique<ConvPair>(); }

MINNOW_OP("ConvPair", infer_pair);
MINNOW_KERNEL("ConvPair", create_pair, LayoutRule::kPacked);

}  // namespace
}  // namespace minnow
