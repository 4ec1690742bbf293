// Depthwise convolution of images of bf16 with channels last: rows of 32 channels become blocks of floats, which are
// convolved as those of packed images are, and the results are rounded. A block has every other channel, so that
// numbers are widened and rounded where they lie.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/machine/simd.h"
//
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/core/interrupt.h"
#include "kernels/core/packed.h"
#include "kernels/core/rounding.h"
#include "kernels/cpu/conv/bf16_last.h"
#include "kernels/cpu/conv/scheme.h"
#include "kernels/cpu/convert/half_numbers-inl.h"
#include "kernels/cpu/machine/packed_layout.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
#if MINNOW_HAS_HALF_NUMBERS

MINNOW_HALF_NUMBERS void widen_half_pixels(const uint16_t* in, int64_t pixel, int64_t count, float* even, float* odd) {
  const HalfFloats d;
  for (; count > 0; --count, in += pixel, even += kHalfPairs, odd += kHalfPairs) {
    const auto pairs = load_pairs(in);
    hn::StoreU(even_of(pairs), d, even);
    hn::StoreU(odd_of(pairs), d, odd);
  }
}

MINNOW_HALF_NUMBERS void round_half_pixels(const float* even, const float* odd, int64_t count, uint16_t* to,
                                           int64_t pixel) {
  const HalfFloats d;
  for (; count > 0; --count, to += pixel, even += kHalfPairs, odd += kHalfPairs)
    store_pairs(hn::LoadU(d, even), hn::LoadU(d, odd), to);
}

#else

void widen_half_pixels(const uint16_t*, int64_t, int64_t, float*, float*) {}
void round_half_pixels(const float*, const float*, int64_t, uint16_t*, int64_t) {}

