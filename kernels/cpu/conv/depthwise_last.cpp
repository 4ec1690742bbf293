// Quantized depthwise convolution of an image with channels last: 64 channels at a time, whose taps are brought side by
// side in fours.
#include "kernels/cpu/conv/last.h"
#include "kernels/cpu/machine/simd.h"

#if MINNOW_AVX512
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "kernels/core/interrupt.h"
#include "kernels/core/packed.h"
#include "kernels/core/rounding.h"
#include "kernels/core/window.h"
#include "kernels/cpu/gemm/integer.h"
#include "kernels/cpu/machine/packed_layout.h"
#include "kernels/cpu/quant/fixed_lanes.h"
#include "kernels/cpu/quant/requantize.h"

#define MINNOW_DEPTHWISE __attribute__((target("avx512f,avx512vl,avx512bw,avx512vnni")))

namespace minnow {
namespace {

constexpr int64_t kChannelsAtOnce = 64, kVectorsOfSums = 4;  // at a time; vectors of their sums

// The place of a channel of 64 among the sums: four vectors, each with four channels of every 16.
int64_t place_of(int64_t c) { return c % 16 / 4 * 16 + c / 16 * 4 + c % 4; }

// 64 channels of some neighbors along a row; where pixels have fewer, those of several pixels are one.
struct DepthwiseRow {
  const uint8_t* const* tap = nullptr;    // of each tap, for the first result
  int64_t taps = 0, step = 0, count = 0;  // bytes from one result's taps to the next one's
  const uint8_t* weights = nullptr;       // [4 taps][vector][16 channels][4]
  const int32_t* start = nullptr;         // of the 64, in the order of the sums
  const float* scale = nullptr;
  const FixedLanes* fixed = nullptr;  // in its place, for whole numbers only: of each vector of sums
  int32_t least = 0, most = 0;
  uint8_t flip = 0;
  bool gives_signed = false;
  int32_t zero = 0;
  uint64_t mask = 0, last = 0;  // which results are stored, and of the last one
  int64_t pixel = 0;            // bytes from one result to the next
  uint8_t* to = nullptr;
};

template <int64_t kTaps>
MINNOW_DEPTHWISE void convolve(const DepthwiseRow& r) {
  const int64_t taps = kTaps == 0 ? r.taps : kTaps;
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(r.flip)), none = _mm512_setzero_si512();
  const __m512i zero = _mm512_set1_epi16(static_cast<short>(r.zero));
  // What is too large for an integer would become a negative one, as NaN does.
  const __m512 high = _mm512_set1_ps(1024);
  const FixedBytes narrow(r.zero, r.least, r.most, r.gives_signed);
  for (int64_t i = 0; i < r.count; ++i) {
    __m512i sum[kVectorsOfSums];
#pragma GCC unroll 4
    for (int v = 0; v < kVectorsOfSums; ++v) sum[v] = _mm512_loadu_si512(r.start + 16 * v);
    const uint8_t* w = r.weights;
#pragma GCC unroll 3
    for (int64_t k = 0; k < taps; k += 4, w += 4 * kChannelsAtOnce) {
      __m512i x[4];
#pragma GCC unroll 4
      for (int64_t j = 0; j < 4; ++j)
        x[j] = k + j < taps ? _mm512_xor_si512(_mm512_loadu_si512(r.tap[k + j] + i * r.step), flip) : none;
      const __m512i low[2] = {_mm512_unpacklo_epi8(x[0], x[1]), _mm512_unpacklo_epi8(x[2], x[3])};
      const __m512i top[2] = {_mm512_unpackhi_epi8(x[0], x[1]), _mm512_unpackhi_epi8(x[2], x[3])};
      const __m512i fours[kVectorsOfSums] = {
          _mm512_unpacklo_epi16(low[0], low[1]), _mm512_unpackhi_epi16(low[0], low[1]),
          _mm512_unpacklo_epi16(top[0], top[1]), _mm512_unpackhi_epi16(top[0], top[1])};
#pragma GCC unroll 4
      for (int v = 0; v < kVectorsOfSums; ++v)
        sum[v] = _mm512_dpbusd_epi32(sum[v], fours[v], _mm512_loadu_si512(w + kChannelsAtOnce * v));
    }
    __m512i whole[kVectorsOfSums], bytes;
    if (r.fixed != nullptr) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectorsOfSums; ++v) whole[v] = scaled_lanes(r.fixed[v], sum[v]);
      const __m512i one = narrow.pair(whole[0], whole[1]), other = narrow.pair(whole[2], whole[3]);
      bytes = r.gives_signed ? _mm512_packs_epi16(one, other) : _mm512_packus_epi16(one, other);
      _mm512_mask_storeu_epi8(r.to + i * r.pixel, i + 1 < r.count ? r.mask : r.last, bytes);
      continue;
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVectorsOfSums; ++v) {
      const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[v]), _mm512_loadu_ps(r.scale + 16 * v));
      whole[v] = _mm512_cvt_roundps_epi32(_mm512_min_ps(high, scaled), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }
    const __m512i one = _mm512_adds_epi16(_mm512_packs_epi32(whole[0], whole[1]), zero);
    const __m512i other = _mm512_adds_epi16(_mm512_packs_epi32(whole[2], whole[3]), zero);
    bytes = r.gives_signed ? _mm512_packs_epi16(one, other) : _mm512_packus_epi16(one, other);
    _mm512_mask_storeu_epi8(r.to + i * r.pixel, i + 1 < r.count ? r.mask : r.last, bytes);
  }
}

