// The op MatMulInteger: (A - a_zero) (B - b_zero) of 8-bit integers, in i32.
#include <algorithm>

#include "kernels/cpu/matmul.h"

namespace minnow {
namespace {

using LongLong = long long;

bool is_byte(DType t) { return t == DType::kU8 || t == DType::kI8; }

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

int32_t byte_at(const Tensor& t, int64_t i) {
  return t.type.dtype == DType::kU8 ? static_cast<int32_t>(t.as<uint8_t>()[i])
                                    : static_cast<int32_t>(t.as<int8_t>()[i]);
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
    *workspace = 0;
    return read_matmul(node.in[0]->shape, node.in[1]->shape, false, false, &s_);
  }

  void run(const RunContext& context) override {
    if (context.in[1]->type.dtype == DType::kU8) {
      multiply<uint8_t>(context);
    } else {
      multiply<int8_t>(context);
    }
  }

  std::string scheme() const override { return "plain"; }
  int64_t macs() const override { return s_.macs(); }

 private:
  static const Tensor* input(const RunContext& context, size_t i) {
    return i < context.in.size() ? context.in[i] : nullptr;
  }

  // Sums of products of 9-bit numbers, kept in unsigned 32 bits, where they may wrap.
  template <typename B>
  void multiply(const RunContext& context) const {
    const Tensor& a = *context.in[0];
    const Tensor *a_zeros = input(context, 2), *b_zeros = input(context, 3);
    const B* matrices = context.in[1]->as<B>();
    uint32_t* c = reinterpret_cast<uint32_t*>(context.out[0]->data);
    const int64_t grain = std::max<int64_t>(1, 10000 / (s_.n * s_.k + 1));
    context.pool->parallel_for(s_.products() * s_.m, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t p = row / s_.m, i = row % s_.m;
        const int64_t which_a = s_.a[static_cast<size_t>(p)], which_b = s_.b[static_cast<size_t>(p)];
        const int32_t zero = zero_at(a_zeros, which_a, s_.m, i);
        uint32_t* to = c + row * s_.n;
        std::fill(to, to + s_.n, 0u);
        uint32_t sum = 0;
        for (int64_t k = 0; k < s_.k; ++k) {
          const uint32_t factor = static_cast<uint32_t>(byte_at(a, (which_a * s_.m + i) * s_.k + k) - zero);
          const B* from = matrices + (which_b * s_.k + k) * s_.n;
          for (int64_t j = 0; j < s_.n; ++j) to[j] += factor * static_cast<uint32_t>(static_cast<int32_t>(from[j]));
          sum += factor;
        }
        if (b_zeros == nullptr) continue;
        for (int64_t j = 0; j < s_.n; ++j) to[j] -= sum * static_cast<uint32_t>(zero_at(b_zeros, which_b, s_.n, j));
      }
    });
  }

  MatMulShape s_;
};

std::unique_ptr<Kernel> create_matmul_integer(const NodeContext&) { return std::make_unique<MatMulInteger>(); }

MINNOW_OP("MatMulInteger", infer_matmul_integer, create_matmul_integer, LayoutRule::kPlain);

}  // namespace
}  // namespace minnow
