// The op ConvInteger: convolution of 8-bit integers less their zero points, in i32. The pixels of a panel are gathered
// as the columns of a matrix, in which padding is zero: it stands for the zero point.
#include "kernels/cpu/gemm_integer.h"
#include "kernels/cpu/window.h"
#include "kernels/infer.h"

namespace minnow {
namespace {

using LongLong = long long;

Status infer_conv_integer(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  const Shape &x = c.shape(0), &w = c.shape(1);
  for (int i = 0; i < 2; ++i)
    if (!is_byte(c.in(i).dtype))
      return fail(Code::kFormat, "input %d must be u8 or i8, not %s", i, dtype_name(c.in(i).dtype));
  if (x.rank() < 3 || w.rank() != x.rank())
    return fail(Code::kFormat, "weights of shape %s for an input of shape %s: both need the same rank, 3 or more",
                w.str().c_str(), x.str().c_str());
  const int64_t group = c.attrs.i("group", 1);
  if (group < 1 || w[0] % group != 0 || x[1] % group != 0 || w[1] != x[1] / group)
    return fail(Code::kFormat, "weights of shape %s in %lld groups do not fit an input of shape %s", w.str().c_str(),
                static_cast<LongLong>(group), x.str().c_str());
  for (int i = 2; i < 4; ++i) {
    if (!c.has(i)) continue;
    if (c.in(i).dtype != c.in(i - 2).dtype)
      return fail(Code::kFormat, "zero point %d is %s, but its operand %s", i - 2, dtype_name(c.in(i).dtype),
                  dtype_name(c.in(i - 2).dtype));
    const int64_t zeros = c.shape(i).count();
    if (zeros != 1 && (i == 2 || zeros != w[0]))
      return fail(Code::kFormat, "zero point %d has shape %s", i - 2, c.shape(i).str().c_str());
  }
  Window window;
  MINNOW_RETURN_IF_ERROR(read_window(c.attrs, x, std::vector<int64_t>(w.begin() + 2, w.end()), &window));
  std::array<int64_t, 3> size;
  MINNOW_RETURN_IF_ERROR(slide_window(window, x, false, &size));
  Shape out{x[0], w[0]};
  for (int i = 0; i < window.rank; ++i) out.push_back(size[Window::at(i)]);
  c.set(0, DType::kI32, out);
  return ok();
}

const Tensor* operand(const std::vector<const Tensor*>& in, size_t i) { return i < in.size() ? in[i] : nullptr; }

class ConvInteger final : public Kernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Shape &x = node.in[0]->shape, &w = node.in[1]->shape;
    group_ = node.attrs.i("group", 1);
    MINNOW_RETURN_IF_ERROR(read_window(node.attrs, x, std::vector<int64_t>(w.begin() + 2, w.end()), &window_));
    window_ = as_3d(window_);
    in_ = spatial_3d(x);
    out_ = spatial_3d(node.out[0]->shape);
    channels_ = w[1];
    taps_ = w.count(2, w.rank());
    outs_ = w[0];
    threads_ = std::max(1, node.threads);
    macs_ = node.out[0]->count() * channels_ * taps_;
    const bool zero_known = node.in.size() < 4 || node.in[3] == nullptr || node.constant[3] != nullptr;
    if (node.constant[1] != nullptr && zero_known && weights_.empty()) {
      weights_.resize(static_cast<size_t>(outs_ * row()));
      pack(*node.constant[1], operand(node.constant, 3), weights_.data());
    }
    *workspace = threads_ * panel_bytes() + (weights_.empty() ? outs_ * row() * 2 : 0);
    return ok();
  }

  void run(const RunContext& context) override {
    int16_t* space = static_cast<int16_t*>(context.workspace);
    const int16_t* weights = weights_.data();
    if (weights_.empty()) {
      int16_t* packed = space + threads_ * panel_bytes() / 2;
      pack(*context.in[1], operand(context.in, 3), packed);
      weights = packed;
    }
    if (context.in[0]->type.dtype == DType::kU8) {
      convolve<uint8_t>(context, weights, space);
    } else {
      convolve<int8_t>(context, weights, space);
    }
  }

