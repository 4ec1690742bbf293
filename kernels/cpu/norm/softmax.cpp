// Softmax and LogSoftmax along any axis.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/convert/blocks.h"
#include "kernels/cpu/machine/simd.h"
//
#include <algorithm>

#include "kernels/cpu/elementwise/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {

// A row, in three passes over memory that is in the cache by then. y may be x.
HWY_INLINE void SoftmaxOneRow(bool log, const float* x, float* y, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = n / lanes * lanes;
  // NaN may get lost here; it comes back with the exponentials.
  auto most = hn::Set(d, -__builtin_inff());
  auto most2 = most;
  int64_t i = 0;
  for (; i + 2 * lanes <= whole; i += 2 * lanes) {
    most = hn::Max(most, hn::LoadU(d, x + i));
    most2 = hn::Max(most2, hn::LoadU(d, x + i + lanes));
  }
  if (i < whole) most = hn::Max(most, hn::LoadU(d, x + i));
  float greatest = hn::GetLane(hn::MaxOfLanes(d, hn::Max(most, most2)));
  if (whole < n) {
    const auto rest = hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(n - whole)), LoadPart(d, x + whole, n - whole),
                                     hn::Set(d, greatest));
    greatest = hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Set(d, greatest), rest)));
  }

  const auto shift = hn::Set(d, greatest);
  auto sums = hn::Zero(d);
  auto sums2 = sums;
  for (i = 0; i + 2 * lanes <= whole; i += 2 * lanes) {
    __asm__ volatile("" : "+r"(log));  // or the compiler would write the loop twice
    const auto e = Exp(d, hn::Sub(hn::LoadU(d, x + i), shift));
    const auto e2 = Exp(d, hn::Sub(hn::LoadU(d, x + i + lanes), shift));
    if (!log) hn::StoreU(e, d, y + i);
    if (!log) hn::StoreU(e2, d, y + i + lanes);
    sums = hn::Add(sums, e);
    sums2 = hn::Add(sums2, e2);
  }
  for (; i < n; i += lanes) {  // a vector, or a part of one, or both
    const int64_t m = std::min(lanes, n - i);
    const auto e = Exp(d, hn::Sub(LoadPart(d, x + i, m), shift));
    if (!log) StorePart(d, e, y + i, m);
    sums2 = hn::Add(sums2, hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(m)), e));
  }
  const float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sums, sums2)));
  if (log) {
    const auto total = Log(d, hn::Set(d, sum));
    MapFloats(x, y, n, [&](auto, auto v) HWY_ATTR { return hn::Sub(hn::Sub(v, shift), total); });
  } else {
    const auto scale = hn::Set(d, 1.0f / sum);
    MapFloats(y, y, n, [&](auto, auto v) HWY_ATTR { return hn::Mul(v, scale); });
  }
}

// A vector of neighboring columns, of which `n` are real. y may be x.
template <bool part>
HWY_INLINE void SoftmaxOneColumn(bool log, const float* x, float* y, int64_t rows, int64_t stride, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto load = [&](const float* from) HWY_ATTR { return part ? LoadPart(d, from, n) : hn::LoadU(d, from); };
  const auto store = [&](auto v, float* to) HWY_ATTR { part ? StorePart(d, v, to, n) : hn::StoreU(v, d, to); };
  auto most = hn::Set(d, -__builtin_inff());
  for (int64_t r = 0; r < rows; ++r) most = hn::Max(most, load(x + r * stride));
  auto sum = hn::Zero(d);
  for (int64_t r = 0; r < rows; ++r) {
    __asm__ volatile("" : "+r"(log));
    const auto e = Exp(d, hn::Sub(load(x + r * stride), most));
    if (!log) store(e, y + r * stride);
    sum = hn::Add(sum, e);
  }
  if (log) {
    sum = Log(d, sum);
    for (int64_t r = 0; r < rows; ++r) store(hn::Sub(hn::Sub(load(x + r * stride), most), sum), y + r * stride);
  } else {
    const auto scale = hn::Div(hn::Set(d, 1.0f), sum);
    for (int64_t r = 0; r < rows; ++r) store(hn::Mul(load(y + r * stride), scale), y + r * stride);
  }
}

HWY_INLINE void SoftmaxColumns(bool log, const float* x, float* y, int64_t rows, int64_t stride, int64_t columns) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  int64_t c = 0;
  for (; c + lanes <= columns; c += lanes) SoftmaxOneColumn<false>(log, x + c, y + c, rows, stride, lanes);
  if (c < columns) SoftmaxOneColumn<true>(log, x + c, y + c, rows, stride, columns - c);
}

// `rows` elements of each of `columns` neighboring columns; one column of stride 1 is a plain row.
void SoftmaxFloats(bool log, const float* x, float* y, int64_t rows, int64_t stride, int64_t columns) {
  if (columns == 1 && stride == 1) return SoftmaxOneRow(log, x, y, rows);
  SoftmaxColumns(log, x, y, rows, stride, columns);
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>
#include <limits>

#include "kernels/cpu/reduce/axis.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

HWY_EXPORT(SoftmaxFloats);

void softmax_doubles(bool log, double* x, int64_t n) {
  double most = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < n; ++i) most = x[i] > most ? x[i] : most;
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double e = std::exp(x[i] - most);
    sum += e;
    x[i] = log ? x[i] - most : e;
  }
  const double total = std::log(sum);
  for (int64_t i = 0; i < n; ++i) x[i] = log ? x[i] - total : x[i] / sum;
}

