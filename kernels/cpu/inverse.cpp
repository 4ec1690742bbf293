// Inverses of square matrices, by Gauss-Jordan elimination with partial pivoting, in doubles.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/convert.h"
#include "kernels/infer.h"

namespace minnow {
namespace {

// Destroys `m`, and makes `inverse` of it; all NaN where there is none.
void invert(double* m, double* inverse, int64_t n) {
  std::fill(inverse, inverse + n * n, 0.0);
  for (int64_t i = 0; i < n; ++i) inverse[i * n + i] = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t r = k + 1; r < n; ++r)
      if (std::fabs(m[r * n + k]) > std::fabs(m[pivot * n + k])) pivot = r;
    if (m[pivot * n + k] == 0) {
      std::fill(inverse, inverse + n * n, std::numeric_limits<double>::quiet_NaN());
      return;
    }
    if (pivot != k) {
      std::swap_ranges(m + k * n, m + (k + 1) * n, m + pivot * n);
      std::swap_ranges(inverse + k * n, inverse + (k + 1) * n, inverse + pivot * n);
    }
    const double value = m[k * n + k];
    for (int64_t c = 0; c < n; ++c) {
      m[k * n + c] /= value;
      inverse[k * n + c] /= value;
    }
    for (int64_t r = 0; r < n; ++r) {
      const double factor = m[r * n + k];
      if (r == k || factor == 0) continue;
      for (int64_t c = 0; c < n; ++c) {
        m[r * n + c] -= factor * m[k * n + c];
        inverse[r * n + c] -= factor * inverse[k * n + c];
      }
    }
  }
}

class Inverse final : public Kernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    n_ = node.in[0]->shape.at(-1);
    *workspace = 2 * n_ * n_ * 8 * node.threads;
    return ok();
  }

  void run(const RunContext& context) override {
    const DType dtype = context.in[0]->type.dtype;
    const size_t size = dtype_size(dtype);
    const int64_t square = n_ * n_;
    if (square == 0) return;
    const int64_t grain = std::max<int64_t>(1, 16384 / (square * n_));
    context.pool->parallel_for(context.out[0]->count() / square, grain, [&](int64_t begin, int64_t end, int worker) {
      double* matrix = static_cast<double*>(context.workspace) + 2 * worker * square;
      for (int64_t i = begin; i < end; ++i) {
        convert(dtype, offset(context.in[0]->data, i * square, size), DType::kF64, matrix, square);
        invert(matrix, matrix + square, n_);
        store_block(Compute::kF64, matrix + square, dtype, offset(context.out[0]->data, i * square, size), square);
      }
    });
  }

 private:
  int64_t n_ = 0;
};

std::unique_ptr<Kernel> create(const NodeContext&) { return std::make_unique<Inverse>(); }

Status infer_inverse(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  if (!is_float(c.in(0).dtype)) return fail(Code::kFormat, "takes floats, not %s", dtype_name(c.in(0).dtype));
  const Shape& shape = c.shape(0);
  if (shape.rank() < 2 || shape.at(-1) != shape.at(-2))
    return fail(Code::kFormat, "takes square matrices, not shape %s", shape.str().c_str());
  c.set(0, c.in(0).dtype, shape);
  return ok();
}

MINNOW_OP("Inverse", infer_inverse, create);

}  // namespace
}  // namespace minnow
