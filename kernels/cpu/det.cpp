// Determinants of square matrices, by elimination with partial pivoting, in doubles.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/convert.h"
#include "kernels/infer.h"

namespace minnow {
namespace {

// Destroys the matrix.
double determinant(double* m, int64_t n) {
  double product = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t r = k + 1; r < n; ++r)
      if (std::fabs(m[r * n + k]) > std::fabs(m[pivot * n + k])) pivot = r;
    if (pivot != k) {
      std::swap_ranges(m + k * n, m + (k + 1) * n, m + pivot * n);
      product = -product;
    }
    const double value = m[k * n + k];
    product *= value;
    if (value == 0) return product;
    for (int64_t r = k + 1; r < n; ++r) {
      const double factor = m[r * n + k] / value;
      for (int64_t c = k + 1; c < n; ++c) m[r * n + c] -= factor * m[k * n + c];
    }
  }
  return product;
}

class Det final : public Kernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    n_ = node.in[0]->shape.at(-1);
    *workspace = n_ * n_ * 8 * node.threads;
    return ok();
  }

  void run(const RunContext& context) override {
    const DType dtype = context.in[0]->type.dtype;
    const size_t size = dtype_size(dtype);
    const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, n_ * n_ * n_));
    context.pool->parallel_for(context.out[0]->count(), grain, [&](int64_t begin, int64_t end, int worker) {
      double* matrix = static_cast<double*>(context.workspace) + worker * n_ * n_;
      for (int64_t i = begin; i < end; ++i) {
        convert(dtype, offset(context.in[0]->data, i * n_ * n_, size), DType::kF64, matrix, n_ * n_);
        const double result = determinant(matrix, n_);
        store_block(Compute::kF64, &result, dtype, offset(context.out[0]->data, i, size), 1);
      }
    });
  }

 private:
  int64_t n_ = 0;
};

std::unique_ptr<Kernel> create(const NodeContext&) { return std::make_unique<Det>(); }

Status infer_det(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  if (!is_float(c.in(0).dtype)) return fail(Code::kFormat, "takes floats, not %s", dtype_name(c.in(0).dtype));
  const Shape& shape = c.shape(0);
  if (shape.rank() < 2 || shape.at(-1) != shape.at(-2))
    return fail(Code::kFormat, "takes square matrices, not shape %s", shape.str().c_str());
  Shape out = shape;
  out.resize(shape.rank() - 2);
  c.set(0, c.in(0).dtype, out);
  return ok();
}

MINNOW_OP("Det", infer_det, create);

}  // namespace
}  // namespace minnow