  bool reads(int i) const override { return (i != 1 && i != 3) || weights_.empty(); }
  std::string scheme() const override { return channels_ == 1 ? "depthwise" : "im2col"; }
  int64_t macs() const override { return macs_; }

 private:
  int64_t depth() const { return channels_ * taps_; }
  int64_t row() const { return 2 * integer_pairs(depth()); }
  int64_t panel_bytes() const { return (integer_panel_size(depth()) * 2 + 63) / 64 * 64; }

  // [outs][taps][channels], so that the places of a tap are found once for all channels.
  void pack(const Tensor& w, const Tensor* zeros, int16_t* to) const {
    for (int64_t o = 0; o < outs_; ++o, to += row()) {
      const int32_t zero = zeros == nullptr ? 0 : byte_at(*zeros, zeros->count() == 1 ? 0 : o);
      for (int64_t c = 0; c < channels_; ++c)
        for (int64_t k = 0; k < taps_; ++k)
          to[k * channels_ + c] = static_cast<int16_t>(byte_at(w, (o * channels_ + c) * taps_ + k) - zero);
      std::fill(to + depth(), to + row(), int16_t{0});
    }
  }

  template <typename B>
  void convolve(const RunContext& context, const int16_t* weights, int16_t* space) const {
    const Tensor& x = *context.in[0];
    const Tensor* x_zero = operand(context.in, 2);
    const int32_t zero = x_zero == nullptr ? 0 : byte_at(*x_zero, 0);
    if (channels_ == 1) return convolve_planes<B>(context, weights, zero);
    int32_t* y = context.out[0]->as<int32_t>();
    const int64_t in_size = in_[0] * in_[1] * in_[2], out_size = out_[0] * out_[1] * out_[2];
    const int64_t width = integer_panel(), panels = (out_size + width - 1) / width, rows = outs_ / group_;
    const auto range = [&](int64_t begin, int64_t end, int worker) {
      int16_t* panel = space + worker * panel_bytes() / 2;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task % panels * width, plane = task / panels, g = plane % group_;
        const int64_t columns = std::min(width, out_size - first);
        gather(x.as<B>() + plane * channels_ * in_size, zero, first, columns, panel);
        gemm_integer(weights + g * rows * row(), rows, row() / 2, panel, y + plane * rows * out_size + first, out_size,
                     columns);
      }
    };
    const int64_t tasks = x.dim(0) * group_ * panels;
    const int64_t grain = std::max<int64_t>(1, 20000 / (depth() * width * (rows + 4) + 1));
    if (context.pool->threads() > threads_) return range(0, tasks, 0);
    context.pool->parallel_for(tasks, grain, range);
  }

  // One channel makes each result: nothing is shared that gathering would pay for.
  template <typename B>
  void convolve_planes(const RunContext& context, const int16_t* weights, int32_t zero) const {
    const Tensor& x = *context.in[0];
    const int64_t in_size = in_[0] * in_[1] * in_[2], out_size = out_[0] * out_[1] * out_[2];
    const auto range = [&](int64_t begin, int64_t end, int) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const int64_t o = plane % outs_, channel = plane / outs_ * group_ + o / (outs_ / group_);
        const B* image = x.as<B>() + channel * in_size;
        uint32_t* y = reinterpret_cast<uint32_t*>(context.out[0]->as<int32_t>()) + plane * out_size;
        std::fill(y, y + out_size, 0u);
        for (int64_t k = 0; k < taps_; ++k) add_tap(image, static_cast<int32_t>(weights[o * row() + k]), zero, k, y);
      }
    };
    context.pool->parallel_for(x.dim(0) * outs_, 1 + 20000 / (out_size * taps_ + 1), range);
  }

  // Adds the multiple of the image that lies under one place of the kernel.
  template <typename B>
  void add_tap(const B* image, int32_t weight, int32_t zero, int64_t k, uint32_t* y) const {
    const int64_t tap[3] = {k / (window_.kernel[1] * window_.kernel[2]), k / window_.kernel[2] % window_.kernel[1],
                            k % window_.kernel[2]};
    int64_t shift[3], first[3], end[3];
    for (size_t i = 0; i < 3; ++i) {
      shift[i] = tap[i] * window_.dilation[i] - window_.begin[i];
      const int64_t stride = window_.stride[i], room = in_[i] - shift[i];
      first[i] = shift[i] >= 0 ? 0 : (stride - 1 - shift[i]) / stride;
      end[i] = room <= 0 ? 0 : std::min(out_[i], (room + stride - 1) / stride);
    }
    const int64_t stride = window_.stride[2];
    for (int64_t a = first[0]; a < end[0]; ++a)
      for (int64_t b = first[1]; b < end[1]; ++b) {
        const int64_t line = (a * window_.stride[0] + shift[0]) * in_[1] + b * window_.stride[1] + shift[1];
        const B* from = image + line * in_[2] + shift[2];
        uint32_t* to = y + (a * out_[1] + b) * out_[2];  // unsigned, where sums may wrap
        const auto term = [&](int64_t j) {
          return static_cast<uint32_t>(weight * (static_cast<int32_t>(from[j]) - zero));
        };
        if (stride == 1) {
          for (int64_t j = first[2]; j < end[2]; ++j) to[j] += term(j);
        } else {
          for (int64_t j = first[2]; j < end[2]; ++j) to[j] += term(j * stride);
        }
      }
  }

  // What lies under the windows of pixels [first, first + columns), one column each.
  template <typename B>
  void gather(const B* image, int32_t zero, int64_t first, int64_t columns, int16_t* panel) const {
    constexpr int64_t kMost = 64;
    const int64_t width = integer_panel(), in_size = in_[0] * in_[1] * in_[2];
    int64_t origin[kMost][3], place[kMost];
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t p = first + j;
      const int64_t at[3] = {p / (out_[1] * out_[2]), p / out_[2] % out_[1], p % out_[2]};
      for (size_t i = 0; i < 3; ++i) origin[j][i] = at[i] * window_.stride[i] - window_.begin[i];
    }
    const int64_t size = integer_panel_size(depth());
    std::fill(panel + std::max<int64_t>(0, size - 2 * width), panel + size, int16_t{0});  // what an odd depth lacks
    for (int64_t k = 0, n = 0; k < taps_; ++k) {
      const int64_t tap[3] = {k / (window_.kernel[1] * window_.kernel[2]) * window_.dilation[0],
                              k / window_.kernel[2] % window_.kernel[1] * window_.dilation[1],
                              k % window_.kernel[2] * window_.dilation[2]};
      for (int64_t j = 0; j < columns; ++j) {
        place[j] = 0;
        for (size_t i = 0; i < 3; ++i) {
          const int64_t at = origin[j][i] + tap[i];
          place[j] = place[j] < 0 || at < 0 || at >= in_[i] ? -1 : place[j] * in_[i] + at;
        }
      }
      for (int64_t c = 0; c < channels_; ++c, ++n) {
        const B* from = image + c * in_size;
        int16_t* to = panel + n / 2 * width * 2 + n % 2;
        for (int64_t j = 0; j < columns; ++j)
          to[2 * j] = place[j] < 0 ? int16_t{0} : static_cast<int16_t>(static_cast<int32_t>(from[place[j]]) - zero);
      }
    }
  }

  Window window_;
  std::array<int64_t, 3> in_{}, out_{};
  std::vector<int16_t> weights_;
  int64_t group_ = 1, channels_ = 0, taps_ = 0, outs_ = 0, macs_ = 0;
  int threads_ = 1;
};

std::unique_ptr<Kernel> create_conv_integer(const NodeContext&) { return std::make_unique<ConvInteger>(); }

MINNOW_OP("ConvInteger", infer_conv_integer, create_conv_integer);

}  // namespace
}  // namespace minnow
