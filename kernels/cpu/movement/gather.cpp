// Gather, GatherElements, GatherND.
#include <algorithm>
#include <cstring>

#include "kernels/core/quantized.h"
#include "kernels/cpu/movement/index.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

constexpr int64_t kBytesPerTask = 32 << 10;

int64_t grain_of(int64_t bytes) { return kBytesPerTask / std::max<int64_t>(bytes, 16) + 1; }

// --- Gather

Status infer_gather(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  MINNOW_RETURN_IF_ERROR(require_int(c, 1));
  const Shape &x = c.shape(0), &indices = c.shape(1);
  int axis = 0;
  MINNOW_RETURN_IF_ERROR(normalize_axis(c.attrs.i("axis", 0), x.rank(), &axis));
  MINNOW_RETURN_IF_ERROR(require_out_rank(x.rank() - 1 + indices.rank()));
  Shape y;
  for (int k = 0; k < axis; ++k) y.push_back(x[k]);
  for (int64_t d : indices) y.push_back(d);
  for (int k = axis + 1; k < x.rank(); ++k) y.push_back(x[k]);
  c.set(0, c.in(0).dtype, y);
  return check_shape(y);
}

void run_gather(const Attrs& attrs, const RunContext& c) {
  const Tensor& x = *c.in[0];
  int axis = 0;
  const Status status = normalize_axis(attrs.i("axis", 0), x.rank(), &axis);
  if (!status.ok()) return c.report(status);
  IndexReader indices(*c.in[1]);
  const int64_t dim = x.dim(axis), n = c.in[1]->count();
  const int64_t bytes = x.shape().count(axis + 1, x.rank()) * static_cast<int64_t>(dtype_size(x.type.dtype));
  const char* from = x.as<char>();
  char* to = c.out[0]->as<char>();
  if (bytes == 0) return;
  const int64_t lines = x.shape().count(0, axis);
  // Single elements of lines: an index is read once for all lines of a thread.
  if (lines > 1 && bytes <= 8 && (bytes & (bytes - 1)) == 0) {
    c.pool->parallel_for(lines, grain_of(n * 16), [&](int64_t begin, int64_t end, int) {
      constexpr int64_t kPart = 256;
      int64_t at[kPart];
      for (int64_t first = 0; first < n; first += kPart) {
        const int64_t m = std::min(kPart, n - first);
        if (!indices.at(first, m, dim, at)) return;  // the run fails
        with_size(bytes, [&](auto size) {
          for (int64_t line = begin; line < end; ++line) {
            const char* own = from + line * dim * size;
            char* y = to + (line * n + first) * size;
            for (int64_t j = 0; j < m; ++j) std::memcpy(y + j * size, own + at[j] * size, size);
          }
        });
      }
    });
    indices.report(c);
    return;
  }
  c.pool->parallel_for(lines * n, grain_of(bytes), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t k = indices.at(i % n, dim);
      if (k >= 0) copy_block(to + i * bytes, from + (i / n * dim + k) * bytes, bytes);
    }
  });
  indices.report(c);
}

// Of rows that stay quantized in the file.
class Gather final : public Kernel {
 public:
  explicit Gather(const Attrs& attrs) : attrs_(attrs) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    quantized_ = node.quantized_input(0);
    return normalize_axis(attrs_.i("axis", 0), node.in[0]->shape.rank(), &axis_);
  }
  bool unpacks(int i) const override { return i == 0; }
  bool reads(int i) const override { return i != 0 || quantized_ == nullptr; }

  void run(const RunContext& c) override {
    if (quantized_ == nullptr) return run_gather(attrs_, c);
    const Shape& x = c.in[0]->shape();
    IndexReader indices(*c.in[1]);
    const int64_t dim = x[axis_], n = c.in[1]->count(), length = x.count(axis_ + 1, x.rank());
    float* to = c.out[0]->as<float>();
    if (length == 0) return;
    c.pool->parallel_for(x.count(0, axis_) * n, grain_of(16 * length), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t k = indices.at(i % n, dim);
        if (k >= 0) quantized_->floats((i / n * dim + k) * length, length, to + i * length);
      }
    });
    indices.report(c);
  }

 private:
  const Attrs& attrs_;
  const QuantizedMatrix* quantized_ = nullptr;
  int axis_ = 0;
};

std::unique_ptr<Kernel> create_gather(const NodeContext& node) { return std::make_unique<Gather>(node.attrs); }

MINNOW_OP("Gather", infer_gather);
MINNOW_KERNEL("Gather", create_gather);

// --- GatherElements

Status infer_gather_elements(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  int axis = 0;
  MINNOW_RETURN_IF_ERROR(check_elements(c, &axis));
  c.set(0, c.in(0).dtype, c.shape(1));
  return ok();
}

