// Pooling by the p-norm: (sum of |x|^p under the window)^(1/p). Rare, so one plain loop serves every case that the
// planner has no other form for.
#include <algorithm>
#include <cmath>

#include "kernels/core/interrupt.h"
#include "kernels/core/window.h"
#include "kernels/core/infer.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

Status check(const InferContext& c) {
  const DType t = c.in(0).dtype;
  if (t != DType::kF32 && t != DType::kF64) return fail(Code::kUnsupported, "inputs of %s", dtype_name(t));
  if (c.shape(0).rank() < 2) return fail(Code::kFormat, "the input %s has no channels", c.shape(0).str().c_str());
  if (c.attrs.i("p", 2) < 1) return fail(Code::kFormat, "p is %lld", static_cast<long long>(c.attrs.i("p", 2)));
  return ok();
}

Status infer_lp(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  MINNOW_RETURN_IF_ERROR(check(c));
  Window window;
  MINNOW_RETURN_IF_ERROR(read_window(c.attrs, c.shape(0), c.attrs.ints("kernel"), &window));
  std::array<int64_t, 3> out{};
  MINNOW_RETURN_IF_ERROR(slide_window(window, c.shape(0), c.attrs.b("ceil_mode"), &out));
  Shape shape{c.shape(0)[0], c.shape(0)[1]};
  for (int i = 0; i < window.rank; ++i) shape.push_back(out[static_cast<size_t>(i)]);
  c.set(0, c.in(0).dtype, shape);
  return ok();
}

Status infer_global_lp(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  MINNOW_RETURN_IF_ERROR(check(c));
  Shape shape{c.shape(0)[0], c.shape(0)[1]};
  shape.resize(c.shape(0).rank(), 1);
  c.set(0, c.in(0).dtype, shape);
  return ok();
}

void run_window(const Window& w, double p, const RunContext& context) {
  const Tensor& x = *context.in[0];
  const bool wide = x.type.dtype == DType::kF64;
  Tensor& y = *context.out[0];
  const std::array<int64_t, 3> in = spatial_3d(x.shape()), out = spatial_3d(y.shape());
  const int64_t in_size = in[0] * in[1] * in[2], out_size = out[0] * out[1] * out[2];
  context.pool->parallel_for(x.shape().count(0, 2), 1, [&](int64_t begin, int64_t end, int) {
    LongLoop loop;
    for (int64_t plane = begin; plane < end; ++plane) {
      for (int64_t i = 0; i < out_size; ++i) {
        const std::array<int64_t, 3> at{i / (out[1] * out[2]), i / out[2] % out[1], i % out[2]};
        std::array<int64_t, 3> first{};
        std::array<Taps, 3> taps{};
        for (size_t k = 0; k < 3; ++k) {
          first[k] = at[k] * w.stride[k] - w.begin[k];
          taps[k] = taps_inside(first[k], in[k], w.kernel[k], w.dilation[k]);
        }
        const auto number = [&](size_t k) { return taps[k].end - taps[k].begin; };
        if (!loop.goes_on(16 * (1 + number(0) * number(1) * number(2)))) return;
        double sum = 0;
        for (int64_t a = taps[0].begin; a < taps[0].end; ++a)
          for (int64_t b = taps[1].begin; b < taps[1].end; ++b)
            for (int64_t c = taps[2].begin; c < taps[2].end; ++c) {
              const int64_t row = (first[0] + a * w.dilation[0]) * in[1] + first[1] + b * w.dilation[1];
              const int64_t from = plane * in_size + row * in[2] + first[2] + c * w.dilation[2];
              sum += std::pow(std::fabs(wide ? x.as<double>()[from] : x.as<float>()[from]), p);
            }
        const double root = std::pow(sum, 1 / p);
        if (wide) {
          y.as<double>()[plane * out_size + i] = root;
        } else {
          y.as<float>()[plane * out_size + i] = static_cast<float>(root);
        }
      }
    }
  });
}

void run_lp(const Attrs& attrs, const RunContext& context) {
  Window window;
  // The same attributes and shape passed infer, so this cannot fail.
  (void)read_window(attrs, context.in[0]->shape(), attrs.ints("kernel"), &window).ok();
  run_window(as_3d(window), static_cast<double>(attrs.i("p", 2)), context);
}

void run_global_lp(const Attrs& attrs, const RunContext& context) {
  Window window;
  window.kernel = spatial_3d(context.in[0]->shape());
  run_window(window, static_cast<double>(attrs.i("p", 2)), context);
}

MINNOW_OP("LpPool", infer_lp);
MINNOW_KERNEL("LpPool", create_simple<run_lp>);
MINNOW_OP("GlobalLpPool", infer_global_lp);
MINNOW_KERNEL("GlobalLpPool", create_simple<run_global_lp>);

}  // namespace
}  // namespace minnow
