// RotaryEmbedding: pairs of features turned by the angles of their rows.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/convert/blocks.h"
#include "kernels/cpu/machine/simd.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One row of n pairs, a number of the table for each feature where it is `full`, else for each pair. y may be x.
void TurnHalves(const float* x, float* y, int64_t n, const float* cos, bool full_cos, const float* sin, bool full_sin) {
  const float *cos1 = cos + (full_cos ? n : 0), *sin1 = sin + (full_sin ? n : 0);
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + n + i);
    hn::StoreU(hn::NegMulAdd(b, hn::LoadU(d, sin + i), hn::Mul(a, hn::LoadU(d, cos + i))), d, y + i);
    hn::StoreU(hn::MulAdd(a, hn::LoadU(d, sin1 + i), hn::Mul(b, hn::LoadU(d, cos1 + i))), d, y + n + i);
  }
  for (; i < n; ++i) {
    keep_scalar();
    const float a = x[i], b = x[n + i];
    y[i] = a * cos[i] - b * sin[i];
    y[n + i] = b * cos1[i] + a * sin1[i];
  }
}

// The same with pairs of neighbors.
void TurnNeighbors(const float* x, float* y, int64_t n, const float* cos, bool full_cos, const float* sin,
                   bool full_sin) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto load = [&](const float* table, bool full, int64_t i, V& first, V& second) HWY_ATTR {
    if (full) return hn::LoadInterleaved2(d, table + 2 * i, first, second);
    first = second = hn::LoadU(d, table + i);
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    V a, b, c0, c1, s0, s1;
    hn::LoadInterleaved2(d, x + 2 * i, a, b);
    load(cos, full_cos, i, c0, c1);
    load(sin, full_sin, i, s0, s1);
    hn::StoreInterleaved2(hn::NegMulAdd(b, s0, hn::Mul(a, c0)), hn::MulAdd(a, s1, hn::Mul(b, c1)), d, y + 2 * i);
  }
  for (; i < n; ++i) {
    keep_scalar();
    const float a = x[2 * i], b = x[2 * i + 1];
    const int64_t c = full_cos ? 2 * i : i, s = full_sin ? 2 * i : i;
    y[2 * i] = a * cos[c] - b * sin[s];
    y[2 * i + 1] = b * cos[c + full_cos] + a * sin[s + full_sin];
  }
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cstring>

#include "kernels/cpu/machine/cost.h"
#include "kernels/core/infer.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

HWY_EXPORT(TurnHalves);
HWY_EXPORT(TurnNeighbors);

void turn(bool interleaved, const float* x, float* y, int64_t n, const float* cos, bool full_cos, const float* sin,
          bool full_sin) {
  if (interleaved) return HWY_DYNAMIC_DISPATCH(TurnNeighbors)(x, y, n, cos, full_cos, sin, full_sin);
  HWY_DYNAMIC_DISPATCH(TurnHalves)(x, y, n, cos, full_cos, sin, full_sin);
}

void turn(bool interleaved, const double* x, double* y, int64_t n, const double* cos, bool full_cos, const double* sin,
          bool full_sin) {
  const int64_t step = interleaved ? 2 : 1, other = interleaved ? 1 : n;
  for (int64_t i = 0; i < n; ++i) {
    keep_scalar();
    const double a = x[step * i], b = x[step * i + other];
    const double *c = cos + (full_cos ? step * i : i), *s = sin + (full_sin ? step * i : i);
    y[step * i] = a * c[0] - b * s[0];
    y[step * i + other] = b * c[full_cos ? other : 0] + a * s[full_sin ? other : 0];
  }
}

int64_t turned(const Attrs& attrs, const Shape& x) {
  const int64_t size = attrs.i("size");
  return size == 0 ? x.at(-1) : size;
}

