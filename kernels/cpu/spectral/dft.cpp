// DFT and STFT on top of the complex transform, and the weights of the mel scale.
#include <algorithm>
#include <cmath>

#include "kernels/core/interrupt.h"
#include "kernels/cpu/spectral/fft.h"
#include "kernels/cpu/convert/operand.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

// Many transforms of length n. Line i starts at element (i / inner) * outer_step + (i % inner) * inner_step of the
// input and of the output; its numbers, of one or two parts, are `step` elements apart.
struct Side {
  int64_t outer_step = 0, inner_step = 0, step = 0, count = 0;  // count: how many numbers there are
  int parts = 2;

  int64_t start(int64_t line, int64_t inner) const { return line / inner * outer_step + line % inner * inner_step; }
};

struct Lines {
  int64_t n = 0, lines = 0, inner = 1;
  Side in, out;
  bool inverse = false, mirrored = false;  // mirrored: the input is the first half of a symmetric spectrum
};

double element(DType dtype, const void* data, int64_t i) {
  if (dtype == DType::kF32) return static_cast<const float*>(data)[i];
  if (dtype == DType::kF64) return static_cast<const double*>(data)[i];
  double value = 0;
  convert(dtype, offset(data, i, dtype_size(dtype)), DType::kF64, &value, 1);
  return value;
}

void store(DType dtype, void* data, int64_t i, double value) {
  if (dtype == DType::kF32) {
    static_cast<float*>(data)[i] = static_cast<float>(value);
  } else {
    convert(DType::kF64, &value, dtype, offset(data, i, dtype_size(dtype)), 1);
  }
}

// Real signals of even length go through a transform of half the length.
bool by_half(const Lines& l) { return l.in.parts == 1 && !l.inverse && l.n % 2 == 0; }

class Spectrum : public Kernel {
 public:
  void run(const RunContext& c) override {
    Lines l;
    const Status status = lines_of(c, &l);
    if (!status.ok()) return c.report(status);
    if (l.lines == 0) return;
    const int64_t length = by_half(l) ? l.n / 2 : l.n;
    if (fft_ == nullptr || fft_->length() != length) {
      const Status room = tables_.keep((Fft::table_size(length) + 2 * length) * static_cast<int64_t>(sizeof(double)));
      if (!room.ok()) return c.report(room);
      fft_ = std::make_unique<Fft>(length);
    }
    if (by_half(l) && turns_.size() != static_cast<size_t>(2 * length)) {
      turns_.resize(static_cast<size_t>(2 * length));
      for (int64_t k = 0; k < length; ++k) {
        const double angle = 4 * std::atan(1.0) * (static_cast<double>(k) / static_cast<double>(length));
        turns_[static_cast<size_t>(2 * k)] = std::cos(angle);
        turns_[static_cast<size_t>(2 * k + 1)] = -std::sin(angle);
      }
    }
    const int64_t width = l.lines > 2 ? Fft::lanes() : 1;
    const int64_t groups = (l.lines + width - 1) / width;
    c.pool->parallel_for(groups, std::max<int64_t>(1, 4096 / (length * width)),
                         [&](int64_t begin, int64_t end, int id) {
                           for (int64_t g = begin; g < end; ++g)
                             run_group(c, l, g * width, std::min(width, l.lines - g * width), width,
                                       static_cast<double*>(c.workspace) + id * doubles_);
                         });
  }

 protected:
  virtual Status lines_of(const RunContext& c, Lines* l) const = 0;

  // Workspace for transforms of any of these lengths, a one-sided result being that of two.
  void allow(int64_t n, int threads, int64_t* workspace) {
    for (int64_t length : {n, n / 2}) {
      if (length < 1) continue;
      const int64_t width = Fft::lanes();
      doubles_ = std::max(doubles_, Fft::data_size(length, width) + Fft::work_size(length, width) + 2 * n);
    }
    *workspace = doubles_ * threads * static_cast<int64_t>(sizeof(double));
  }

  int64_t doubles_ = 0;
  std::vector<double> window_;

