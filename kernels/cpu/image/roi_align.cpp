// RoiAlign. The bilinear samples of a bin weigh an element by a product of one number for its row and one for its
// column, so each region needs two small tables and no list of samples, however many there are.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/core/interrupt.h"
#include "kernels/cpu/convert/operand.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

constexpr int64_t kMostSamples = 1 << 16;  // bins along an axis, samples along a bin

struct RoiAlignSettings {
  bool max = false;
  bool half_pixel = true;
  int64_t height = 1, width = 1, ratio = 0;
  float scale = 1;
};

Status read_roi_align(const Attrs& attrs, RoiAlignSettings* s) {
  const std::string mode = attrs.s("mode", "avg"), coordinates = attrs.s("coordinate_mode", "half_pixel");
  if (mode != "avg" && mode != "max") return fail(Code::kUnsupported, "mode '%s'; known are avg and max", mode.c_str());
  if (coordinates != "half_pixel" && coordinates != "output_half_pixel")
    return fail(Code::kUnsupported, "coordinate_mode '%s'", coordinates.c_str());
  s->max = mode == "max";
  s->half_pixel = coordinates == "half_pixel";
  s->height = attrs.i("output_height", 1);
  s->width = attrs.i("output_width", 1);
  s->ratio = attrs.i("sampling_ratio", 0);
  s->scale = static_cast<float>(attrs.f("spatial_scale", 1));
  if (std::min(s->height, s->width) < 1 || s->ratio < 0 || std::max({s->height, s->width, s->ratio}) > kMostSamples)
    return fail(Code::kFormat, "output_height, output_width and sampling_ratio are %lld, %lld, %lld",
                static_cast<long long>(s->height), static_cast<long long>(s->width), static_cast<long long>(s->ratio));
  return ok();
}

// What the samples of each bin take of the elements of one axis. Of an element's weights: the sum for the mean; for
// the maximum, the largest counts where the element is positive, the smallest where it is negative.
template <typename F>
struct AxisTable {
  int64_t size = 0;  // elements of the axis
  int64_t* begin = nullptr;
  int64_t* end = nullptr;      // of the elements that bin k takes
  int64_t* outside = nullptr;  // whether some of its samples are outside, where everything is 0
  F* most = nullptr;           // [bins, size]: the sum or the largest weight
  F* least = nullptr;          // only for the maximum
  F samples = 0;               // in each bin

  static int64_t bytes(int64_t bins, int64_t size) {
    return bins * static_cast<int64_t>(3 * sizeof(int64_t)) + bins * size * static_cast<int64_t>(2 * sizeof(F));
  }
  char* place(char* memory, int64_t bins, int64_t n) {
    size = n;
    begin = reinterpret_cast<int64_t*>(memory);
    end = begin + bins;
    outside = end + bins;
    most = reinterpret_cast<F*>(outside + bins);
    least = most + bins * n;
    return reinterpret_cast<char*>(least + bins * n);
  }

  // False where the run is to end: then not all bins are there.
  bool build(const RoiAlignSettings& s, F start, F length, int64_t bins) {
    LongLoop loop;
    const F bin = length / static_cast<F>(bins);
    samples = s.ratio > 0 ? static_cast<F>(s.ratio) : std::max(std::ceil(bin), F(0));
    if (!(samples < F(1e12))) samples = 0;  // a region that is not a number has no samples
    for (int64_t k = 0; k < bins; ++k) {
      begin[k] = size;
      end[k] = 0;
      const F base = start + static_cast<F>(k) * bin;
      // Of very many samples, as a huge region has them, only those near the image are looked at.
      double first = 0, last = static_cast<double>(samples) - 1;
      const double step = static_cast<double>(bin) / static_cast<double>(samples);
      if (step > 0) {
        const double low = std::ceil((-1 - static_cast<double>(base)) / step) - 2;
        const double high = std::floor((static_cast<double>(size) - static_cast<double>(base)) / step) + 2;
        first = std::max(first, low);
        last = std::min(last, high);
      }
      outside[k] = first > 0 || last < static_cast<double>(samples) - 1;
      for (double i = first; i <= last; ++i) {
        if (!loop.goes_on(8)) return false;
        add(s.max, k, base + (static_cast<F>(i) + F(0.5)) * bin / samples);
      }
    }
    return true;
  }

