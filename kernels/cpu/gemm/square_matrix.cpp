// Determinants and inverses of square matrices, by elimination with partial pivoting, in doubles.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/core/interrupt.h"
#include "kernels/cpu/convert/blocks.h"
#include "kernels/core/infer.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

// The row below k or k itself whose number in column k is the largest.
int64_t find_pivot(const double* m, int64_t n, int64_t k) {
  int64_t pivot = k;
  for (int64_t r = k + 1; r < n; ++r)
    if (std::fabs(m[r * n + k]) > std::fabs(m[pivot * n + k])) pivot = r;
  return pivot;
}

void swap_rows(double* m, int64_t n, int64_t a, int64_t b) {
  if (a != b) std::swap_ranges(m + a * n, m + (a + 1) * n, m + b * n);
}

// All NaN where there is none.
void invert(double* m, double* inverse, int64_t n) {
  std::fill(inverse, inverse + n * n, 0.0);
  for (int64_t i = 0; i < n; ++i) inverse[i * n + i] = 1;
  LongLoop loop;
  for (int64_t k = 0; k < n && loop.goes_on(n * n); ++k) {
    const int64_t pivot = find_pivot(m, n, k);
    if (m[pivot * n + k] == 0) {
      std::fill(inverse, inverse + n * n, std::numeric_limits<double>::quiet_NaN());
      return;
    }
    swap_rows(m, n, k, pivot);
    swap_rows(inverse, n, k, pivot);
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

void determinant(double* m, double* result, int64_t n) {
  double& product = *result;
  product = 1;
  LongLoop loop;
  for (int64_t k = 0; k < n && loop.goes_on(n * n); ++k) {
    const int64_t pivot = find_pivot(m, n, k);
    swap_rows(m, n, k, pivot);
    if (pivot != k) product = -product;
    const double value = m[k * n + k];
    product *= value;
    if (value == 0) return;
    for (int64_t r = k + 1; r < n; ++r) {
      const double factor = m[r * n + k] / value;
      for (int64_t c = k + 1; c < n; ++c) m[r * n + c] -= factor * m[k * n + c];
    }
  }
}

// One result per matrix: a number or, where `square`, a matrix.
class OfMatrices final : public Kernel {
 public:
  // What becomes of the matrix is all the same.
  using Function = void (*)(double* matrix, double* result, int64_t n);

  OfMatrices(Function function, bool square) : function_(function), square_(square) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    n_ = node.in[0]->shape.at(-1);
    *workspace = 0;
    if (node.out[0]->count() == 0) return ok();
    *workspace = (n_ * n_ + results()) * 8 * node.threads;
    return ok();
  }

  void run(const RunContext& context) override {
    const DType dtype = context.in[0]->type.dtype;
    const size_t size = dtype_size(dtype);
    if (context.out[0]->count() == 0) return;
    const int64_t numbers = n_ * n_;
    const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, numbers * n_));
    context.pool->parallel_for(context.out[0]->count() / results(), grain, [&](int64_t begin, int64_t end, int worker) {
      double* matrix = static_cast<double*>(context.workspace) + worker * (numbers + results());
      double* result = matrix + numbers;
      for (int64_t i = begin; i < end; ++i) {
        convert(dtype, offset(context.in[0]->data, i * numbers, size), DType::kF64, matrix, numbers);
        function_(matrix, result, n_);
        store_block(Compute::kF64, result, dtype, offset(context.out[0]->data, i * results(), size), results());
      }
    });
  }

 private:
  int64_t results() const { return square_ ? n_ * n_ : 1; }

  Function function_;
  bool square_;
  int64_t n_ = 0;
};

template <OfMatrices::Function function, bool square>
std::unique_ptr<Kernel> create(const NodeContext&) {
  return std::make_unique<OfMatrices>(function, square);
}

template <bool square>
Status infer(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  if (!is_float(c.in(0).dtype)) return fail(Code::kFormat, "takes floats, not %s", dtype_name(c.in(0).dtype));
  Shape shape = c.shape(0);
  if (shape.rank() < 2 || shape.at(-1) != shape.at(-2))
    return fail(Code::kFormat, "takes square matrices, not shape %s", shape.str().c_str());
  if (!square) shape.resize(shape.rank() - 2);
  c.set(0, c.in(0).dtype, shape);
  return ok();
}

MINNOW_OP("Det", infer<false>);
MINNOW_KERNEL("Det", (create<determinant, false>));
MINNOW_OP("Inverse", infer<true>);
MINNOW_KERNEL("Inverse", (create<invert, true>));

}  // namespace
}  // namespace minnow