void run_gather_elements(const Attrs& attrs, const RunContext& c) {
  const Tensor& x = *c.in[0];
  int axis = 0;
  const Status status = normalize_axis(attrs.i("axis", 0), x.rank(), &axis);
  if (!status.ok()) return c.report(status);
  if (c.out[0]->count() == 0) return;
  IndexReader indices(*c.in[1]);
  const ElementLines lines(c.in[1]->shape(), x.shape(), axis);
  const int64_t dim = x.dim(axis), size = static_cast<int64_t>(dtype_size(x.type.dtype)), n = lines.length();
  const char* from = x.as<char>();
  char* to = c.out[0]->as<char>();
  const int64_t step = lines.step(), along = lines.along();
  c.pool->parallel_for(lines.lines(), grain_of(n * 16), [&](int64_t begin, int64_t end, int) {
    constexpr int64_t kPart = 256;
    int64_t at[kPart];
    with_size(size, [&](auto constant) {
      for (int64_t line = begin; line < end; ++line) {
        const char* base = from + lines.base(line) * constant;
        for (int64_t first = 0; first < n; first += kPart) {
          const int64_t m = std::min(kPart, n - first);
          if (!indices.at(line * n + first, m, dim, at)) continue;  // the run fails
          char* y = to + (line * n + first) * constant;
          const char* x = base + first * step * constant;
          const int64_t next = step * constant, apart = along * constant;  // not read again after each element
          for (int64_t j = 0; j < m; ++j, x += next) std::memcpy(y + j * constant, x + at[j] * apart, constant);
        }
      }
    });
  });
  indices.report(c);
}

MINNOW_OP("GatherElements", infer_gather_elements);
MINNOW_KERNEL("GatherElements", create_simple<run_gather_elements>);

// --- GatherND

Status infer_gather_nd(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  MINNOW_RETURN_IF_ERROR(require_int(c, 1));
  const Shape &x = c.shape(0), &indices = c.shape(1);
  const int64_t batch = c.attrs.i("batch_dims", 0);
  if (indices.rank() < 1 || batch < 0 || batch >= indices.rank() || batch > x.rank() ||
      indices.at(-1) > x.rank() - batch)
    return fail(Code::kFormat, "indices of shape %s for data of shape %s with %lld batch dims", indices.str().c_str(),
                x.str().c_str(), static_cast<long long>(batch));
  for (int k = 0; k < batch; ++k)
    if (x[k] != indices[k])
      return fail(Code::kFormat, "batch dim %d of the indices is %lld, of the data %lld", k,
                  static_cast<long long>(indices[k]), static_cast<long long>(x[k]));
  const int first = static_cast<int>(batch + indices.at(-1));
  MINNOW_RETURN_IF_ERROR(require_out_rank(indices.rank() - 1 + x.rank() - first));
  Shape y;
  for (int k = 0; k < indices.rank() - 1; ++k) y.push_back(indices[k]);
  for (int k = first; k < x.rank(); ++k) y.push_back(x[k]);
  c.set(0, c.in(0).dtype, y);
  return check_shape(y);
}

void run_gather_nd(const Attrs& attrs, const RunContext& c) {
  const Tensor& x = *c.in[0];
  const Shape& indices = c.in[1]->shape();
  const int batch = static_cast<int>(attrs.i("batch_dims", 0)), width = static_cast<int>(indices.at(-1));
  if (c.out[0]->count() == 0) return;
  IndexReader reader(*c.in[1]);
  const auto stride = strides_of(x.shape());
  const int64_t size = static_cast<int64_t>(dtype_size(x.type.dtype));
  const int64_t bytes = x.shape().count(batch + width, x.rank()) * size;
  const int64_t image = x.shape().count(batch, x.rank()), per_image = indices.count(batch, indices.rank() - 1);
  const char* from = x.as<char>();
  char* to = c.out[0]->as<char>();
  c.pool->parallel_for(indices.count(0, indices.rank() - 1), grain_of(bytes), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t offset = i / per_image * image;
      bool inside = true;
      for (int k = 0; k < width && inside; ++k) {
        const int64_t at = reader.at(i * width + k, x.dim(batch + k));
        inside = at >= 0;
        offset += at * stride[static_cast<size_t>(batch + k)];
      }
      if (inside) copy_block(to + i * bytes, from + offset * size, bytes);
    }
  });
  reader.report(c);
}

MINNOW_OP("GatherND", infer_gather_nd);
MINNOW_KERNEL("GatherND", create_simple<run_gather_nd>);

}  // namespace
}  // namespace minnow
