// The ops Linear and MatMul.
#include <algorithm>

#include "kernels/cuda/constants.h"
#include "kernels/cuda/product/layer.h"
#include "kernels/cuda/product/rearrange.h"
#include "kernels/cuda/quantized_weights.h"

namespace minnow::cuda {
namespace {

// An operand of a batch of matrices; elements lie `row` and `column` apart, matrices `batch`.
struct Matrices {
  int64_t rows = 0, row = 0, column = 1, batch = 0;
};

struct MatrixShapes {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  Matrices x, w;  // both as rows of k
};

// By numpy's rules for ranks and transposes. False where the leading axes are broadcast in a way that no constant
// distance between matrices describes.
bool read_shapes(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b, MatrixShapes* out) {
  MatrixShapes& s = *out;
  if (a.rank() < 1 || b.rank() < 1) return false;
  transpose_a = transpose_a && a.rank() > 1;
  transpose_b = transpose_b && b.rank() > 1;
  s.m = a.rank() == 1 ? 1 : a.at(transpose_a ? -1 : -2);
  s.k = a.rank() == 1 ? a[0] : a.at(transpose_a ? -2 : -1);
  s.n = b.rank() == 1 ? 1 : b.at(transpose_b ? -2 : -1);
  s.x = {s.m, transpose_a ? 1 : s.k, transpose_a ? s.m : 1, s.m * s.k};
  s.w = {s.n, transpose_b ? s.k : 1, transpose_b ? 1 : s.n, s.k * s.n};
  const int64_t matrices_a = a.rank() > 2 ? a.count(0, a.rank() - 2) : 1;
  const int64_t matrices_b = b.rank() > 2 ? b.count(0, b.rank() - 2) : 1;
  s.batch = std::max(matrices_a, matrices_b);
  if (matrices_b == 1 && !transpose_a) {  // one product with more rows
    s.m *= matrices_a;
    s.x.rows = s.m;
    s.batch = 1;
    return true;
  }
  if (matrices_a == 1) s.x.batch = 0;
  if (matrices_b == 1) s.w.batch = 0;
  if (matrices_a == 1 || matrices_b == 1) return true;
  if (matrices_a != matrices_b || a.rank() != b.rank()) return false;
  for (int i = 0; i < a.rank() - 2; ++i)
    if (a[i] != b[i]) return false;
  return true;
}

bool fits(const MatrixShapes& s) {
  constexpr int64_t kMost = int64_t{1} << 30;
  return s.m < kMost && s.n < kMost && s.k < kMost && s.batch < kMost && s.m > 0 && s.n > 0 && s.k > 0;
}

int number(int64_t v) { return static_cast<int>(v); }

// Whether a product can read the operand where it lies: dense rows, each at a multiple of 16 bytes.
bool is_ready(const Matrices& o, int64_t bytes) {
  return o.column == 1 && o.row * bytes % 16 == 0 && o.batch * bytes % 16 == 0;
}

class MatrixKernel final : public LayerKernel {
 public:
  explicit MatrixKernel(bool linear) : linear_(linear) {}

  static Product product_of(const NodeContext& node, const MatrixShapes& s, bool x_ready, bool w_ready) {
    const int64_t padded = (s.k + 7) / 8 * 8;
    const Element element = element_of(node.in[kX]->dtype, node.precision);
    Product p = matrix_product(element, number(s.m), number(s.n), number(s.k), number(x_ready ? s.x.row : padded),
                               number(w_ready ? s.w.row : padded), s.n);
    ProductArguments& a = p.shape;
    p.batch = number(s.batch);
    a.x_batch = s.x.batch == 0 ? 0 : x_ready ? s.x.batch : s.m * padded;
    a.w_batch = s.w.batch == 0 ? 0 : w_ready ? s.w.batch : s.n * padded;
    a.y_batch = s.m * s.n;
    a.constant_w = constant_of(node, kW) != nullptr;
    return p;
  }

  static bool shapes_of(const NodeContext& node, bool linear, MatrixShapes* shapes) {
    return read_shapes(node.in[kX]->shape, node.in[kW]->shape, !linear && node.attrs.b("transpose_a"),
                       linear || node.attrs.b("transpose_b"), shapes) &&
           fits(*shapes);
  }

  Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    if (!shapes_of(node, linear_, &shapes_)) return fail(Code::kUnsupported, "CUDA: no product of these shapes");
    const MatrixShapes& s = shapes_;
    const int64_t bytes = static_cast<int64_t>(dtype_size(node.in[kX]->dtype));
    packs_weights_ = constant_of(node, kW) != nullptr;
    x_ready_ = is_ready(s.x, bytes);
    w_ready_ = !packs_weights_ && is_ready(s.w, bytes);
    product_ = product_of(node, s, x_ready_, w_ready_);
    const QuantizedMatrix* quantized = node.quantized_input(kW);
    makes_weights_ = quantized != nullptr;
    quantized_.clear();
    macs_ = s.batch * s.m * s.n * s.k;
    const int64_t matrices = s.w.batch == 0 ? 1 : s.batch;
    if (quantized != nullptr) {
      product_.shape.constant_w = false;
      quantized_.make(node, kW, *quantized);
    } else if (packs_weights_) {
      WeightForm form{matrices * s.n, 1, s.k, s.w.column == 1 ? "rows_" : "columns_"};
      pack_weights(
          node, kW, form,
          [&](int64_t row, int64_t, int64_t c) { return row / s.n * s.w.batch + row % s.n * s.w.row + c * s.w.column; },
          &weights_);
    }
    const int64_t padded = (s.k + 7) / 8 * 8 * bytes;
    x_bytes_ = x_ready_ ? 0 : round_up((s.x.batch == 0 ? 1 : s.batch) * s.m * padded);
    w_bytes_ = w_ready_ || (packs_weights_ && !makes_weights_) ? 0 : round_up(matrices * s.n * padded);
    MINNOW_RETURN_IF_ERROR(prepare(node, workspace));
    *workspace += x_bytes_ + w_bytes_;
    return prepare_few_rows(node);
  }
  // The rows of Linear's weights; those of MatMul may be columns.
  bool unpacks(int i) const override { return linear_ && i == static_cast<int>(kW); }

