// GridSample: an image interpolated at places that are data. For some places at a time a table of elements and weights
// is made, which all channels then use.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/core/interrupt.h"
#include "kernels/cpu/convert/operand.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

constexpr int kMaxAxes = 3;
constexpr int64_t kPlaces = 128;  // in a table

enum class SampleMode { kNearest, kLinear, kCubic };
enum class Padding { kZeros, kBorder, kReflection };

struct Sampler {
  SampleMode mode = SampleMode::kLinear;
  Padding padding = Padding::kZeros;
  bool align_corners = false;
  int axes = 2;
  int64_t size[kMaxAxes] = {};  // of the image, the last axis first, as the grid has them

  int taps() const { return mode == SampleMode::kNearest ? 1 : mode == SampleMode::kLinear ? 2 : 4; }
  int elements() const { return static_cast<int>(std::pow(taps(), axes)); }

  // Mirrors at the centers of the outermost elements, or at their outer edges, until inside.
  template <typename F>
  F reflect(F at, int64_t n) const {
    const F low = align_corners ? F(0) : -F(0.5), span = static_cast<F>(align_corners ? n - 1 : n);
    if (span <= 0) return 0;
    const F away = std::fabs(at - low), turns = std::floor(away / span), rest = away - turns * span;
    return std::fmod(turns, F(2)) == 0 ? low + rest : low + span - rest;
  }

  // The taps of one axis: elements, -1 for those that are 0, and their weights.
  template <typename F>
  void axis_taps(F g, int64_t n, int32_t* index, F* weight) const {
    const F last = static_cast<F>(n - 1);
    F at = align_corners ? (g + 1) / 2 * last : ((g + 1) * static_cast<F>(n) - 1) / 2;
    if (mode != SampleMode::kCubic && padding != Padding::kZeros) {
      if (padding == Padding::kReflection) at = reflect(at, n);
      at = std::min(std::max(at, F{0}), last);
    }
    if (!(std::fabs(at) < F(1e9))) at = -F(1e9);  // NaN, or as good as infinite: far outside
    const F base = mode == SampleMode::kNearest ? std::nearbyint(at) : std::floor(at), part = at - base;
    switch (mode) {
      case SampleMode::kNearest:
        weight[0] = 1;
        break;
      case SampleMode::kLinear:
        weight[0] = 1 - part;
        weight[1] = part;
        break;
      case SampleMode::kCubic: {
        constexpr F a = -F(0.75);
        const auto near = [](F d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
        const auto far = [](F d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
        weight[0] = far(part + 1);
        weight[1] = near(part);
        weight[2] = near(1 - part);
        weight[3] = far(2 - part);
      }
    }
    for (int k = 0; k < taps(); ++k) {
      F place = base + static_cast<F>(mode == SampleMode::kCubic ? k - 1 : k);
      if (padding == Padding::kZeros) {
        // Of more than 2^24 elements the number of the last, as a float, may be that of the next one.
        index[k] = place >= 0 && static_cast<int64_t>(place) < n ? static_cast<int32_t>(place) : -1;
      } else {
        if (padding == Padding::kReflection) place = reflect(place, n);
        index[k] = static_cast<int32_t>(std::min(static_cast<int64_t>(std::max(place, F(0))), n - 1));
      }
    }
  }

  // All taps at one place: element numbers in a plane of the image (-1: zero), and weights.
  template <typename F>
  void place_taps(const F* grid, int32_t* element, F* weight) const {
    element[0] = 0;
    weight[0] = 1;
    int count = 1, stride = 1;
    for (int axis = 0; axis < axes; ++axis) {
      int32_t index[4];
      F w[4];
      axis_taps(grid[axis], size[axis], index, w);
      // The taps so far, once for each tap of this axis; backwards, as the first copy takes their own place.
      for (int k = taps() - 1; k >= 0; --k) {
        for (int i = 0; i < count; ++i) {
          const bool zero = index[k] < 0 || element[i] < 0;
          element[k * count + i] = zero ? -1 : element[i] + index[k] * stride;
          weight[k * count + i] = weight[i] * w[k];
        }
      }
      count *= taps();
      stride *= static_cast<int>(size[axis]);
    }
  }
};

// kElements is the number of taps when known at compile time, else 0.
template <int kElements, typename F>
void sample_plane(const F* plane, const int32_t* element, const F* weight, int elements, int64_t n, F* y) {
  const int count = kElements > 0 ? kElements : elements;
  for (int64_t i = 0; i < n; ++i, element += count, weight += count) {
    F sum = 0;
    for (int k = 0; k < count; ++k) sum += weight[k] * (element[k] < 0 ? F(0) : plane[element[k]]);
    y[i] = sum;
  }
}

Status read_sampler(const Attrs& attrs, const Shape& x, Sampler* s) {
  const std::string mode = attrs.s("mode", "linear"), padding = attrs.s("padding", "zeros");
  if (mode != "linear" && mode != "nearest" && mode != "cubic")
    return fail(Code::kUnsupported, "mode '%s'; known are linear, nearest and cubic", mode.c_str());
  if (padding != "zeros" && padding != "border" && padding != "reflection")
    return fail(Code::kUnsupported, "padding '%s'; known are zeros, border and reflection", padding.c_str());
  s->mode = mode == "nearest" ? SampleMode::kNearest : mode == "linear" ? SampleMode::kLinear : SampleMode::kCubic;
  s->padding = padding == "zeros" ? Padding::kZeros : padding == "border" ? Padding::kBorder : Padding::kReflection;
  s->align_corners = attrs.b("align_corners", false);
  s->axes = x.rank() - 2;
  for (int k = 0; k < s->axes; ++k) s->size[k] = x.at(-1 - k);
  return ok();
}

Status infer_grid_sample(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  MINNOW_RETURN_IF_ERROR(require_rank(c, 0, 3, 2 + kMaxAxes));
  const DType dtype = c.in(0).dtype;
  MINNOW_RETURN_IF_ERROR(require_dtype(c, 1, dtype));
  if (dtype != DType::kF32 && dtype != DType::kF64)
    return fail(Code::kUnsupported, "an image of %s; f32 and f64 are sampled", dtype_name(dtype));
  const Shape &x = c.shape(0), &grid = c.shape(1);
  Sampler sampler;
  MINNOW_RETURN_IF_ERROR(read_sampler(c.attrs, x, &sampler));
  if (grid.rank() != x.rank() || grid[0] != x[0] || grid.at(-1) != sampler.axes)
    return fail(Code::kFormat, "a grid of shape %s for an image of shape %s", grid.str().c_str(), x.str().c_str());
  Shape y{x[0], x[1]};
  for (int k = 1; k < grid.rank() - 1; ++k) y.push_back(grid[k]);
  const int64_t plane = x.count(2, x.rank());
  if (plane == 0 && y.count() != 0) return fail(Code::kFormat, "the image %s has no elements", x.str().c_str());
  if (plane > std::numeric_limits<int32_t>::max())
    return fail(Code::kUnsupported, "the image %s is too large", x.str().c_str());
  c.set(0, dtype, y);
  return check_shape(y);
}

// F: float or double, of the image, the grid and all between.
template <typename F>
class GridSampleKernel final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    MINNOW_RETURN_IF_ERROR(read_sampler(node.attrs, node.in[0]->shape, &sampler_));
    threads_ = std::max(1, node.threads);
    table_ = kPlaces * sampler_.elements();
    words_ = table_ * static_cast<int64_t>(1 + sizeof(F) / sizeof(int32_t));
    *workspace = threads_ * words_ * static_cast<int64_t>(sizeof(int32_t));
    return ok();
  }

