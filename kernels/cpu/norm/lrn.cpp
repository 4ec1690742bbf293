// LRN: local response normalization across channels, y = x / (bias + alpha / size * sum of squares)^beta.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/core/interrupt.h"
#include "kernels/cpu/convert/blocks.h"
#include "kernels/cpu/machine/simd.h"
//
#include "kernels/cpu/elementwise/math-inl.h"

namespace minnow {
#ifndef MINNOW_LRN_WINDOW
#define MINNOW_LRN_WINDOW
struct LrnWindow {
  int64_t channels, before, after;  // neighbors on both sides
  double alpha, beta, bias;         // alpha already divided by the size
};
#endif
}  // namespace minnow

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {

// `n` neighboring columns of all channels, which are `stride` apart.
void LrnColumns(const float* x, float* y, int64_t n, int64_t stride, const LrnWindow& w, LongLoop* loop) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto alpha = hn::Set(d, static_cast<float>(w.alpha));
  const auto bias = hn::Set(d, static_cast<float>(w.bias));
  const auto minus_beta = hn::Set(d, static_cast<float>(-w.beta));
  HWY_ALIGN float buffer[hn::MaxLanes(d)] = {};
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t m = HWY_MIN(lanes, n - i);
    const auto load = [&](int64_t c) HWY_ATTR {
      if (m == lanes) return hn::LoadU(d, x + c * stride + i);
      std::memcpy(buffer, x + c * stride + i, static_cast<size_t>(m) * sizeof(float));
      return hn::Load(d, buffer);
    };
    const int64_t taps = 1 + HWY_MIN(w.channels, w.before) + HWY_MIN(w.channels, w.after);
    for (int64_t c = 0; c < w.channels && loop->goes_on(taps); ++c) {
      auto sum = hn::Zero(d);
      for (int64_t k = HWY_MAX(0, c - w.before); k <= HWY_MIN(w.channels - 1, c + w.after); ++k) {
        const auto v = load(k);
        sum = hn::MulAdd(v, v, sum);
      }
      const auto power = Exp(d, hn::Mul(minus_beta, Log(d, hn::MulAdd(sum, alpha, bias))));
      const auto result = hn::Mul(load(c), power);
      if (m == lanes) {
        hn::StoreU(result, d, y + c * stride + i);
      } else {
        hn::Store(result, d, buffer);
        std::memcpy(y + c * stride + i, buffer, static_cast<size_t>(m) * sizeof(float));
      }
    }
  }
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

#include "kernels/core/infer.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

HWY_EXPORT(LrnColumns);

class Lrn final : public Kernel {
 public:
  explicit Lrn(const NodeContext& node) : attrs_(node.attrs) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Shape& shape = node.in[0]->shape;
    const int64_t size = attrs_.i("size", 1);
    window_ = {shape[1],
               (size - 1) / 2,
               size - 1 - (size - 1) / 2,
               attrs_.f("alpha", 1e-4) / static_cast<double>(size),
               attrs_.f("beta", 0.75),
               attrs_.f("bias", 1)};
    batch_ = shape[0];
    spatial_ = shape.count(2, shape.rank());
    dtype_ = node.in[0]->dtype;
    *workspace = dtype_ == DType::kF32 ? 0 : 2 * shape[1] * 8 * node.threads;
    return ok();
  }

  void run(const RunContext& context) override {
    constexpr int64_t kColumns = 64;
    const int64_t width = dtype_ == DType::kF32 ? kColumns : 1;
    const int64_t pieces = (spatial_ + width - 1) / width;
    const int64_t grain = std::max<int64_t>(1, 2048 / std::max<int64_t>(1, width * window_.channels));
    context.pool->parallel_for(batch_ * pieces, grain, [&](int64_t begin, int64_t end, int worker) {
      LongLoop loop;
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t first = unit % pieces * width;
        const int64_t at = unit / pieces * window_.channels * spatial_ + first;
        if (dtype_ == DType::kF32) {
          HWY_DYNAMIC_DISPATCH(LrnColumns)
          (context.in[0]->as<float>() + at, context.out[0]->as<float>() + at, std::min(width, spatial_ - first),
           spatial_, window_, &loop);
        } else {
          one_column(context, at, static_cast<double*>(context.workspace) + 2 * worker * window_.channels, &loop);
        }
      }
    });
  }

 private:
  // Other types, in doubles: one pixel at a time.
  void one_column(const RunContext& context, int64_t at, double* x, LongLoop* loop) const {
    const size_t size = dtype_size(dtype_);
    double* y = x + window_.channels;
    for (int64_t c = 0; c < window_.channels; ++c)
      convert(dtype_, offset(context.in[0]->data, at + c * spatial_, size), DType::kF64, x + c, 1);
    const int64_t taps = 1 + std::min(window_.channels, window_.before) + std::min(window_.channels, window_.after);
    for (int64_t c = 0; c < window_.channels && loop->goes_on(taps); ++c) {
      double sum = 0;
      for (int64_t k = std::max<int64_t>(0, c - window_.before); k <= std::min(window_.channels - 1, c + window_.after);
           ++k)
        sum += x[k] * x[k];
      y[c] = x[c] / std::pow(window_.bias + window_.alpha * sum, window_.beta);
    }
    for (int64_t c = 0; c < window_.channels; ++c)
      store_block(Compute::kF64, y + c, dtype_, offset(context.out[0]->data, at + c * spatial_, size), 1);
  }

  const Attrs& attrs_;
  LrnWindow window_{};
  int64_t batch_ = 1, spatial_ = 1;
  DType dtype_ = DType::kF32;
};

std::unique_ptr<Kernel> create(const NodeContext& node) { return std::make_unique<Lrn>(node); }

Status infer_lrn(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(infer_same(c));
  if (!is_float(c.in(0).dtype)) return fail(Code::kFormat, "takes floats, not %s", dtype_name(c.in(0).dtype));
  if (c.shape(0).rank() < 2) return fail(Code::kFormat, "needs rank 2 or more, not shape %s", c.shape(0).str().c_str());
  if (c.attrs.i("size", 0) < 1)
    return fail(Code::kFormat, "a window of %lld channels", static_cast<long long>(c.attrs.i("size", 0)));
  return ok();
}

MINNOW_OP("LRN", infer_lrn);
MINNOW_KERNEL("LRN", create);

}  // namespace
}  // namespace minnow
#endif  // HWY_ONCE