  Status enqueue(const RunContext& context, gpu::Stream& stream) override {
    const cudaStream_t to = target_of(stream).stream;
    char* space = static_cast<char*>(context.workspace);
    const void *x = context.in[kX]->data, *w = packs_weights_ ? weights_.as<void>() : context.in[kW]->data;
    if (!x_ready_) {
      MINNOW_RETURN_IF_ERROR(copy(shapes_.x, x, space, to));
      x = space;
      space += x_bytes_;
    }
    if (makes_weights_) {
      FewRows rows;
      if (few_rows_operands(context, x, &rows)) {
        const FewRowsQuantized few = quantized_.product(rows);
        if (few_rows_quantized_fits(few, target_of(stream)))
          return check(few_rows_quantized(few, target_of(stream)), "to multiply few rows");
      }
      const int padded = number((shapes_.k + 7) / 8 * 8);
      MINNOW_RETURN_IF_ERROR(quantized_.unpack(context.in[kX]->type.dtype, padded, space, to));
      w = space;
      space += w_bytes_;
    } else if (w_bytes_ > 0) {
      MINNOW_RETURN_IF_ERROR(copy(shapes_.w, w, space, to));
      w = space;
      space += w_bytes_;
    }
    return multiply(context, stream, x, w, space);
  }

 private:
  Status prepare_few_rows(const NodeContext& node) {
    const MatrixShapes& s = shapes_;
    const bool fits = s.batch == 1 && s.m <= kMostFewRows && s.k % 8 == 0 && x_ready_ &&
                      (packs_weights_ || (w_ready_ && s.w.row == s.k));
    if (!fits) return ok();
    FewRows sizes;
    sizes.rows = number(s.m), sizes.n = number(s.n), sizes.k = number(s.k);
    sizes.x_row = s.x.row, sizes.y_row = s.n;
    if (makes_weights_) {
      // What is aligned in fact is seen in the run.
      FewRowsQuantized few = quantized_.product(sizes);
      few.product.dtype = node.in[kX]->dtype;
      if (!few_rows_quantized_fits(few, Target{nullptr, false, current_chip().capability})) return ok();
    }
    return add_few_rows(node, sizes);
  }

  static int64_t round_up(int64_t bytes) { return (bytes + 255) / 256 * 256; }

  Status copy(const Matrices& operand, const void* from, void* to, cudaStream_t stream) const {
    MatrixCopy c;
    c.element_bytes = bytes_of(product_.element);
    c.batch = operand.batch == 0 ? 1 : number(shapes_.batch);
    c.rows = number(operand.rows);
    c.columns = number(shapes_.k);
    c.from_batch = operand.batch;
    c.from_row = operand.row;
    c.from_column = operand.column;
    c.from = from;
    c.to = to;
    return copy_matrix(c, stream);
  }

  const bool linear_;
  MatrixShapes shapes_;
  bool x_ready_ = false, w_ready_ = false;
  int64_t x_bytes_ = 0, w_bytes_ = 0;
  QuantizedWeights quantized_;
};

std::unique_ptr<Kernel> create_linear(const NodeContext&) { return std::make_unique<MatrixKernel>(true); }
std::unique_ptr<Kernel> create_matmul(const NodeContext&) { return std::make_unique<MatrixKernel>(false); }

bool supports_product(const NodeContext& node, bool linear, std::string* why) {
  if (!supports_layer(node, why)) return false;
  MatrixShapes shapes;
  if (node.in[kW]->dtype != node.in[kX]->dtype && constant_of(node, kW) == nullptr) {
    *why = "multiplies operands of one type";
  } else if (!MatrixKernel::shapes_of(node, linear, &shapes) ||
             product_configs(MatrixKernel::product_of(node, shapes, false, false), 1).empty()) {
    *why = "has no kernel for a product of these shapes";
  } else {
    return true;
  }
  return false;
}

bool supports_linear(const NodeContext& node, std::string* why) { return supports_product(node, true, why); }
bool supports_matmul(const NodeContext& node, std::string* why) { return supports_product(node, false, why); }

}  // namespace

MINNOW_CUDA_KERNEL("Linear", create_linear, supports_linear);
MINNOW_CUDA_KERNEL("MatMul", create_matmul, supports_matmul);

}  // namespace minnow::cuda
