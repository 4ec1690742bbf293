// The op MatMul.
#include "kernels/cpu/gemm/matmul.h"

#include <algorithm>
#include <utility>

#include "kernels/cpu/gemm/bf16.h"
#include "kernels/cpu/machine/cost.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/quantized_columns.h"
#include "kernels/core/rounding.h"
#include "kernels/core/infer.h"
#include "kernels/core/macs.h"
#include "kernels/cpu/table.h"

namespace minnow {

using LongLong = long long;

Status read_matmul(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b, MatMulShape* shape) {
  if (a.rank() < 1 || b.rank() < 1)
    return fail(Code::kFormat, "a matrix product of shapes %s and %s: scalars are no matrices", a.str().c_str(),
                b.str().c_str());
  MatMulShape s;
  s.transpose_a = transpose_a && a.rank() > 1;
  s.transpose_b = transpose_b && b.rank() > 1;
  s.m = a.rank() == 1 ? 1 : a.at(s.transpose_a ? -1 : -2);
  s.k = a.at(s.transpose_a ? -2 : -1);
  s.n = b.rank() == 1 ? 1 : b.at(s.transpose_b ? -2 : -1);
  const int64_t inner = b.rank() == 1 ? b[0] : b.at(s.transpose_b ? -1 : -2);
  if (inner != s.k)
    return fail(Code::kFormat, "a matrix product of shapes %s%s and %s%s: %lld columns meet %lld rows", a.str().c_str(),
                s.transpose_a ? " (transposed)" : "", b.str().c_str(), s.transpose_b ? " (transposed)" : "",
                static_cast<LongLong>(s.k), static_cast<LongLong>(inner));
  Shape a_batch, b_batch, batch;
  for (int i = 0; i + 2 < a.rank(); ++i) a_batch.push_back(a[i]);
  for (int i = 0; i + 2 < b.rank(); ++i) b_batch.push_back(b[i]);
  MINNOW_RETURN_IF_ERROR(broadcast_shapes(a_batch, b_batch, &batch));
  s.a_matrices = a_batch.count();
  s.b_matrices = b_batch.count();
  s.a_steps.resize(batch.rank());
  s.b_steps.resize(batch.rank());
  for (int axis = 1; axis <= batch.rank(); ++axis) {
    const int64_t a_size = axis <= a_batch.rank() ? a_batch.at(-axis) : 1;
    const int64_t b_size = axis <= b_batch.rank() ? b_batch.at(-axis) : 1;
    s.a_steps[batch.rank() - axis] = a_size > 1 ? a_batch.count(a_batch.rank() + 1 - axis, a_batch.rank()) : 0;
    s.b_steps[batch.rank() - axis] = b_size > 1 ? b_batch.count(b_batch.rank() + 1 - axis, b_batch.rank()) : 0;
  }
  s.batch = batch;
  s.out = batch;
  if (a.rank() > 1) s.out.push_back(s.m);
  if (b.rank() > 1) s.out.push_back(s.n);
  *shape = std::move(s);
  return ok();
}

namespace {

Status infer_matmul(InferContext& c) {
  if (!c.has(0) || !c.has(1)) return fail(Code::kFormat, "two matrices are needed");
  const DType dtype = c.in(0).dtype;
  if (c.in(1).dtype != dtype)
    return fail(Code::kFormat, "a product of %s and %s", dtype_name(dtype), dtype_name(c.in(1).dtype));
  if (!can_multiply(dtype)) return fail(Code::kUnsupported, "a matrix product of %s", dtype_name(dtype));
  MatMulShape shape;
  MINNOW_RETURN_IF_ERROR(
      read_matmul(c.shape(0), c.shape(1), c.attrs.b("transpose_a"), c.attrs.b("transpose_b"), &shape));
  if (shape.out.rank() > kMaxRank) return fail(Code::kUnsupported, "an output of rank %d", shape.out.rank());
  c.set(0, dtype, shape.out);
  return ok();
}

class MatMulPlain final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    dtype_ = node.in[0]->dtype;
    return read_matmul(node.in[0]->shape, node.in[1]->shape, node.attrs.b("transpose_a"), node.attrs.b("transpose_b"),
                       &s_);
  }
  void run(const RunContext& context) override {
    if (context.out[0]->count() == 0) return;
    matmul_plain(s_, dtype_, context.in[0]->data, context.in[1]->data, nullptr, context.out[0]->data, context.pool);
  }
  [[gnu::cold]] Profile profile() const override { return {"plain", s_.macs()}; }

