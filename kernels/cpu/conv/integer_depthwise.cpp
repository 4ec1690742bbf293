// Depthwise convolution of planes of bytes by windows of four neighbors, which needs weights that are known.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels/cpu/conv/byte_windows.h"
#include "kernels/cpu/convert/blocks.h"
#include "kernels/cpu/gemm/integer.h"
#include "kernels/cpu/quant/requantize.h"
#include "kernels/core/interrupt.h"
#include "kernels/core/packed.h"
#include "kernels/core/window.h"

namespace minnow {
namespace {

class DepthwiseBytes final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Shape &x = node.in[0]->shape, &w = node.in[1]->shape;
    attrs_ = &node.attrs;
    MINNOW_RETURN_IF_ERROR(read_window(node.attrs, x, std::vector<int64_t>(w.begin() + 2, w.end()), &window_));
    window_ = as_3d(window_);
    in_ = spatial_3d(x);
    const std::array<int64_t, 3> out = spatial_3d(node.out[0]->shape);
    rows_ = w[0] / x[1];
    planes_ = x[0] * x[1];
    macs_ = Shape{node.out[0]->count(), w.count(2, w.rank())}.count();
    threads_ = std::max(1, node.threads);
    for (size_t i = 0; i < 2; ++i) {
      shape_.kernel[i] = window_.kernel[i + 1];
      shape_.stride[i] = window_.stride[i + 1];
      shape_.dilation[i] = window_.dilation[i + 1];
      shape_.out[i] = out[i + 1];
    }
    const auto reach = [&](size_t i) {
      return std::max<int64_t>(shape_.out[i] - 1, 0) * shape_.stride[i] + (shape_.kernel[i] - 1) * shape_.dilation[i] +
             1;
    };
    lines_ = reach(0);
    shape_.line = std::max(reach(1), in_[2] + window_.begin[2]);
    shape_.prepare();
    flip_ = flip_for(node.in[0]->dtype, false);
    outs_ = w[0];
    const Tensor* zeros = operand(node.constant, 3);
    const auto fill = [&](void* to) { pack(*node.constant[1], zeros, static_cast<uint32_t*>(to)); };
    const std::string form = std::string("byte_windows,") + std::to_string(shape_.kernel[0]);
    zeros != nullptr ? weights_.make(node, {1, 3}, form, 4 * packed_words(), fill)
                     : weights_.make(node, {1}, form, 4 * packed_words(), fill);
    *workspace = threads_ * scratch();
    return ok();
  }