constexpr int64_t kColumns = 64;

// Rows of two elements, of which detectors have thousands: as columns, with the same results as one row at a time.
void softmax_pairs(bool log, const float* x, float* y, int64_t rows) {
  for (int64_t r = 0; r < rows; r += kColumns) {
    const int64_t n = std::min(kColumns, rows - r);
    float columns[2 * kColumns];
    for (int64_t i = 0; i < 2 * n; ++i) columns[i % 2 * kColumns + i / 2] = x[2 * r + i];
    HWY_DYNAMIC_DISPATCH(SoftmaxFloats)(log, columns, columns, 2, kColumns, n);
    for (int64_t i = 0; i < 2 * n; ++i) y[2 * r + i] = columns[i % 2 * kColumns + i / 2];
  }
}

class Softmax final : public Kernel {
 public:
  Softmax(const NodeContext& node, bool log) : attrs_(node.attrs), log_(log) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Shape& shape = node.in[0]->shape;
    MINNOW_RETURN_IF_ERROR(view_.set(attrs_.i("axis", -1), shape));
    dtype_ = node.in[0]->dtype;
    // Other types are computed one column at a time, converted.
    columns_ = dtype_ == DType::kF32 ? std::min(view_.inner, kColumns) : 1;
    bytes_ = dtype_ == DType::kF32 ? 0 : (view_.rows * 8 + 63) / 64 * 64;
    *workspace = bytes_ * node.threads;
    return ok();
  }

  void run(const RunContext& context) override {
    if (view_.rows * view_.inner == 0) return;
    if (dtype_ == DType::kF32 && view_.rows == 2 && view_.inner == 1) {
      const float* x = context.in[0]->as<float>();
      float* y = context.out[0]->as<float>();
      context.pool->parallel_for(view_.outer, 2048, [&](int64_t begin, int64_t end, int) {
        softmax_pairs(log_, x + 2 * begin, y + 2 * begin, end - begin);
      });
      return;
    }
    const int64_t pieces = (view_.inner + columns_ - 1) / columns_;
    const int64_t grain = std::max<int64_t>(1, 4096 / (view_.rows * columns_));
    context.pool->parallel_for(view_.outer * pieces, grain, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t first = unit % pieces * columns_;
        const int64_t at = unit / pieces * view_.rows * view_.inner + first;
        if (dtype_ == DType::kF32) {
          HWY_DYNAMIC_DISPATCH(SoftmaxFloats)
          (log_, context.in[0]->as<float>() + at, context.out[0]->as<float>() + at, view_.rows, view_.inner,
           std::min(columns_, view_.inner - first));
        } else {
          convert_column(context, at, static_cast<char*>(context.workspace) + worker * bytes_);
        }
      }
    });
  }

 private:
  void convert_column(const RunContext& context, int64_t at, void* wide) const {
    const size_t size = dtype_size(dtype_);
    const Compute compute = compute_type(dtype_);
    const size_t wide_size = dtype_size(compute_dtype(compute));
    const int64_t run = view_.inner == 1 ? view_.rows : 1;  // elements that lie together
    for (int64_t r = 0; r < view_.rows; r += run)
      convert(dtype_, offset(context.in[0]->data, at + r * view_.inner, size), compute_dtype(compute),
              offset(wide, r, wide_size), run);
    if (compute == Compute::kF64) {
      softmax_doubles(log_, static_cast<double*>(wide), view_.rows);
    } else {
      HWY_DYNAMIC_DISPATCH(SoftmaxFloats)(log_, static_cast<float*>(wide), static_cast<float*>(wide), view_.rows, 1, 1);
    }
    for (int64_t r = 0; r < view_.rows; r += run)
      store_block(compute, offset(wide, r, wide_size), dtype_, offset(context.out[0]->data, at + r * view_.inner, size),
                  run);
  }

  const Attrs& attrs_;
  const bool log_;
  AxisView view_;
  int64_t columns_ = 1;  // columns of a unit of work
  int64_t bytes_ = 0;    // of workspace for each thread
  DType dtype_ = DType::kF32;
};

template <bool log>
std::unique_ptr<Kernel> create_softmax(const NodeContext& node) {
  return std::make_unique<Softmax>(node, log);
}

Status infer_softmax(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(infer_same(c));
  if (!is_float(c.in(0).dtype)) return fail(Code::kFormat, "takes floats, not %s", dtype_name(c.in(0).dtype));
  int axis = 0;
  return normalize_axis(c.attrs.i("axis", -1), c.shape(0).rank(), &axis);
}

MINNOW_OP("Softmax", infer_softmax);
MINNOW_KERNEL("Softmax", create_softmax<false>, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_OP("LogSoftmax", infer_softmax);
MINNOW_KERNEL("LogSoftmax", create_softmax<true>, LayoutRule::kPlain, /*in_place=*/true);

}  // namespace
}  // namespace minnow
#endif  // HWY_ONCE
