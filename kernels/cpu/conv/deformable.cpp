// DeformConv: a convolution whose taps are moved by offsets that are data. What they find is gathered for a few
// pixels at a time, as the columns of a matrix, which the weights are multiplied with.
#include <algorithm>
#include <cmath>

#include "kernels/core/interrupt.h"
#include "kernels/core/window.h"
#include "kernels/core/infer.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

using LongLong = long long;
constexpr int64_t kPixels = 32;  // gathered together

Status infer_deform_conv(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 3));
  const Shape &x = c.shape(0), &w = c.shape(1), &offset = c.shape(2);
  for (int i = 0; i < c.num_inputs(); ++i)
    if (c.has(i) && c.in(i).dtype != DType::kF32)
      return fail(Code::kUnsupported, "input %d is %s; only f32 is computed", i, dtype_name(c.in(i).dtype));
  if (x.rank() != 4 || w.rank() != 4 || offset.rank() != 4)
    return fail(Code::kUnsupported, "input, weights and offsets must have rank 4, not the shapes %s, %s, %s",
                x.str().c_str(), w.str().c_str(), offset.str().c_str());
  const int64_t group = c.attrs.i("group", 1), parts = c.attrs.i("offset_group", 1);
  if (group < 1 || w[0] % group != 0 || x[1] % group != 0 || w[1] != x[1] / group)
    return fail(Code::kFormat, "weights of shape %s in %lld groups do not fit an input of shape %s", w.str().c_str(),
                static_cast<LongLong>(group), x.str().c_str());
  if (parts < 1 || x[1] % parts != 0)
    return fail(Code::kFormat, "%lld groups of offsets for %lld channels", static_cast<LongLong>(parts),
                static_cast<LongLong>(x[1]));
  Window window;
  MINNOW_RETURN_IF_ERROR(read_window(c.attrs, x, {w[2], w[3]}, &window));
  std::array<int64_t, 3> size;
  MINNOW_RETURN_IF_ERROR(slide_window(window, x, false, &size));
  const int64_t moved = Shape{parts, w[2], w[3]}.count(), both = Shape{2, moved}.count();
  if (!(offset == Shape{x[0], both, size[0], size[1]}))
    return fail(Code::kFormat, "offsets of shape %s instead of [%lld,%lld,%lld,%lld]", offset.str().c_str(),
                static_cast<LongLong>(x[0]), static_cast<LongLong>(both), static_cast<LongLong>(size[0]),
                static_cast<LongLong>(size[1]));
  if (c.has(3) && !(c.shape(3) == Shape{w[0]}))
    return fail(Code::kFormat, "a bias of shape %s for %lld output channels", c.shape(3).str().c_str(),
                static_cast<LongLong>(w[0]));
  if (c.has(4) && !(c.shape(4) == Shape{x[0], moved, size[0], size[1]}))
    return fail(Code::kFormat, "a mask of shape %s", c.shape(4).str().c_str());
  c.set(0, DType::kF32, Shape{x[0], w[0], size[0], size[1]});
  return ok();
}

// The elements around a place, and what each counts; nothing counts outside.
struct Corners {
  int64_t at[4];
  float weight[4];
};

Corners corners(float y, float x, int64_t height, int64_t width, float mask) {
  Corners c{};
  if (!(y > -1 && x > -1 && y < static_cast<float>(height) && x < static_cast<float>(width))) return c;
  const float top = std::floor(y), left = std::floor(x);
  const float part[2] = {y - top, x - left};
  for (int k = 0; k < 4; ++k) {
    const int64_t row = static_cast<int64_t>(top) + k / 2, column = static_cast<int64_t>(left) + k % 2;
    if (row < 0 || row >= height || column < 0 || column >= width) continue;
    c.at[k] = row * width + column;
    c.weight[k] = (k / 2 == 0 ? 1 - part[0] : part[0]) * (k % 2 == 0 ? 1 - part[1] : part[1]) * mask;
  }
  return c;
}