class DepthwiseLast final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Shape &x = node.in[0]->shape, &w = node.in[1]->shape, &y = node.out[0]->shape;
    attrs_ = &node.attrs;
    MINNOW_RETURN_IF_ERROR(read_window(node.attrs, x, {w[2], w[3]}, &window_));
    images_ = x[0];
    channels_ = x[1];
    own_ = last_channels(channels_);
    together_ = window_.stride[1] == 1 && kChannelsAtOnce % own_ == 0 ? kChannelsAtOnce / own_ : 1;
    blocks_ = ceil_div(channels_, kChannelsAtOnce);
    for (int i = 0; i < 2; ++i) {
      in_[i] = x[i + 2];
      out_[i] = y[i + 2];
    }
    taps_ = w[2] * w[3];
    macs_ = Shape{y.count(), taps_}.count();
    threads_ = std::max(1, node.threads);
    const auto fill = [&](void* to) { pack(*node.constant[1], static_cast<uint8_t*>(to)); };
    if (node.constant[1] != nullptr)
      weights_.make(node, {1}, "depthwise_last," + std::to_string(together_), weights_bytes(), fill);
    else
      weights_.clear();
    *workspace = 8 * blocks_ * kChannelsAtOnce + fixed_bytes() + (weights_.empty() ? weights_bytes() : 0);
    return ok();
  }

  void run(const RunContext& context) override {
    if (context.out[0]->count() == 0) return;
    int32_t* start = static_cast<int32_t*>(context.workspace);
    float* scale = reinterpret_cast<float*>(start + blocks_ * kChannelsAtOnce);
    FixedLanes* fixed = reinterpret_cast<FixedLanes*>(scale + blocks_ * kChannelsAtOnce);
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
    const int32_t* sums = reinterpret_cast<const int32_t*>(weights + blocks_ * block_bytes());
    const uint32_t shifted = static_cast<uint32_t>(zero + shift_for(x.type.dtype, false));
    const bool is_fixed = quantized.multiplier != nullptr;
    for (int64_t i = 0; is_fixed && i < blocks_ * kVectorsOfSums; ++i) fixed[i].clear();
    for (int64_t i = 0; i < blocks_ * kChannelsAtOnce; ++i) {
      const int64_t at = i / kChannelsAtOnce * kChannelsAtOnce + place_of(i % kChannelsAtOnce), c = channel_at(i);
      const bool is_there = c < channels_;
      const uint32_t bias =
          quantized.bias == nullptr || !is_there ? 0u : static_cast<uint32_t>(quantized.bias[c * quantized.bias_step]);
      start[at] = static_cast<int32_t>(bias - shifted * static_cast<uint32_t>(sums[i]));
      if (!is_fixed) scale[at] = is_there ? quantized.scale[c * quantized.factor_step] : 0.0f;
      if (!is_fixed || !is_there) continue;
      const int64_t factor = c * quantized.factor_step;
      const int64_t limit = std::abs(int64_t{start[at]}) + taps_ * kMostProductOfBytes;
      fixed[at / 16].set(at % 16, quantized.multiplier[factor], quantized.shift[factor], limit);
    }
    DepthwiseRow row;
    row.taps = taps_;
    row.step = window_.stride[1] * own_ * together_;
    row.flip = flip_for(x.type.dtype, false);
    row.gives_signed = quantized.to == DType::kI8;
    row.zero = quantized.zero;
    row.least = quantized.least;
    row.most = quantized.most;
    if (is_fixed) row.fixed = fixed;
    row.pixel = own_ * together_;
    const auto range = [&](int64_t begin, int64_t end, int) {
      alignas(64) uint8_t padding[kChannelsAtOnce];
      std::memset(padding, zero, sizeof(padding));
      LongLoop loop;
      for (int64_t i = begin; i < end && loop.goes_on(out_[1] * taps_ * 4); ++i) {
        const int64_t block = i % blocks_, line = i / blocks_;
        row_of(x, line, block, padding, weights, start, scale, row, context.out[0]->as<uint8_t>());
      }
    };
    const int64_t items = images_ * out_[0] * blocks_;
    if (context.pool->threads() > threads_) return range(0, items, 0);
    context.pool->parallel_for(items, 1 + 6000 / (out_[1] * (taps_ * 3 + 16)), range);
  }

  bool reads(int i) const override { return i != 1 || weights_.empty(); }
  [[gnu::cold]] Profile profile() const override { return {"depthwise_last", macs_}; }

 private:
  int64_t fixed_bytes() const { return blocks_ * kVectorsOfSums * static_cast<int64_t>(sizeof(FixedLanes)); }
  int64_t block_bytes() const { return ceil_div(taps_, 4) * 4 * kChannelsAtOnce; }
  int64_t weights_bytes() const {
    return blocks_ * (block_bytes() + 4 * kChannelsAtOnce);
  }  // and the sum for each result
  int64_t channel_at(int64_t i) const { return together_ > 1 ? i % own_ : i; }

  void pack(const Tensor& w, uint8_t* to) const {
    int32_t* sums = reinterpret_cast<int32_t*>(to + blocks_ * block_bytes());
    std::memset(to, 0, static_cast<size_t>(weights_bytes()));
    LongLoop loop;
    for (int64_t i = 0; i < blocks_ * kChannelsAtOnce && loop.goes_on(taps_); ++i) {
      const int64_t c = channel_at(i);
      if (c >= channels_) continue;
      uint8_t* block = to + i / kChannelsAtOnce * block_bytes() + place_of(i % kChannelsAtOnce) * 4;
      for (int64_t k = 0; k < taps_; ++k) {
        const int8_t v = w.as<int8_t>()[c * taps_ + k];
        block[k / 4 * 4 * kChannelsAtOnce + k % 4] = static_cast<uint8_t>(v);
        sums[i] += v;
      }
    }
  }

  // 64 channels of a row of results: those whose windows reach beyond the image one by one.
  void row_of(const Tensor& x, int64_t line, int64_t block, const uint8_t* padding, const uint8_t* weights,
              const int32_t* start, const float* scale, DepthwiseRow row, uint8_t* y) const {
    const int64_t n = line / out_[0], first_y = line % out_[0] * window_.stride[0] - window_.begin[0];
    const int64_t left = own_ - block * kChannelsAtOnce;
    const auto mask_of = [](int64_t n) { return n >= kChannelsAtOnce ? ~uint64_t{0} : (uint64_t{1} << n) - 1; };
    row.mask = mask_of(together_ > 1 ? kChannelsAtOnce : left);
    row.weights = weights + block * block_bytes();
    row.start = start + block * kChannelsAtOnce;
    row.scale = scale + block * kChannelsAtOnce;
    if (row.fixed != nullptr) row.fixed += block * kVectorsOfSums;
    uint8_t* to = y + line * out_[1] * own_ + block * kChannelsAtOnce;
    const uint8_t* image = x.as<uint8_t>() + n * in_[0] * in_[1] * own_ + block * kChannelsAtOnce;
    const int64_t stride = window_.stride[1], begin = window_.begin[1];
    const int64_t reach = (window_.kernel[1] - 1) * window_.dilation[1];
    const uint8_t* tap[kMostTapsOfOne];
    row.tap = tap;
    for (int64_t at = 0; at < out_[1];) {
      const int64_t first_x = at * stride - begin;
      const bool inside = first_x >= 0 && first_x + reach < in_[1];
      row.count = inside ? std::min(out_[1] - at, (in_[1] - 1 - reach - first_x) / stride + 1) : 1;
      bool all = true;
      const uint8_t** next = tap;
      for (int64_t ky = 0, iy = first_y; ky < window_.kernel[0]; ++ky, iy += window_.dilation[0]) {
        for (int64_t kx = 0, ix = first_x; kx < window_.kernel[1]; ++kx, ix += window_.dilation[1]) {
          const bool is_there = iy >= 0 && iy < in_[0] && ix >= 0 && ix < in_[1];
          all = all && is_there;
          *next++ = is_there ? image + (iy * in_[1] + ix) * own_ : padding;
        }
      }
      if (!all) row.count = 1;  // the padding does not step along
      row.to = to + at * own_;
      at += row.count;
      row.last = mask_of(together_ > 1 ? ((row.count - 1) % together_ + 1) * own_ : left);
      row.count = ceil_div(row.count, together_);
      taps_ == 9 ? convolve<9>(row) : convolve<0>(row);
    }
  }

  const Attrs* attrs_ = nullptr;
  Window window_;
  int64_t in_[2] = {0, 0}, out_[2] = {0, 0};
  int64_t images_ = 0, channels_ = 0, own_ = 0, blocks_ = 0, taps_ = 0, macs_ = 0;
  int64_t together_ = 1;  // pixels whose channels are as many as there are at a time
  Packed weights_;
  int threads_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> create_depthwise_last() { return std::make_unique<DepthwiseLast>(); }

}  // namespace minnow
#else
namespace minnow {

std::unique_ptr<Kernel> create_depthwise_last() { return nullptr; }

}  // namespace minnow
#endif