#endif
}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace minnow {

HWY_EXPORT(widen_half_pixels);
HWY_EXPORT(round_half_pixels);

namespace {

constexpr int64_t kHalfBandBytes = 128 << 10;    // of floats, which stay in the second-level cache
constexpr int64_t kDepthwiseSerialMacs = 20000;  // fewer are not worth waking a thread

class DepthwiseHalf final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Shape &x = node.in[0]->shape, &w = node.in[1]->shape, &y = node.out[0]->shape;
    MINNOW_RETURN_IF_ERROR(read_conv_shape(node.attrs, x, w, y, false, &s_));
    channels_ = s_.ic;
    macs_ = s_.macs();
    from_ = half_pixel(*node.in[0]);
    to_ = half_pixel(*node.out[0]);
    s_.ic = s_.oc = s_.group = half_channels(channels_);
    scheme_ = make_conv_depthwise(s_);
    pairs_ = s_.oc / (2 * pack_);
    band_ = std::max<int64_t>(1, s_.oh);
    while (band_ > 1 && 4 * worker_floats() > kHalfBandBytes) band_ = ceil_div(band_, 2);
    threads_ = std::max(1, node.threads);
    if (threads_ > 1) band_ = std::clamp<int64_t>(s_.n * s_.oh * pairs_ / (4 * threads_), 1, band_);
    const auto fill = [&](void* to) { pack(node.constant[1]->as<float>(), static_cast<float*>(to)); };
    if (node.constant[1] != nullptr)
      weights_.make(node, {1}, "depthwise_half", weights_bytes(), fill);
    else
      weights_.clear();
    *workspace = 4 * threads_ * worker_floats() + 4 * s_.oc + (weights_.empty() ? weights_bytes() : 0);
    return ok();
  }

  void run(const RunContext& context) override {
    if (context.out[0]->count() == 0) return;
    float* bias = static_cast<float*>(context.workspace) + threads_ * worker_floats();
    const float* weights = weights_.as<float>();
    if (weights_.empty()) {
      pack(context.in[1]->as<float>(), bias + s_.oc);
      weights = bias + s_.oc;
    }
    std::memset(bias, 0, static_cast<size_t>(4 * s_.oc));
    if (context.in.size() > 2 && context.in[2] != nullptr)
      for (int64_t c = 0; c < channels_; ++c) bias[place_of(c)] = number(context.in[2]->as<float>()[c]);
    const int64_t bands = ceil_div(s_.oh, band_), items = s_.n * bands * pairs_;
    const auto range = [&](int64_t begin, int64_t end, int worker) {
      float* space = static_cast<float*>(context.workspace) + worker * worker_floats();
      LongLoop loop;
      for (int64_t i = begin; i < end && loop.goes_on(band_ * s_.ow * 8); ++i) {
        const int64_t pair = i % pairs_, band = i / pairs_ % bands, n = i / pairs_ / bands;
        run_band(context.in[0]->as<uint16_t>() + n * s_.ih * s_.iw * from_ + 2 * pair * pack_,
                 context.out[0]->as<uint16_t>() + n * s_.oh * s_.ow * to_ + 2 * pair * pack_,
                 weights + 2 * pair * scheme_->block_floats(), bias + 2 * pair * pack_, band * band_,
                 std::min(s_.oh, (band + 1) * band_), space);
      }
    };
    context.pool->parallel_for(items, macs_ < kDepthwiseSerialMacs ? items : 1, range);
  }

  bool reads(int i) const override { return i != 1 || weights_.empty(); }
  [[gnu::cold]] Profile profile() const override { return {"depthwise_last", macs_}; }

 private:
  int64_t reach() const { return (s_.kh - 1) * s_.dh + 1; }  // rows under a window
  // Of a band of a pair of blocks.
  int64_t in_floats() const { return std::min(s_.ih, (band_ - 1) * s_.sh + reach()) * s_.iw * pack_; }
  int64_t out_floats() const { return band_ * s_.ow * pack_; }
  int64_t worker_floats() const { return 2 * (in_floats() + out_floats()); }
  int64_t weights_bytes() const { return 4 * s_.oc * s_.kh * s_.kw; }
  // A pair of blocks has the even channels before the odd ones.
  int64_t place_of(int64_t c) const { return c / (2 * pack_) * (2 * pack_) + c % 2 * pack_ + c % (2 * pack_) / 2; }
  // NaN whose lower half is 0, as rounding wants it.
  static float number(float x) { return std::isnan(x) ? std::nanf("") : x; }

  // [block][tap][channel]
  [[gnu::cold]] void pack(const float* w, float* to) const {
    const int64_t taps = s_.kh * s_.kw;
    std::memset(to, 0, static_cast<size_t>(weights_bytes()));
    LongLoop loop;
    for (int64_t c = 0; c < channels_ && loop.goes_on(taps); ++c)
      for (int64_t k = 0; k < taps; ++k)
        to[place_of(c) / pack_ * pack_ * taps + k * pack_ + place_of(c) % pack_] = number(w[c * taps + k]);
  }

  void run_band(const uint16_t* x, uint16_t* y, const float* weights, const float* bias, int64_t first, int64_t last,
                float* space) const {
    const int64_t begin = std::clamp<int64_t>(first * s_.sh - s_.top, 0, s_.ih);
    const int64_t end = std::clamp((last - 1) * s_.sh - s_.top + reach(), begin, s_.ih);
    const int64_t row = s_.iw * pack_, out_row = s_.ow * pack_;
    float* out = space + 2 * in_floats();
    HWY_DYNAMIC_DISPATCH(widen_half_pixels)
    (x + begin * s_.iw * from_, from_, (end - begin) * s_.iw, space, space + in_floats());
    for (int64_t i = 0; i < 2; ++i) {
      ConvCall call = {};
      call.x = space + i * in_floats() - begin * row;
      call.w = weights + i * scheme_->block_floats();
      call.bias = bias + i * pack_;
      call.y = out + i * out_floats() - first * out_row;
      scheme_->run_rows(call, first, last);
    }
    HWY_DYNAMIC_DISPATCH(round_half_pixels)
    (out, out + out_floats(), (last - first) * s_.ow, y + first * s_.ow * to_, to_);
  }

  const int64_t pack_ = pack_width();
  ConvShape s_;
  std::unique_ptr<DepthwiseScheme> scheme_;
  int64_t channels_ = 0, macs_ = 0, pairs_ = 0;
  int64_t from_ = 0, to_ = 0;  // numbers from one pixel to the next, of the image and of the result
  int64_t band_ = 1;           // rows of results at a time
  Packed weights_;
  int threads_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> create_depthwise_half() { return std::make_unique<DepthwiseHalf>(); }

}  // namespace minnow
#endif