class DeformConv final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Shape &x = node.in[0]->shape, &w = node.in[1]->shape;
    MINNOW_RETURN_IF_ERROR(read_window(node.attrs, x, {w[2], w[3]}, &window_));
    group_ = node.attrs.i("group", 1);
    parts_ = node.attrs.i("offset_group", 1);
    threads_ = std::max(1, node.threads);
    depth_ = x[1] * w[2] * w[3];
    macs_ = Shape{node.out[0]->count(), w.count(1, 4)}.count();
    *workspace = threads_ * depth_ * kPixels * static_cast<int64_t>(sizeof(float));
    return ok();
  }

  void run(const RunContext& c) override {
    const int64_t pixels = c.out[0]->dim(2) * c.out[0]->dim(3), blocks = (pixels + kPixels - 1) / kPixels;
    const auto range = [&](int64_t begin, int64_t end, int worker) {
      float* columns = static_cast<float*>(c.workspace) + worker * depth_ * kPixels;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t n = task / blocks, first = task % blocks * kPixels, count = std::min(kPixels, pixels - first);
        gather(c, n, first, count, columns);
        multiply(c, n, first, count, columns);
      }
    };
    if (c.pool->threads() > threads_) return range(0, c.in[0]->dim(0) * blocks, 0);
    c.pool->parallel_for(c.in[0]->dim(0) * blocks, 1, range);
  }

  [[gnu::cold]] Profile profile() const override { return {"im2col", macs_}; }

 private:
  static const float* input(const RunContext& c, size_t i) {
    return i < c.in.size() && c.in[i] != nullptr ? c.in[i]->as<float>() : nullptr;
  }

  // columns[channel][tap][pixel]
  void gather(const RunContext& c, int64_t n, int64_t first, int64_t count, float* columns) const {
    const Tensor& x = *c.in[0];
    const float *offset = input(c, 2), *mask = input(c, 4);
    const int64_t channels = x.dim(1), height = x.dim(2), width = x.dim(3), out_width = c.out[0]->dim(3);
    const int64_t pixels = c.out[0]->dim(2) * out_width, taps = window_.kernel[0] * window_.kernel[1];
    const int64_t each = channels / parts_;
    LongLoop loop;
    for (int64_t part = 0; part < parts_; ++part)
      for (int64_t k = 0; k < taps && loop.goes_on(count * (8 + 4 * each)); ++k) {
        const int64_t tap = (n * parts_ + part) * taps + k;
        for (int64_t j = 0; j < count; ++j) {
          const int64_t p = first + j;
          const int64_t row = p / out_width * window_.stride[0] - window_.begin[0];
          const int64_t column = p % out_width * window_.stride[1] - window_.begin[1];
          const int64_t down = k / window_.kernel[1] * window_.dilation[0];
          const int64_t right = k % window_.kernel[1] * window_.dilation[1];
          const Corners at = corners(static_cast<float>(row + down) + offset[2 * tap * pixels + p],
                                     static_cast<float>(column + right) + offset[(2 * tap + 1) * pixels + p], height,
                                     width, mask == nullptr ? 1.0f : mask[tap * pixels + p]);
          for (int64_t i = part * each; i < (part + 1) * each; ++i) {
            const float* image = x.as<float>() + (n * channels + i) * height * width;
            float sum = 0;
            for (int q = 0; q < 4; ++q)
              if (at.weight[q] != 0) sum += at.weight[q] * image[at.at[q]];
            columns[(i * taps + k) * kPixels + j] = sum;
          }
        }
      }
  }

  void multiply(const RunContext& c, int64_t n, int64_t first, int64_t count, const float* columns) const {
    const Tensor& w = *c.in[1];
    const float* bias = input(c, 3);
    const int64_t outs = w.dim(0), depth = depth_ / group_, pixels = c.out[0]->dim(2) * c.out[0]->dim(3);
    LongLoop loop;
    for (int64_t o = 0; o < outs && loop.goes_on(depth * count / 8); ++o) {
      const float *weights = w.as<float>() + o * depth, *from = columns + o / (outs / group_) * depth * kPixels;
      float sum[kPixels];
      std::fill(sum, sum + kPixels, bias == nullptr ? 0.0f : bias[o]);
      for (int64_t k = 0; k < depth; ++k, from += kPixels)
        for (int64_t j = 0; j < count; ++j) sum[j] += weights[k] * from[j];
      std::copy(sum, sum + count, c.out[0]->as<float>() + (n * outs + o) * pixels + first);
    }
  }

  Window window_;
  int64_t group_ = 1, parts_ = 1, depth_ = 0, macs_ = 0;
  int threads_ = 1;
};

std::unique_ptr<Kernel> create_deform_conv(const NodeContext&) { return std::make_unique<DeformConv>(); }

MINNOW_OP("DeformConv", infer_deform_conv);
MINNOW_KERNEL("DeformConv", create_deform_conv);

}  // namespace
}  // namespace minnow