 private:
  void run_group(const RunContext& c, const Lines& l, int64_t first, int64_t used, int64_t width, double* data) const {
    const int64_t length = fft_->length();
    double* im = data + length * width;
    std::fill_n(data, 2 * length * width, 0.0);
    double* work = data + Fft::data_size(length, width);
    double* row = work + Fft::work_size(length, width);
    for (int64_t w = 0; w < used; ++w) {
      read_row(*c.in[0], l.in, l.in.start(first + w, l.inner), row);
      for (int64_t k = 0; k < static_cast<int64_t>(window_.size()); ++k)
        for (int i = 0; i < l.in.parts; ++i) row[k * l.in.parts + i] *= window_[static_cast<size_t>(k)];
      load(l, row, width, data + w, im + w);
    }
    // With real and imaginary parts in each other's place the transform is the inverse one.
    double* y = fft_->transform(data, work, width);
    for (int64_t w = 0; w < used; ++w) {
      unload(l, y + w, y + length * width + w, width, row);
      write_row(row, l.out, l.out.start(first + w, l.inner), c.out[0]);
    }
  }

  // The numbers of a line, from or to a row of doubles.
  static void read_row(const Tensor& t, const Side& side, int64_t at, double* row) {
    const DType dtype = t.type.dtype;
    if (side.step == side.parts)
      return convert(dtype, offset(t.data, at, dtype_size(dtype)), DType::kF64, row, side.count * side.parts);
    for (int64_t k = 0; k < side.count; ++k)
      for (int i = 0; i < side.parts; ++i) row[k * side.parts + i] = element(dtype, t.data, at + k * side.step + i);
  }
  static void write_row(const double* row, const Side& side, int64_t at, Tensor* t) {
    const DType dtype = t->type.dtype;
    if (side.step == side.parts)
      return convert(DType::kF64, row, dtype, offset(t->data, at, dtype_size(dtype)), side.count * side.parts);
    for (int64_t k = 0; k < side.count; ++k)
      for (int i = 0; i < side.parts; ++i) store(dtype, t->data, at + k * side.step + i, row[k * side.parts + i]);
  }

  void load(const Lines& l, const double* row, int64_t width, double* re, double* im) const {
    if (by_half(l)) {
      for (int64_t k = 0; k < l.in.count; ++k) (k % 2 == 0 ? re : im)[k / 2 * width] = row[k];
      return;
    }
    if (l.inverse) std::swap(re, im);
    for (int64_t k = 0; k < l.in.count; ++k) {
      re[k * width] = row[k * l.in.parts];
      im[k * width] = l.in.parts == 2 ? row[k * 2 + 1] : 0;
    }
    if (!l.mirrored) return;
    // The signal is real: so are the first value and, of an even number, the middle one.
    im[0] = 0;
    if (l.n % 2 == 0) im[l.n / 2 * width] = 0;
    for (int64_t k = l.n / 2 + 1; k < l.n; ++k) {
      re[k * width] = re[(l.n - k) * width];
      im[k * width] = -im[(l.n - k) * width];
    }
  }

  void unload(const Lines& l, const double* re, const double* im, int64_t width, double* row) const {
    if (by_half(l)) return unload_half(l, re, im, width, row);
    const double scale = l.inverse ? 1.0 / static_cast<double>(l.n) : 1.0;
    if (l.inverse) std::swap(re, im);
    for (int64_t k = 0; k < l.out.count; ++k) {
      row[k * l.out.parts] = re[k * width] * scale;
      if (l.out.parts == 2) row[k * 2 + 1] = im[k * width] * scale;
    }
  }