 private:
  MatMulShape s_;
  DType dtype_ = DType::kF32;
};

class MatMul final : public Kernel {
 public:
  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    MINNOW_RETURN_IF_ERROR(read_matmul(node.in[0]->shape, node.in[1]->shape, node.attrs.b("transpose_a"),
                                       node.attrs.b("transpose_b"), &s_));
    macs_ = s_.macs();
    *workspace = 0;
    if (node.out[0]->count() == 0) return ok();  // there may be any number of empty matrices
    // Products that share one B are one product with more rows.
    if (s_.b_matrices == 1 && !s_.transpose_a && s_.products() == s_.a_matrices && s_.products() > 1) {
      s_.m *= s_.products();
      s_.a_matrices = 1;
      s_.batch = Shape();
    }
    packed_ = round_up(gemm_packed_floats(s_.k, s_.n), 16);
    const Tensor* b = node.constant[1];
    const QuantizedMatrix* quantized = node.quantized_input(1);
    const bool as_rows = s_.m == 1 || !s_.transpose_a;
    const bool keeps = quantized != nullptr && as_rows && !s_.transpose_b &&
                       quantized->rows * quantized->columns >= kLeastQuantized &&
                       QuantizedColumns::takes(*quantized, s_.n, 1);
    low_ = b != nullptr && !keeps && as_rows && Bf16Gemm::takes(s_.m, s_.n, s_.k, node.precision);
    const int threads = std::max(1, node.threads);
    threads_ = threads;
    spread_ = s_.products() >= 2 * threads || threads == 1;  // a product is one thread's work
    columns_ = !keeps ? QuantizedColumns()
                      : QuantizedColumns(*quantized, s_.m, s_.k, s_.n, 1, spread_ ? 1 : threads, node.precision);
    FloatBuffer floats;
    const auto numbers = [&] {
      if (quantized == nullptr) return b->as<float>();
      floats = quantized->floats();
      return static_cast<const float*>(floats.data());
    };
    if (keeps) {
      weights_.make(node, {1}, columns_.packing(), 4 * s_.b_matrices * columns_.packed_floats(), [&](void* to) {
        for (int64_t i = 0; i < s_.b_matrices; ++i)
          columns_.pack(*quantized, i * s_.k * s_.n, static_cast<float*>(to) + i * columns_.packed_floats(), node.pool);
      });
    } else if (low_) {
      low_gemm_ = Bf16Gemm(s_.m, s_.n, s_.k, Activation(), spread_ ? 1 : threads, node.precision);
      low_packed_ = round_up(low_gemm_.packed_floats(), 16);
      low_weights_.make(node, {1}, low_gemm_.packing(s_.transpose_b), 4 * s_.b_matrices * low_packed_, [&](void* to) {
        const float* from = numbers();
        for (int64_t i = 0; i < s_.b_matrices; ++i)
          low_gemm_.pack_b(from + i * s_.k * s_.n, s_.ldb(), s_.transpose_b, static_cast<float*>(to) + i * low_packed_,
                           node.pool);
      });
    } else if (b == nullptr) {
      weights_.clear();
    } else {
      weights_.make(node, {1}, s_.transpose_b ? "gemm_t" : "gemm", 4 * s_.b_matrices * packed_, [&](void* to) {
        const float* from = numbers();
        for (int64_t i = 0; i < s_.b_matrices; ++i)
          gemm_pack_b(from + i * s_.k * s_.n, s_.ldb(), s_.transpose_b, s_.k, s_.n,
                      static_cast<float*>(to) + i * packed_, node.pool);
      });
    }
    constant_ = b != nullptr;
    few_rows_ = b == nullptr && s_.m <= kFewRows && (s_.m == 1 || !s_.transpose_a);
    // A few small products are cut into parts of some rows, so that all threads work at once.
    const int64_t parts = ceil_div(2 * threads, s_.products()), a_product = Shape{s_.m, s_.n, s_.k}.count();
    part_rows_ = spread_ || low_ || few_rows_ ? s_.m : std::min(s_.m, round_up(ceil_div(s_.m, parts), kPartRows));
    // A row alone, and sums in parts, are added up in another order, which must not depend on the number of threads.
    while (s_.m % part_rows_ == 1) part_rows_ = std::min(s_.m, part_rows_ + kPartRows);
    is_cut_ = !keeps && part_rows_ < s_.m && s_.products() > 1 && a_product <= kSmallProduct && s_.k <= kLongestSum &&
              (b != nullptr || s_.b_matrices * packed_ <= kMostPacked);
    if (is_cut_) {
      gemm_ = Gemm(part_rows_, s_.n, s_.k, s_.transpose_a, Activation(), 1, node.precision);
      last_ = Gemm(s_.m - (parts_of_product() - 1) * part_rows_, s_.n, s_.k, s_.transpose_a, Activation(), 1,
                   node.precision);
      space_floats_ = round_up(std::max(gemm_.workspace_bytes(), last_.workspace_bytes()) / 4, 16);
      *workspace = (threads * space_floats_ + (b == nullptr ? s_.b_matrices * packed_ : 0)) * 4;
      return ok();
    }
    gemm_ = Gemm(s_.m, s_.n, s_.k, s_.transpose_a, Activation(), spread_ ? 1 : threads, node.precision);
    // Per thread, or for all together: B packed, and the space of the product.
    space_floats_ = few_rows_ ? 0
                    : keeps   ? round_up(columns_.workspace_bytes() / 4, 16)
                    : low_    ? round_up(low_gemm_.workspace_bytes() / 4, 16)
                              : round_up(gemm_.workspace_bytes() / 4, 16) + (b == nullptr ? packed_ : 0);
    *workspace = (spread_ ? threads : 1) * space_floats_ * 4;
    return ok();
  }

  void run(const RunContext& context) override {
    if (context.out[0]->count() == 0) return;
    if (is_cut_) return run_parts(context);
    if (!spread_) {
      for (int64_t i = 0; i < s_.products(); ++i) run_product(context, i, 0, context.pool);
      return;
    }
    const int64_t grain = std::max<int64_t>(1, 20000 / (s_.m * s_.n * s_.k + 1));
    context.pool->parallel_for(s_.products(), grain, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; ++i) run_product(context, i, worker, nullptr);
    });
  }

  bool unpacks(int i) const override { return i == 1; }
  bool reads(int i) const override { return i != 1 || !constant_; }
  [[gnu::cold]] Profile profile() const override {
    if (!columns_.empty()) return {columns_.scheme(), macs_};
    if (low_) return {low_gemm_.scheme(), macs_};
    return {few_rows_ ? "few_rows" : !constant_ ? (s_.products() > 1 ? "gemm_batch" : "gemm") : "gemm_packed", macs_};
  }
  double seconds() const override {
    return constant_ && !low_ && columns_.empty() ? estimate_product(macs_, s_.b_matrices * s_.n * s_.k) : 0;
  }

 private:
  // Rows of a part, and multiply-adds of a product and floats of packed matrices at the most, for which it is done.
  static constexpr int64_t kPartRows = 16, kSmallProduct = 1 << 24, kMostPacked = 1 << 21;

  int64_t parts_of_product() const { return ceil_div(s_.m, part_rows_); }

  void run_parts(const RunContext& context) const {
    float* space = static_cast<float*>(context.workspace);
    const float *a = context.in[0]->as<float>(), *packed = weights_.data();
    if (!constant_) {
      float* to = space + threads_ * space_floats_;
      const float* b = context.in[1]->as<float>();
      context.pool->parallel_for(s_.b_matrices, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i)
          gemm_pack_b(b + i * s_.k * s_.n, s_.ldb(), s_.transpose_b, s_.k, s_.n, to + i * packed_, nullptr);
      });
      packed = to;
    }
    const int64_t parts = parts_of_product();
    const auto range = [&](int64_t begin, int64_t end, int worker) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t i = task / parts, row = task % parts * part_rows_;
        GemmCall call = {a + s_.a_of(i) * s_.m * s_.k + row * (s_.transpose_a ? 1 : s_.lda()),
                         s_.lda(),
                         s_.transpose_a,
                         packed + s_.b_of(i) * packed_,
                         nullptr,
                         context.out[0]->as<float>() + (i * s_.m + row) * s_.n,
                         s_.n,
                         space + worker * space_floats_,
                         nullptr};
        (task % parts == parts - 1 ? last_ : gemm_).run(call);
      }
    };
    if (context.pool->threads() > threads_) return range(0, s_.products() * parts, 0);
    context.pool->parallel_for(s_.products() * parts, 1, range);
  }

  void run_product(const RunContext& context, int64_t i, int worker, ThreadPool* pool) const {
    const int64_t of_b = s_.b_of(i);
    const float* a = context.in[0]->as<float>() + s_.a_of(i) * s_.m * s_.k;
    float* c = context.out[0]->as<float>() + i * s_.m * s_.n;
    const float* b = context.in[1]->as<float>();  // null where it is packed
    if (b != nullptr) b += of_b * s_.k * s_.n;
    if (few_rows_) return gemm_few_rows(a, s_.k, b, s_.ldb(), s_.transpose_b, s_.m, s_.n, s_.k, c, s_.n, pool);
    float* space = static_cast<float*>(context.workspace) + worker * space_floats_;
    GemmCall call = {a, s_.lda(), s_.transpose_a, nullptr, nullptr, c, s_.n, space, pool};
    if (!columns_.empty()) {
      call.packed_b = weights_.data() + of_b * columns_.packed_floats();
      return columns_.run(call);
    }
    if (low_) {
      call.packed_b = low_weights_.data() + of_b * low_packed_;
      return low_gemm_.run(call);
    }
    if (constant_) {
      call.packed_b = weights_.data() + of_b * packed_;
    } else {
      float* packed = space + round_up(gemm_.workspace_bytes() / 4, 16);
      gemm_pack_b(b, s_.ldb(), s_.transpose_b, s_.k, s_.n, packed, pool);
      call.packed_b = packed;
    }
    gemm_.run(call);
  }

  MatMulShape s_;
  Gemm gemm_, last_;  // the other one for the last part of a product
  Bf16Gemm low_gemm_;
  QuantizedColumns columns_;      // empty unless the weights stay quantized
  Packed weights_, low_weights_;  // by the number of rows one or the other form of the weights is needed
  bool constant_ = false, low_ = false;
  int64_t packed_ = 0, low_packed_ = 0, space_floats_ = 0, macs_ = 0;
  int64_t part_rows_ = 0;
  int threads_ = 1;
  bool few_rows_ = false, spread_ = false, is_cut_ = false;
};

std::unique_ptr<Kernel> create_matmul(const NodeContext& node) {
  if (node.in[0]->dtype != DType::kF32) return std::make_unique<MatMulPlain>();
  return std::make_unique<MatMul>();
}

MINNOW_OP("MatMul", infer_matmul, kNoTrait, macs_of_product);
MINNOW_KERNEL("MatMul", create_matmul);

}  // namespace

}  // namespace minnow