  void add(bool max, int64_t bin, F at) {
    if (!(at >= -1 && at <= static_cast<F>(size))) {
      outside[bin] = 1;
      return;
    }
    at = std::min(std::max(at, F(0)), static_cast<F>(size - 1));
    const int64_t low = std::min(static_cast<int64_t>(at), size - 1), high = std::min(low + 1, size - 1);
    const F part = at - static_cast<F>(low);
    add(max, bin, low, 1 - part);
    add(max, bin, high, part);
  }

  void add(bool max, int64_t bin, int64_t element, F weight) {
    F *m = most + bin * size, *l = least + bin * size;
    // Elements get their first weight when the range reaches them; those between get none.
    if (begin[bin] >= end[bin]) {
      begin[bin] = element;
      end[bin] = element;
    }
    const auto open = [&](int64_t e) {
      m[e] = max ? -F(1) : F(0);  // -1: not taken
      l[e] = F(2);
    };
    while (begin[bin] > element) open(--begin[bin]);
    while (end[bin] <= element) open(end[bin]++);
    m[element] = max ? std::max(m[element], weight) : m[element] + weight;
    l[element] = std::min(l[element], weight);
  }
};

template <typename F>
void average(const F* image, const AxisTable<F>& rows, const AxisTable<F>& columns, int64_t height, int64_t width,
             F* line, F* y) {
  const int64_t first = *std::min_element(columns.begin, columns.begin + width);
  const int64_t last = *std::max_element(columns.end, columns.end + width);
  const F count = rows.samples * columns.samples;
  for (int64_t i = 0; i < height; ++i) {
    for (int64_t w = first; w < last; ++w) line[w] = 0;
    for (int64_t h = rows.begin[i]; h < rows.end[i]; ++h) {
      const F weight = rows.most[i * rows.size + h];
      const F* row = image + h * columns.size;
      for (int64_t w = first; w < last; ++w) line[w] += weight * row[w];
    }
    for (int64_t j = 0; j < width; ++j) {
      F sum = 0;
      for (int64_t w = columns.begin[j]; w < columns.end[j]; ++w) sum += columns.most[j * columns.size + w] * line[w];
      y[i * width + j] = count > 0 ? sum / count : 0;
    }
  }
}

template <typename F>
void maximum(const F* image, const AxisTable<F>& rows, const AxisTable<F>& columns, int64_t height, int64_t width,
             F* y) {
  const bool none = rows.samples * columns.samples <= 0;
  for (int64_t i = 0; i < height; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      F best = none || rows.outside[i] != 0 || columns.outside[j] != 0 ? F(0) : -std::numeric_limits<F>::infinity();
      for (int64_t h = rows.begin[i]; h < rows.end[i] && !none; ++h) {
        const F row_most = rows.most[i * rows.size + h], row_least = rows.least[i * rows.size + h];
        if (row_most < 0) continue;
        for (int64_t w = columns.begin[j]; w < columns.end[j]; ++w) {
          const F column_most = columns.most[j * columns.size + w];
          if (column_most < 0) continue;
          const F v = image[h * columns.size + w];
          const F weight = v > 0 ? row_most * column_most : row_least * columns.least[j * columns.size + w];
          best = std::max(best, weight * v);
        }
      }
      y[i * width + j] = best;
    }
  }
}

