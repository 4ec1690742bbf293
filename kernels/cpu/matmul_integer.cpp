// The op MatMulInteger: (A - a_zero) (B - b_zero) of 8-bit integers, in i32.
#include "kernels/cpu/gemm_integer.h"
#include "kernels/cpu/matmul.h"

namespace minnow {
namespace {

using LongLong = long long;

Status infer_matmul_integer(InferContext& c) {
  if (!c.has(0) || !c.has(1)) return fail(Code::kFormat, "two matrices are needed");
  MatMulShape s;
  MINNOW_RETURN_IF_ERROR(read_matmul(c.shape(0), c.shape(1), false, false, &s));
  for (int i = 0; i < 2; ++i) {
    if (!is_byte(c.in(i).dtype))
      return fail(Code::kFormat, "input %d must be u8 or i8, not %s", i, dtype_name(c.in(i).dtype));
    if (!c.has(i + 2)) continue;
    if (c.in(i + 2).dtype != c.in(i).dtype)
      return fail(Code::kFormat, "zero point %d is %s, but its matrix %s", i, dtype_name(c.in(i + 2).dtype),
                  dtype_name(c.in(i).dtype));
    const int64_t zeros = c.shape(i + 2).count(), one_each = i == 0 ? s.a_matrices * s.m : s.b_matrices * s.n;
    const int64_t shared = i == 0 ? s.m : s.n;
    if (zeros != 1 && zeros != shared && zeros != one_each)
      return fail(Code::kFormat, "zero point %d has shape %s: one number, or one for each %s (%lld), is needed", i,
                  c.shape(i + 2).str().c_str(), i == 0 ? "row" : "column", static_cast<LongLong>(shared));
  }
  c.set(0, DType::kI32, s.out);
  return ok();
}

// The zero point for row (or column) `i` of matrix `which`, when there are `size` rows in each matrix.
int32_t zero_at(const Tensor* zeros, int64_t which, int64_t size, int64_t i) {
  if (zeros == nullptr) return 0;
  const int64_t n = zeros->count();
  return byte_at(*zeros, n == 1 ? 0 : n == size ? i : which * size + i);
}

class MatMulInteger final : public Kernel {
 public:
  Status reshape(const NodeContext& node, int64_t* workspace) override {
    MINNOW_RETURN_IF_ERROR(read_matmul(node.in[0]->shape, node.in[1]->shape, false, false, &s_));
    const bool zero_known = node.in.size() < 4 || node.in[3] == nullptr || node.constant[3] != nullptr;
    if (node.constant[1] != nullptr && zero_known && packed_.empty()) {
      packed_.resize(static_cast<size_t>(right_size()));
      for (int64_t i = 0; i < s_.b_matrices * panels(); ++i)
        pack_panel(*node.constant[1], node.in.size() < 4 ? nullptr : node.constant[3], i, packed_.data());
    }
    *workspace = 2 * (left_size() + (packed_.empty() ? right_size() : 0));
    return ok();
  }

  void run(const RunContext& context) override {
    const Tensor &a = *context.in[0], &b = *context.in[1];
    const Tensor *a_zeros = input(context, 2), *b_zeros = input(context, 3);
    int16_t* left = static_cast<int16_t*>(context.workspace);
    const int64_t rows = s_.a_matrices * s_.m, row_grain = 20000 / (s_.k + 1) + 1;
    context.pool->parallel_for(rows, row_grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int32_t zero = zero_at(a_zeros, i / s_.m, s_.m, i % s_.m);
        if (a.type.dtype == DType::kU8) {
          widen_bytes(a.as<uint8_t>() + i * s_.k, s_.k, zero, left + i * row(), row());
        } else {
          widen_bytes(a.as<int8_t>() + i * s_.k, s_.k, zero, left + i * row(), row());
        }
      }
    });
    const int16_t* right = packed_.data();
    if (packed_.empty()) {
      int16_t* packed = left + left_size();
      context.pool->parallel_for(s_.b_matrices * panels(), 1 + 20000 / (integer_panel_size(s_.k) + 1),
                                 [&](int64_t begin, int64_t end, int) {
                                   for (int64_t i = begin; i < end; ++i) pack_panel(b, b_zeros, i, packed);
                                 });
      right = packed;
    }
    // A task is a block of rows times a panel of columns.
    constexpr int64_t kBlock = 64;
    const int64_t blocks = (s_.m + kBlock - 1) / kBlock, width = integer_panel(), size = integer_panel_size(s_.k);
    const int64_t work = std::min(s_.m, kBlock) * width * s_.k;
    int32_t* c = context.out[0]->as<int32_t>();
    context.pool->parallel_for(
        s_.products() * blocks * panels(), 1 + 100000 / (work + 1), [&](int64_t begin, int64_t end, int) {
          for (int64_t task = begin; task < end; ++task) {
            const int64_t panel = task % panels(), first = task / panels() % blocks * kBlock;
            const int64_t p = task / panels() / blocks;
            const int64_t from_a = s_.a[static_cast<size_t>(p)] * s_.m + first;
            const int64_t from_b = s_.b[static_cast<size_t>(p)] * panels() + panel;
            gemm_integer(left + from_a * row(), std::min(kBlock, s_.m - first), row() / 2, right + from_b * size,
                         c + (p * s_.m + first) * s_.n + panel * width, s_.n, std::min(width, s_.n - panel * width));
          }
        });
  }

  bool reads(int i) const override { return (i != 1 && i != 3) || packed_.empty(); }
  std::string scheme() const override { return "panels"; }
  int64_t macs() const override { return s_.macs(); }

 private:
  static const Tensor* input(const RunContext& context, size_t i) {
    return i < context.in.size() ? context.in[i] : nullptr;
  }
  int64_t row() const { return 2 * integer_pairs(s_.k); }
  int64_t panels() const { return (s_.n + integer_panel() - 1) / integer_panel(); }
  int64_t left_size() const { return (s_.a_matrices * s_.m * row() + 31) / 32 * 32; }
  int64_t right_size() const { return s_.b_matrices * panels() * integer_panel_size(s_.k); }

  // Panel `i` of all panels of all right matrices.
  void pack_panel(const Tensor& b, const Tensor* zeros, int64_t i, int16_t* packed) const {
    const int64_t which = i / panels(), width = integer_panel(), first = i % panels() * width;
    int16_t* to = packed + i * integer_panel_size(s_.k);
    std::fill(to, to + integer_panel_size(s_.k), int16_t{0});
    for (int64_t j = 0; j < std::min(width, s_.n - first); ++j) {
      const int32_t zero = zero_at(zeros, which, s_.n, first + j);
      for (int64_t k = 0; k < s_.k; ++k)
        to[(k / 2 * width + j) * 2 + k % 2] =
            static_cast<int16_t>(byte_at(b, (which * s_.k + k) * s_.n + first + j) - zero);
    }
  }

  MatMulShape s_;
  std::vector<int16_t> packed_;
};

std::unique_ptr<Kernel> create_matmul_integer(const NodeContext&) { return std::make_unique<MatMulInteger>(); }

MINNOW_OP("MatMulInteger", infer_matmul_integer, create_matmul_integer, LayoutRule::kPlain);

}  // namespace
}  // namespace minnow
