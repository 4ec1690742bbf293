// MaxRoiPool: the largest element in each bin of regions of images.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/core/interrupt.h"
#include "kernels/cpu/convert/operand.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

constexpr int64_t kMostBins = 1 << 16;  // bins along an axis

Status infer_roi_pool(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  MINNOW_RETURN_IF_ERROR(require_rank(c, 0, 4, 4));
  const DType dtype = c.in(0).dtype;
  MINNOW_RETURN_IF_ERROR(require_dtype(c, 1, dtype));
  if (dtype != DType::kF32 && dtype != DType::kF64)
    return fail(Code::kUnsupported, "an image of %s; f32 and f64 are pooled", dtype_name(dtype));
  const int64_t height = c.attrs.i("height"), width = c.attrs.i("width");
  if (std::min(height, width) < 1 || std::max(height, width) > kMostBins)
    return fail(Code::kFormat, "%lld x %lld bins", static_cast<long long>(height), static_cast<long long>(width));
  const Shape &x = c.shape(0), &rois = c.shape(1);
  if (rois.rank() != 2 || rois[1] != 5) return fail(Code::kFormat, "regions must be [n,5], not %s", rois.str().c_str());
  const Shape y{rois[0], x[1], height, width};
  c.set(0, dtype, y);
  return check_shape(y);
}

struct Range {
  int64_t begin, end;
};

// The elements of bin `i` along an axis of `size` elements.
template <typename F>
Range bin(int64_t i, int64_t bins, F start, F last, int64_t size) {
  const F length = std::max(last - start + 1, F(1)), step = length / static_cast<F>(bins);
  const auto inside = [&](F at) {
    at += start;
    // As a float the size may be larger.
    return at > 0 ? std::min(static_cast<int64_t>(std::min(at, static_cast<F>(size))), size) : 0;
  };
  return {inside(std::floor(static_cast<F>(i) * step)), inside(std::ceil(static_cast<F>(i + 1) * step))};
}

template <typename F>
void pool(const Attrs& attrs, const RunContext& c) {
  const Tensor& x = *c.in[0];
  const F* rois = c.in[1]->as<F>();
  const int64_t count = c.in[1]->dim(0), channels = x.dim(1), rows = x.dim(2), columns = x.dim(3);
  const int64_t height = attrs.i("height"), width = attrs.i("width");
  const F scale = static_cast<float>(attrs.f("scale", 1));
  for (int64_t r = 0; r < count; ++r)
    if (!(rois[5 * r] >= 0 && rois[5 * r] < static_cast<F>(x.dim(0))))
      return c.report(fail(Code::kUsage, "region %lld is of image %g; there are %lld", static_cast<long long>(r),
                           static_cast<double>(rois[5 * r]), static_cast<long long>(x.dim(0))));
  c.pool->parallel_for(count * channels, 1, [&](int64_t begin, int64_t end, int) {
    LongLoop loop;
    for (int64_t task = begin; task < end; ++task) {
      const F* roi = rois + 5 * (task / channels);
      const F* image = x.as<F>() + (static_cast<int64_t>(roi[0]) * channels + task % channels) * rows * columns;
      F* y = c.out[0]->as<F>() + task * height * width;
      F edge[4];
      for (int i = 0; i < 4; ++i) edge[i] = std::round(roi[1 + i] * scale);
      for (int64_t i = 0; i < height; ++i) {
        const Range h = bin(i, height, edge[1], edge[3], rows);
        for (int64_t j = 0; j < width; ++j) {
          const Range w = bin(j, width, edge[0], edge[2], columns);
          if (!loop.goes_on(8 + (h.end - h.begin) * (w.end - w.begin))) return;
          F most = h.begin < h.end && w.begin < w.end ? -std::numeric_limits<F>::infinity() : F(0);
          for (int64_t p = h.begin; p < h.end; ++p)
            for (int64_t q = w.begin; q < w.end; ++q) {
              const F v = image[p * columns + q];
              most = v > most || std::isnan(v) ? v : most;
            }
          y[i * width + j] = most;
        }
      }
    }
  });
}

void run_roi_pool(const Attrs& attrs, const RunContext& c) {
  c.in[0]->type.dtype == DType::kF64 ? pool<double>(attrs, c) : pool<float>(attrs, c);
}

MINNOW_OP("MaxRoiPool", infer_roi_pool);
MINNOW_KERNEL("MaxRoiPool", create_simple<run_roi_pool>);

}  // namespace
}  // namespace minnow