Status infer_roi_align(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 3));
  MINNOW_RETURN_IF_ERROR(require_rank(c, 0, 4, 4));
  MINNOW_RETURN_IF_ERROR(require_int(c, 2));
  const DType dtype = c.in(0).dtype;
  MINNOW_RETURN_IF_ERROR(require_dtype(c, 1, dtype));
  if (dtype != DType::kF32 && dtype != DType::kF64)
    return fail(Code::kUnsupported, "an image of %s; f32 and f64 are sampled", dtype_name(dtype));
  RoiAlignSettings s;
  MINNOW_RETURN_IF_ERROR(read_roi_align(c.attrs, &s));
  const Shape &x = c.shape(0), &rois = c.shape(1), &images = c.shape(2);
  if (rois.rank() != 2 || rois[1] != 4 || images.rank() != 1 || images[0] != rois[0])
    return fail(Code::kFormat, "rois and batch_indices must be [n,4] and [n], not %s and %s", rois.str().c_str(),
                images.str().c_str());
  const Shape y{rois[0], x[1], s.height, s.width};
  if (x[2] * x[3] == 0 && y.count() != 0) return fail(Code::kFormat, "the image %s has no elements", x.str().c_str());
  c.set(0, dtype, y);
  return check_shape(y);
}

// F: float or double, of the image, the regions and all between.
template <typename F>
class RoiAlignKernel final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    MINNOW_RETURN_IF_ERROR(read_roi_align(node.attrs, &settings_));
    const Shape& x = node.in[0]->shape;
    threads_ = std::max(1, node.threads);
    // Tables of rows and of columns, and one line of the image.
    bytes_ = AxisTable<F>::bytes(settings_.height, x[2]) + AxisTable<F>::bytes(settings_.width, x[3]);
    bytes_ = (bytes_ + x[3] * static_cast<int64_t>(sizeof(F)) + 63) / 64 * 64;
    *workspace = threads_ * bytes_;
    return ok();
  }

  void run(const RunContext& c) override {
    const Tensor& x = *c.in[0];
    const F* rois = c.in[1]->as<F>();
    const IntView images(*c.in[2]);
    for (int64_t r = 0; r < images.size(); ++r)
      if (images[r] < 0 || images[r] >= x.dim(0))
        return c.report(fail(Code::kUsage, "region %lld is of image %lld; there are %lld", static_cast<long long>(r),
                             static_cast<long long>(images[r]), static_cast<long long>(x.dim(0))));
    if (c.out[0]->count() == 0) return;
    const RoiAlignSettings& s = settings_;
    const F scale = s.scale;
    const int64_t channels = x.dim(1), height = x.dim(2), width = x.dim(3);
    auto range = [&](int64_t begin, int64_t end, int worker) {
      AxisTable<F> rows, columns;
      char* memory = static_cast<char*>(c.workspace) + worker * bytes_;
      memory = rows.place(memory, s.height, height);
      F* line = reinterpret_cast<F*>(columns.place(memory, s.width, width));
      int64_t built = -1;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t r = task / channels;
        if (r != built) {
          const F shift = s.half_pixel ? F(0.5) : F(0),
                  least = s.half_pixel ? -std::numeric_limits<F>::infinity() : F(1);
          const F top = rois[4 * r + 1] * scale - shift, left = rois[4 * r] * scale - shift;
          const F tall = rois[4 * r + 3] * scale - shift - top, wide = rois[4 * r + 2] * scale - shift - left;
          if (!rows.build(s, top, std::max(tall, least), s.height)) return;
          if (!columns.build(s, left, std::max(wide, least), s.width)) return;
          built = r;
        }
        const F* image = x.as<F>() + (images[r] * channels + task % channels) * height * width;
        F* y = c.out[0]->as<F>() + task * s.height * s.width;
        s.max ? maximum(image, rows, columns, s.height, s.width, y)
              : average(image, rows, columns, s.height, s.width, line, y);
      }
    };
    const int64_t tasks = images.size() * channels;
    if (c.pool->threads() > threads_) return range(0, tasks, 0);
    c.pool->parallel_for(tasks, 2048 / (s.height * s.width) + 1, range);
  }

 private:
  RoiAlignSettings settings_;
  int threads_ = 1;
  int64_t bytes_ = 0;
};

std::unique_ptr<Kernel> create_roi_align(const NodeContext& node) {
  if (node.in[0]->dtype == DType::kF64) return std::make_unique<RoiAlignKernel<double>>();
  return std::make_unique<RoiAlignKernel<float>>();
}

MINNOW_OP("RoiAlign", infer_roi_align);
MINNOW_KERNEL("RoiAlign", create_roi_align);

}  // namespace
}  // namespace minnow