  // From z[j] = x[2 j] + i x[2 j + 1] the spectra of the even and of the odd samples, and from these the whole.
  void unload_half(const Lines& l, const double* re, const double* im, int64_t width, double* row) const {
    const int64_t half = l.n / 2;
    for (int64_t k = 0; k <= half; ++k) {
      const int64_t a = (k < half ? k : 0) * width, b = (k > 0 ? half - k : 0) * width;
      const double even_re = (re[a] + re[b]) / 2, even_im = (im[a] - im[b]) / 2;
      const double odd_re = (im[a] + im[b]) / 2, odd_im = (re[b] - re[a]) / 2;
      const double cosine = k == half ? -1 : turns_[static_cast<size_t>(2 * k)];
      const double sine = k == half ? 0 : turns_[static_cast<size_t>(2 * k + 1)];
      const double y_re = even_re + cosine * odd_re - sine * odd_im;
      const double y_im = even_im + cosine * odd_im + sine * odd_re;
      if (k < l.out.count) {
        row[2 * k] = y_re;
        row[2 * k + 1] = y_im;
      }
      if (l.out.count == l.n && k > 0 && k < half) {
        row[2 * (l.n - k)] = y_re;
        row[2 * (l.n - k) + 1] = -y_im;
      }
    }
  }

  std::unique_ptr<Fft> fft_;
  KeptMemory tables_;
  std::vector<double> turns_;  // exp(-2 pi i k / n)
};

// --- DFT

struct DftShape {
  int axis = 0;
  int64_t n = 0;
  bool inverse = false, onesided = false;
};

// An optional scalar.
Status read_scalar(const Tensor* t, const char* what, int64_t fallback, int64_t* out) {
  *out = fallback;
  if (t == nullptr) return ok();
  if (t->count() != 1) return fail(Code::kFormat, "%s must be one number", what);
  *out = IntView(*t)[0];
  return ok();
}

Status read_dft(const Attrs& attrs, const Shape& x, const Tensor* length, const Tensor* axis, DftShape* out) {
  if (x.rank() < 2 || x.at(-1) < 1 || x.at(-1) > 2)
    return fail(Code::kFormat, "takes numbers of 1 or 2 parts along a last axis, not the shape %s", x.str().c_str());
  out->inverse = attrs.b("inverse");
  out->onesided = attrs.b("onesided");
  int64_t at = 0;
  MINNOW_RETURN_IF_ERROR(read_scalar(axis, "the axis", -2, &at));
  MINNOW_RETURN_IF_ERROR(normalize_axis(at, x.rank(), &out->axis));
  if (out->axis == x.rank() - 1) return fail(Code::kFormat, "axis %d holds real and imaginary parts", out->axis);
  const int64_t size = x[out->axis];
  const int64_t usual = out->inverse && out->onesided ? 2 * (size - 1) : size;
  MINNOW_RETURN_IF_ERROR(read_scalar(length, "the length", usual, &out->n));
  if (out->n < 1 || out->n > int64_t{1} << 40)
    return fail(Code::kFormat, "a transform of length %lld", static_cast<long long>(out->n));
  return ok();
}

Status check_operands(const InferContext& c, std::initializer_list<int> numbers) {
  if (!is_float(c.in(0).dtype)) return fail(Code::kFormat, "takes floats, not %s", dtype_name(c.in(0).dtype));
  for (int i : numbers) {
    if (!c.has(i)) continue;
    MINNOW_RETURN_IF_ERROR(require_int(c, i));
    if (c.value(i) == nullptr) return c.needs_value(i);
  }
  return ok();
}

Status infer_dft(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  MINNOW_RETURN_IF_ERROR(check_operands(c, {1, 2}));
  DftShape dft;
  MINNOW_RETURN_IF_ERROR(read_dft(c.attrs, c.shape(0), c.value(1), c.value(2), &dft));
  Shape out = c.shape(0);
  out[dft.axis] = dft.onesided && !dft.inverse ? dft.n / 2 + 1 : dft.n;
  out[out.rank() - 1] = dft.onesided && dft.inverse ? 1 : 2;
  MINNOW_RETURN_IF_ERROR(check_shape(out));
  c.set(0, c.in(0).dtype, out);
  return ok();
}