  void run(const RunContext& context) override {
    const Tensor &x = *context.in[0], *zeros = operand(context.in, 2);
    const int64_t pixels = shape_.out[0] * shape_.out[1];
    const uint32_t *weights = weights_.as<uint32_t>(), *totals = weights + outs_ * words_of_output();
    const uint32_t* factors = totals + outs_;
    if (context.out[0]->count() == 0) return;
    const int32_t zero = zeros == nullptr ? 0 : byte_at(*zeros, 0);
    const uint8_t padding = static_cast<uint8_t>(zero) ^ flip_;
    const int32_t shift = zero + shift_for(x.type.dtype, false);
    const std::optional<Requantization> given = read_requantization(*attrs_, context, 4, false);
    if (!given) return;
    const Requantization& quantized = *given;
    const size_t size = quantized.active() ? dtype_size(quantized.to) : sizeof(int32_t);
    const bool fused = quantized.scale != nullptr;
    const auto range = [&](int64_t begin, int64_t end, int worker) {
      uint8_t* plane = static_cast<uint8_t*>(context.workspace) + worker * scratch();
      int32_t* sums = reinterpret_cast<int32_t*>(plane + planes_at_once() * plane_bytes());
      std::memset(plane, padding, static_cast<size_t>(planes_at_once() * plane_bytes()));
      // A short plane is written while another one is computed: bytes just written take long to be read.
      const auto place = [&](int64_t i) {
        if (i < end) fill(x.as<uint8_t>() + i * in_[1] * in_[2], padding, plane + i % planes_at_once() * plane_bytes());
      };
      const bool ahead = planes_at_once() > 1;
      if (ahead) place(begin);
      ByteWindows windows = shape_;
      windows.zero = quantized.zero;
      windows.is_signed = quantized.to == DType::kI8;
      LongLoop loop;
      const int64_t most = std::max<int64_t>(1, (1 << 24) / (shape_.out[1] * shape_.kernel[0]));
      for (int64_t i = begin; i < end; ++i) {
        place(ahead ? i + 1 : i);
        const uint8_t* own = plane + i % planes_at_once() * plane_bytes();
        for (int64_t r = i * rows_; r < (i + 1) * rows_; ++r) {
          const int64_t o = r % outs_;
          windows.weights = weights + o * words_of_output();
          if (windows.adds_pairs()) set_rest(factors + outs_ + o * words_of_output(), &windows);
          windows.factor = static_cast<int32_t>(factors[o]);
          windows.start = static_cast<int32_t>(0u - static_cast<uint32_t>(shift) * totals[o]);
          char* to = offset(context.out[0]->data, r * pixels, size);
          if (fused) {
            windows.scale = quantized.scale[o * quantized.factor_step];
            if (quantized.bias != nullptr)
              windows.start = static_cast<int32_t>(static_cast<uint32_t>(windows.start) +
                                                   static_cast<uint32_t>(quantized.bias[o * quantized.bias_step]));
          }
          for (int64_t y = 0; y < shape_.out[0]; y += most) {
            windows.out[0] = std::min(most, shape_.out[0] - y);
            windows.plane = own + y * shape_.stride[0] * shape_.line;
            if (!loop.goes_on(windows.out[0] * shape_.out[1] / 16 * shape_.kernel[0])) return;
            if (fused)
              windows.bytes = reinterpret_cast<uint8_t*>(to) + y * shape_.out[1];
            else
              windows.sums = (quantized.active() ? sums : reinterpret_cast<int32_t*>(to)) + y * shape_.out[1];
            convolve_bytes(windows);
          }
          if (quantized.active() && !fused) requantize(quantized, o, 1, sums, pixels, pixels, to, pixels);
        }
      }
    };
    if (context.pool->threads() > threads_) return range(0, planes_, 0);
    context.pool->parallel_for(planes_, 1 + 50000 / (macs_ / std::max<int64_t>(planes_, 1) + plane_bytes() + 1), range);
  }

  bool reads(int i) const override { return i != 1 && i != 3; }
  [[gnu::cold]] Profile profile() const override { return {"depthwise_windows", macs_}; }

 private:
  // Of the weights of an output; those of all are packed, then the sums and the factors of each, and what the weights
  // of each are to be split into, beside those, where products are added in pairs.
  int64_t words_of_output() const { return shape_.kernel[0] * shape_.lanes_of_line(); }
  int64_t packed_words() const { return outs_ * ((ByteWindows::adds_pairs() ? 2 : 1) * words_of_output() + 2); }
  void set_rest(const uint32_t* rest, ByteWindows* windows) const {
    const bool any = std::any_of(rest, rest + words_of_output(), [](uint32_t x) { return x != 0; });
    windows->rest = any ? rest : nullptr;
  }
  // Read beyond its end as it is, 64 bytes at a time.
  int64_t plane_bytes() const { return (lines_ * shape_.line + 64 * (1 + shape_.stride[1]) + 63) / 64 * 64; }
  int64_t planes_at_once() const { return plane_bytes() <= 4096 ? 2 : 1; }
  int64_t scratch() const {
    return planes_at_once() * plane_bytes() + (shape_.out[0] * shape_.out[1] + 16 + 15) / 16 * 64;
  }

  // The pixels into the midst of the padding, which is there already.
  void fill(const uint8_t* from, uint8_t padding, uint8_t* plane) const {
    const int64_t lines = std::min(in_[1], lines_ - window_.begin[1]);
    if (in_[2] > 0)
      place_lines(from, lines, in_[2], flip_, padding, shape_.line,
                  plane + window_.begin[1] * shape_.line + window_.begin[2]);
  }