class RotaryEmbedding final : public Kernel {
 public:
  explicit RotaryEmbedding(const NodeContext& node) : attrs_(node.attrs) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Shape& shape = node.in[0]->shape;
    dtype_ = node.in[0]->dtype;
    compute_ = compute_type(dtype_);
    interleaved_ = attrs_.b("interleaved");
    length_ = shape.at(-1);
    turned_ = turned(attrs_, shape);
    rows_ = shape.count(0, shape.rank() - 1);
    dims_ = Shape();
    for (int i = 0; i + 1 < shape.rank(); ++i) dims_.push_back(shape[i]);
    for (size_t t : {0, 1}) {
      const Shape& table = node.in[t + 1]->shape;
      Table& own = tables_[t];
      own.dtype = node.in[t + 1]->dtype;
      own.length = table.at(-1);
      own.full = own.length == turned_;
      own.strides.assign(static_cast<size_t>(dims_.rank()), 0);
      int64_t stride = own.length;
      for (int k = 2; k <= table.rank(); stride *= table.at(-k), ++k)
        if (table.at(-k) != 1) own.strides[static_cast<size_t>(dims_.rank() + 1 - k)] = stride;
    }
    // Rows of other types are converted first: of x and of both tables.
    const DType wide = compute_dtype(compute_);
    const bool same = dtype_ == wide && tables_[0].dtype == wide && tables_[1].dtype == wide;
    row_bytes_ = same ? 0 : (3 * turned_ * static_cast<int64_t>(dtype_size(wide)) + 63) / 64 * 64;
    *workspace = row_bytes_ * node.threads;
    return ok();
  }

  void run(const RunContext& context) override {
    if (rows_ * length_ == 0) return;
    context.pool->parallel_for(rows_, grain(), [&](int64_t begin, int64_t end, int worker) {
      void* own = static_cast<char*>(context.workspace) + worker * row_bytes_;
      compute_ == Compute::kF64 ? rows<double>(context, begin, end, own) : rows<float>(context, begin, end, own);
    });
  }

  double seconds() const override { return estimate_seconds(rows_, grain()); }

 private:
  struct Table {
    DType dtype = DType::kF32;
    int64_t length = 0;
    bool full = false;  // a number for each feature
    std::vector<int64_t> strides;
  };

  int64_t grain() const { return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, length_)); }

  int64_t place(const Table& table, int64_t row) const {
    int64_t at = 0;
    for (int k = dims_.rank(); k-- > 0; row /= dims_[k]) at += row % dims_[k] * table.strides[static_cast<size_t>(k)];
    return at;
  }

  // A row in the type that is computed with: where it lies, or in `buffer`.
  template <typename T>
  const T* wide(DType from, const void* data, int64_t n, T* buffer) const {
    if (from == compute_dtype(compute_)) return static_cast<const T*>(data);
    convert(from, data, compute_dtype(compute_), buffer, n);
    return buffer;
  }

  template <typename T>
  void rows(const RunContext& context, int64_t begin, int64_t end, void* workspace) const {
    const size_t size = dtype_size(dtype_);
    for (int64_t r = begin; r < end; ++r) {
      const void* x = offset(context.in[0]->data, r * length_, size);
      void* out = offset(context.out[0]->data, r * length_, size);
      if (out != x && turned_ < length_)
        std::memcpy(offset(out, turned_, size), offset(x, turned_, size),
                    static_cast<size_t>(length_ - turned_) * size);
      T* row = static_cast<T*>(workspace);
      const T* in = wide<T>(dtype_, x, turned_, row);
      const T* tables[2];
      for (size_t t : {0, 1}) {
        const Table& own = tables_[t];
        const void* table = offset(context.in[t + 1]->data, place(own, r), dtype_size(own.dtype));
        tables[t] = wide<T>(own.dtype, table, own.length,
                            row == nullptr ? nullptr : row + static_cast<int64_t>(t + 1) * turned_);
      }
      T* y = in == row ? row : static_cast<T*>(out);
      turn(interleaved_, in, y, turned_ / 2, tables[0], tables_[0].full, tables[1], tables_[1].full);
      if (y == row) store_block(compute_, y, dtype_, out, turned_);
    }
  }

  const Attrs& attrs_;
  DType dtype_ = DType::kF32;
  Compute compute_ = Compute::kF32;
  bool interleaved_ = false;
  int64_t rows_ = 0, length_ = 0, turned_ = 0;  // rows, features of each, and those in pairs
  Shape dims_;                                  // of the rows
  Table tables_[2];
  int64_t row_bytes_ = 0;
};

std::unique_ptr<Kernel> create(const NodeContext& node) { return std::make_unique<RotaryEmbedding>(node); }

Status infer_rotary(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 3));
  MINNOW_RETURN_IF_ERROR(infer_same(c));
  const Shape& x = c.shape(0);
  if (x.rank() < 1) return fail(Code::kFormat, "a scalar has no features");
  const int64_t size = turned(c.attrs, x);
  if (size < 0 || size % 2 != 0 || size > x.at(-1))
    return fail(Code::kFormat, "pairs of %lld of %lld features", static_cast<long long>(size),
                static_cast<long long>(x.at(-1)));
  for (int i = 0; i < 3; ++i) {
    if (!is_float(c.in(i).dtype)) return fail(Code::kFormat, "input %d is %s, no float", i, dtype_name(c.in(i).dtype));
    if (i == 0) continue;
    const Shape& table = c.shape(i);
    bool fits = table.rank() > 0 && table.rank() <= x.rank() && (table.at(-1) == size || table.at(-1) == size / 2);
    for (int k = 2; fits && k <= table.rank(); ++k) fits = table.at(-k) == 1 || table.at(-k) == x.at(-k);
    if (!fits)
      return fail(Code::kFormat, "input %d of shape %s is no table for %lld features of %s", i, table.str().c_str(),
                  static_cast<long long>(size), x.str().c_str());
  }
  return ok();
}

MINNOW_OP("RotaryEmbedding", infer_rotary);
MINNOW_KERNEL("RotaryEmbedding", create, LayoutRule::kPlain, /*in_place=*/true);

}  // namespace
}  // namespace minnow
#endif  // HWY_ONCE