class Dft final : public Spectrum {
 public:
  explicit Dft(const Attrs& attrs) : attrs_(attrs) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    doubles_ = 0;
    *workspace = 0;
    // The axis may be known to the run only. A one-sided spectrum has as many values for n as for n + 1.
    const Shape& out = node.out[0]->shape;
    const bool half = attrs_.b("onesided") && !attrs_.b("inverse");
    for (int k = 0; k < out.rank() - 1; ++k) {
      if (half) allow(2 * out[k] - 2, node.threads, workspace);
      allow(half ? 2 * out[k] - 1 : out[k], node.threads, workspace);
    }
    return ok();
  }

 private:
  Status lines_of(const RunContext& c, Lines* l) const override {
    const Shape &x = c.in[0]->shape(), &y = c.out[0]->shape();
    DftShape dft;
    const auto operand = [&](size_t i) { return i < c.in.size() ? c.in[i] : nullptr; };
    MINNOW_RETURN_IF_ERROR(read_dft(attrs_, x, operand(1), operand(2), &dft));
    l->n = dft.n;
    l->inverse = dft.inverse;
    l->mirrored = dft.inverse && dft.onesided;
    l->inner = x.count(dft.axis + 1, x.rank() - 1);
    l->lines = x.count(0, dft.axis) * l->inner;
    const auto side = [&](const Shape& shape) {
      const int64_t parts = shape.at(-1);
      return Side{shape[dft.axis] * l->inner * parts, parts, l->inner * parts, shape[dft.axis],
                  static_cast<int>(parts)};
    };
    l->in = side(x);
    l->out = side(y);
    l->in.count = std::min(l->in.count, l->mirrored ? l->n / 2 + 1 : l->n);
    return ok();
  }

  const Attrs& attrs_;
};

MINNOW_OP("DFT", infer_dft);
MINNOW_KERNEL("DFT",
              [](const NodeContext& node) -> std::unique_ptr<Kernel> { return std::make_unique<Dft>(node.attrs); });

// --- STFT

Status read_stft(const Shape& x, const Tensor* step, const Shape* window, const Tensor* length, int64_t* n,
                 int64_t* hop) {
  MINNOW_RETURN_IF_ERROR(read_scalar(step, "the step", 1, hop));
  MINNOW_RETURN_IF_ERROR(read_scalar(length, "the length of a frame", window == nullptr ? x[1] : (*window)[0], n));
  if (*hop < 1) return fail(Code::kFormat, "a step of %lld samples", static_cast<long long>(*hop));
  if (*n < 1) return fail(Code::kFormat, "frames of %lld samples", static_cast<long long>(*n));
  if (window != nullptr && (*window)[0] != *n)
    return fail(Code::kFormat, "a window of %lld samples for frames of %lld", static_cast<long long>((*window)[0]),
                static_cast<long long>(*n));
  return ok();
}

Status infer_stft(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  MINNOW_RETURN_IF_ERROR(require_rank(c, 0, 3, 3));
  MINNOW_RETURN_IF_ERROR(check_operands(c, {1, 3}));
  if (c.has(2)) {
    if (!is_float(c.in(2).dtype)) return fail(Code::kFormat, "a window of %s", dtype_name(c.in(2).dtype));
    MINNOW_RETURN_IF_ERROR(require_rank(c, 2, 1, 1));
  }
  const Shape& x = c.shape(0);
  if (x[2] < 1 || x[2] > 2) return fail(Code::kFormat, "takes numbers of 1 or 2 parts, not %s", x.str().c_str());
  int64_t n = 0, hop = 0;
  MINNOW_RETURN_IF_ERROR(read_stft(x, c.value(1), c.has(2) ? &c.shape(2) : nullptr, c.value(3), &n, &hop));
  const int64_t frames = n > x[1] ? 0 : (x[1] - n) / hop + 1;
  const Shape out{x[0], frames, c.attrs.b("onesided", true) ? n / 2 + 1 : n, 2};
  MINNOW_RETURN_IF_ERROR(check_shape(out));
  c.set(0, c.in(0).dtype, out);
  return ok();
}