  // Weights as signed bytes; what they lack of their difference to the zero point is a factor of the sum of all bytes.
  void pack(const Tensor& w, const Tensor* zeros, uint32_t* packed) const {
    const int64_t taps = shape_.kernel[0] * shape_.kernel[1], lanes = shape_.lanes_of_line();
    uint32_t *totals = packed + outs_ * words_of_output(), *factors = totals + outs_;
    std::fill(packed, totals, 0u);
    uint8_t* to = reinterpret_cast<uint8_t*>(packed);
    LongLoop loop;
    for (int64_t o = 0; o < outs_ && loop.goes_on(4 * taps); ++o) {
      const int32_t zero = zeros == nullptr ? 0 : byte_at(*zeros, zeros->count() == 1 ? 0 : o);
      uint32_t total = 0;
      for (int64_t k = 0; k < taps; ++k) {
        const int64_t line = o * shape_.kernel[0] + k / shape_.kernel[1];
        to[line * lanes * 4 + k % shape_.kernel[1]] =
            static_cast<uint8_t>(w.as<uint8_t>()[o * taps + k] ^ flip_for(w.type.dtype, true));
        total += static_cast<uint32_t>(byte_at(w, o * taps + k) - zero);
      }
      factors[o] = static_cast<uint32_t>(-(zero + shift_for(w.type.dtype, true)));
      totals[o] = total;
    }
    if (ByteWindows::adds_pairs()) split_pairs(to, reinterpret_cast<uint8_t*>(factors + outs_));
  }

  // Halves pairs of weights whose products with bytes go beyond 16 bits.
  void split_pairs(uint8_t* weights, uint8_t* rest) const {
    constexpr int kMost = 128;
    for (int64_t i = 0; i < 4 * outs_ * words_of_output(); i += 2) {
      int8_t* w = reinterpret_cast<int8_t*>(weights + i);
      const bool splits = (w[0] < 0) == (w[1] < 0) && std::abs(w[0] + w[1]) > kMost;
      for (int64_t k = 0; k < 2; ++k) {
        const int more = splits ? w[k] / 2 : 0;
        w[k] = static_cast<int8_t>(w[k] - more);
        rest[i + k] = static_cast<uint8_t>(more);
      }
    }
  }

  const Attrs* attrs_ = nullptr;
  Window window_;
  ByteWindows shape_;
  std::array<int64_t, 3> in_{};
  Packed weights_;
  int64_t outs_ = 0, rows_ = 1, planes_ = 0, lines_ = 0, macs_ = 0;
  int threads_ = 1;
  uint8_t flip_ = 0;  // of each byte, to see it as an unsigned one
};

}  // namespace

std::unique_ptr<Kernel> create_depthwise_bytes(const NodeContext& node) {
  const Shape& w = node.in[1]->shape;
  const bool zero_known = node.in.size() < 4 || node.in[3] == nullptr || node.constant[3] != nullptr;
  if (!has_byte_windows() || node.constant[1] == nullptr || !zero_known || w.rank() > 4 || w[1] != 1) return nullptr;
  if (node.attrs.i("group", 1) < 2 || w.count() == 0) return nullptr;
  Window window;
  if (!read_window(node.attrs, node.in[0]->shape, std::vector<int64_t>(w.begin() + 2, w.end()), &window).ok())
    return nullptr;
  window = as_3d(window);
  ByteWindows shape;
  shape.kernel[1] = window.kernel[2];
  shape.stride[1] = window.stride[2];
  shape.dilation[1] = window.dilation[2];
  // Pairs of other weights would be beyond what is split here.
  const Tensor* zeros = operand(node.constant, 3);
  const auto is_zero = [](uint8_t zero) { return zero == 0; };
  const bool centered =
      zeros == nullptr || std::all_of(zeros->as<uint8_t>(), zeros->as<uint8_t>() + zeros->count(), is_zero);
  if (ByteWindows::adds_pairs() && (node.in[1]->dtype != DType::kI8 || !centered)) return nullptr;
  const bool inside = window.begin[1] >= 0 && window.begin[2] >= 0;
  return shape.fits() && inside ? std::make_unique<DepthwiseBytes>() : nullptr;
}

}  // namespace minnow