  void run(const RunContext& c) override {
    const Tensor& x = *c.in[0];
    Tensor& y = *c.out[0];
    if (y.count() == 0) return;
    const int64_t channels = x.dim(1), plane = x.shape().count(2, x.rank()), places = y.shape().count(2, y.rank());
    const int64_t tables = (places + kPlaces - 1) / kPlaces;
    const int elements = sampler_.elements();
    auto range = [&](int64_t begin, int64_t end, int worker) {
      int32_t* element = static_cast<int32_t*>(c.workspace) + worker * words_;
      F* weight = reinterpret_cast<F*>(element + table_);
      LongLoop loop;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t image = task / tables, first = task % tables * kPlaces, n = std::min(kPlaces, places - first);
        const F* grid = c.in[1]->as<F>() + (image * places + first) * sampler_.axes;
        for (int64_t i = 0; i < n; ++i)
          sampler_.place_taps(grid + i * sampler_.axes, element + i * elements, weight + i * elements);
        for (int64_t channel = image * channels; channel < (image + 1) * channels && loop.goes_on(n * elements);
             ++channel)
          sample(x.as<F>() + channel * plane, element, weight, n, y.as<F>() + channel * places + first);
      }
    };
    const int64_t tasks = x.dim(0) * tables;
    if (c.pool->threads() > threads_) return range(0, tasks, 0);
    c.pool->parallel_for(tasks, 16384 / (kPlaces * elements * (channels + 4)) + 1, range);
  }

 private:
  void sample(const F* plane, const int32_t* element, const F* weight, int64_t n, F* y) const {
    switch (sampler_.elements()) {
      case 1:
        return sample_plane<1>(plane, element, weight, 1, n, y);
      case 4:
        return sample_plane<4>(plane, element, weight, 4, n, y);
      default:
        return sample_plane<0>(plane, element, weight, sampler_.elements(), n, y);
    }
  }

  Sampler sampler_;
  int threads_ = 1;
  int64_t table_ = 0;  // elements in the table of a thread
  int64_t words_ = 0;  // of 4 bytes, which it takes
};

std::unique_ptr<Kernel> create_grid_sample(const NodeContext& node) {
  if (node.in[0]->dtype == DType::kF64) return std::make_unique<GridSampleKernel<double>>();
  return std::make_unique<GridSampleKernel<float>>();
}

MINNOW_OP("GridSample", infer_grid_sample);
MINNOW_KERNEL("GridSample", create_grid_sample);

}  // namespace
}  // namespace minnow