class Stft final : public Spectrum {
 public:
  explicit Stft(const Attrs& attrs) : attrs_(attrs) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    doubles_ = 0;
    *workspace = 0;
    const int64_t bins = node.out[0]->shape[2];
    const bool half = attrs_.b("onesided", true);
    if (half) allow(2 * bins - 2, node.threads, workspace);
    allow(half ? 2 * bins - 1 : bins, node.threads, workspace);
    if (node.in.size() > 2 && node.in[2] != nullptr) window_.resize(static_cast<size_t>(node.in[2]->shape[0]));
    return ok();
  }

  void run(const RunContext& c) override {
    if (!window_.empty())
      convert(c.in[2]->type.dtype, c.in[2]->data, DType::kF64, window_.data(), static_cast<int64_t>(window_.size()));
    Spectrum::run(c);
  }

 private:
  Status lines_of(const RunContext& c, Lines* l) const override {
    const Shape &x = c.in[0]->shape(), &y = c.out[0]->shape();
    const auto operand = [&](size_t i) { return i < c.in.size() ? c.in[i] : nullptr; };
    int64_t hop = 0;
    MINNOW_RETURN_IF_ERROR(
        read_stft(x, c.in[1], operand(2) == nullptr ? nullptr : &c.in[2]->shape(), operand(3), &l->n, &hop));
    l->inner = std::max<int64_t>(y[1], 1);
    l->lines = y[0] * y[1];
    l->in = {x[1] * x[2], hop * x[2], x[2], l->n, static_cast<int>(x[2])};
    l->out = {y[1] * y[2] * 2, y[2] * 2, 2, y[2], 2};
    return ok();
  }

  const Attrs& attrs_;
};

MINNOW_OP("STFT", infer_stft);
MINNOW_KERNEL("STFT",
              [](const NodeContext& node) -> std::unique_ptr<Kernel> { return std::make_unique<Stft>(node.attrs); });

// --- MelWeightMatrix

Status infer_mel(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 5));
  int64_t number[3];
  for (int i = 0; i < 3; ++i) {
    MINNOW_RETURN_IF_ERROR(require_int(c, i));
    if (c.value(i) == nullptr) return c.needs_value(i);
    MINNOW_RETURN_IF_ERROR(read_scalar(c.value(i), "an operand", 0, &number[i]));
    if (number[i] < (i == 0 ? 0 : 1))
      return fail(Code::kFormat, "operand %d is %lld", i, static_cast<long long>(number[i]));
  }
  for (int i : {3, 4})
    if (!is_float(c.in(i).dtype) || c.shape(i).count() != 1)
      return fail(Code::kFormat, "operand %d must be one float", i);
  const Shape out{number[1] / 2 + 1, number[0]};
  MINNOW_RETURN_IF_ERROR(check_shape(out));
  c.set(0, c.attrs.get("to", DType::kF32), out);
  return ok();
}

void run_mel(const Attrs&, const RunContext& c) {
  const int64_t rows = c.out[0]->dim(0), bins = c.out[0]->dim(1);
  const auto size = static_cast<double>(IntView(*c.in[1])[0]), rate = static_cast<double>(IntView(*c.in[2])[0]);
  const auto mel = [&](size_t i) { return 2595 * std::log10(1 + number_at<double>(*c.in[i], 0) / 700); };
  const double low = mel(3), step = (mel(4) - low) / static_cast<double>(bins + 2);
  const auto edge = [&](int64_t i) {
    const double hertz = 700 * (std::pow(10.0, (low + static_cast<double>(i) * step) / 2595) - 1);
    return std::floor((size + 1) * hertz / rate);
  };
  const DType to = c.out[0]->type.dtype;
  for (int64_t b = 0; b < bins; ++b) {
    const double left = edge(b), peak = edge(b + 1), right = edge(b + 2);
    for (int64_t r = 0; r < rows; ++r) {
      const auto at = static_cast<double>(r);
      double weight = 0;
      if (at == peak) {
        weight = 1;
      } else if (at < peak && at >= left) {
        weight = (at - left) / (peak - left);
      } else if (at > peak && at < right) {
        weight = (right - at) / (right - peak);
      }
      store(to, c.out[0]->data, r * bins + b, weight);
    }
  }
}

MINNOW_OP("MelWeightMatrix", infer_mel);
MINNOW_KERNEL("MelWeightMatrix", create_simple<run_mel>);

}  // namespace
}  // namespace minnow
