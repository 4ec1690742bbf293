// ArgMax, ArgMin and Hardmax. NaN counts as the extreme, as in numpy.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/convert/blocks.h"
#include "kernels/cpu/machine/simd.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Whether x takes the place of `best`; of equals the first stays, or the last comes.
template <bool max, bool last, typename T>
HWY_INLINE bool Replaces(T x, T best) {
  const bool better = max ? x > best : x < best;
  return last ? better | (x == best) | (x != x) : better | ((x != x) & (best == best));
}

// Index of the extreme of a row: first its value, then its place, both a vector at a time.
template <bool max, bool last>
HWY_INLINE int64_t FindInRow(const float* x, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  float best = x[0];
  int64_t i = 0;
  if (n >= lanes) {
    auto most = hn::LoadU(d, x);
    for (i = lanes; i + lanes <= n; i += lanes) {
      const auto v = hn::LoadU(d, x + i);
      most = hn::IfThenElse(hn::Or(max ? hn::Gt(v, most) : hn::Lt(v, most), hn::IsNaN(v)), v, most);
    }
    HWY_ALIGN float lane[hn::MaxLanes(d)];
    hn::Store(most, d, lane);
    for (int64_t k = 0; k < lanes; ++k)
      if (Replaces<max, false>(lane[k], best)) best = lane[k];
  }
  for (; i < n; ++i) {
    keep_scalar();
    if (Replaces<max, false>(x[i], best)) best = x[i];
  }

  const auto is_best = [x, best](int64_t k) { return best != best ? x[k] != x[k] : x[k] == best; };
  const auto wanted = hn::Set(d, best);
  const auto none_in = [&](int64_t k) HWY_ATTR {
    const auto v = hn::LoadU(d, x + k);
    return hn::AllFalse(d, best != best ? hn::IsNaN(v) : hn::Eq(v, wanted));
  };
  if (last) {
    for (i = n; i >= lanes && none_in(i - lanes);) i -= lanes;
    while (!is_best(i - 1)) --i;
    return i - 1;
  }
  for (i = 0; i + lanes <= n && none_in(i);) i += lanes;
  while (!is_best(i)) ++i;
  return i;
}

template <bool max, bool last, typename T>
HWY_INLINE void FindInColumns(const T* x, int64_t rows, int64_t stride, int64_t columns, T* best, int32_t* at) {
  for (int64_t c = 0; c < columns; ++c) {
    keep_scalar();
    best[c] = x[c];
    at[c] = 0;
  }
  for (int32_t r = 1; r < rows; ++r) {
    const T* row = x + r * stride;
    for (int64_t c = 0; c < columns; ++c) {
      if constexpr (!std::is_same_v<T, float>) keep_scalar();
      const bool better = Replaces<max, last>(row[c], best[c]);
      best[c] = better ? row[c] : best[c];
      at[c] = better ? r : at[c];
    }
  }
}

// Rows of the extremes of `columns` neighboring columns.
template <bool max, bool last, typename T>
HWY_INLINE void Find(const void* in, int64_t rows, int64_t stride, int64_t columns, void* best, int32_t* at) {
  const T* x = static_cast<const T*>(in);
  if constexpr (sizeof(T) == 4 && !std::is_integral_v<T>) {
    if (columns == 1 && stride == 1) {
      *at = static_cast<int32_t>(FindInRow<max, last>(x, rows));
      return;
    }
  }
  FindInColumns<max, last>(x, rows, stride, columns, static_cast<T*>(best), at);
}

template <typename T>
void FindAny(bool max, bool last, const void* in, int64_t rows, int64_t stride, int64_t columns, void* best,
             int32_t* at) {
  if (max) {
    last ? Find<true, true, T>(in, rows, stride, columns, best, at)
         : Find<true, false, T>(in, rows, stride, columns, best, at);
  } else {
    last ? Find<false, true, T>(in, rows, stride, columns, best, at)
         : Find<false, false, T>(in, rows, stride, columns, best, at);
  }
}

void FindFloats(bool max, bool last, const void* in, int64_t rows, int64_t stride, int64_t columns, void* best,
                int32_t* at) {
  FindAny<float>(max, last, in, rows, stride, columns, best, at);
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cstring>

#include "kernels/cpu/reduce/axis.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

HWY_EXPORT(FindFloats);

constexpr int64_t kColumns = 64;

// Finds the extremes along an axis. Types without comparisons of their own are converted, into the workspace.
class Arg : public Kernel {
 public:
  Arg(const NodeContext& node, bool max) : max_(max), attrs_(node.attrs) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    const Shape& shape = node.in[0]->shape;
    MINNOW_RETURN_IF_ERROR(view_.set(attrs_.i("axis", default_axis_), shape));
    last_ = attrs_.b("select_last_index");
    dtype_ = node.in[0]->dtype;
    if (view_.rows >= int64_t{1} << 31) return fail(Code::kUnsupported, "an axis of 2^31 elements or more");
    const DType wide = compute_dtype(compute_type(dtype_));
    bytes_ = wide == dtype_ ? 0 : view_.rows * std::min(view_.inner, kColumns) * static_cast<int64_t>(dtype_size(wide));
    *workspace = bytes_ * node.threads;
    return ok();
  }

 protected:
  // Calls found(outer index, first column, columns, rows of the extremes) for all columns.
  template <typename Found>
  void for_all(const RunContext& context, Found found) const {
    const int64_t pieces = (view_.inner + kColumns - 1) / kColumns;
    const int64_t work = std::max<int64_t>(1, view_.rows * std::min(view_.inner, kColumns));
    context.pool->parallel_for(
        view_.outer * pieces, std::max<int64_t>(1, 16384 / work), [&](int64_t begin, int64_t end, int worker) {
          for (int64_t unit = begin; unit < end; ++unit) {
            const int64_t first = unit % pieces * kColumns;
            const int64_t columns = std::min(kColumns, view_.inner - first);
            int32_t at[kColumns];
            find_columns(context, unit / pieces * view_.rows * view_.inner + first, columns, worker, at);
            found(unit / pieces, first, columns, at);
          }
        });
  }

  int64_t default_axis_ = 0;
  AxisView view_;

 private:
  void find_columns(const RunContext& context, int64_t position, int64_t columns, int worker, int32_t* at) const {
    const Compute compute = compute_type(dtype_);
    const size_t size = dtype_size(dtype_);
    const void* x = offset(context.in[0]->data, position, size);
    int64_t stride = view_.inner;
    if (bytes_ != 0) {
      char* wide = static_cast<char*>(context.workspace) + worker * bytes_;
      for (int64_t r = 0; r < (view_.inner == 1 ? 1 : view_.rows); ++r)
        convert(dtype_, offset(x, r * view_.inner, size), compute_dtype(compute),
                offset(wide, r * columns, dtype_size(compute_dtype(compute))), view_.inner == 1 ? view_.rows : columns);
      x = wide;
      stride = columns;
    }
    alignas(64) int64_t best[kColumns];
    using Function = void (*)(bool, bool, const void*, int64_t, int64_t, int64_t, void*, int32_t*);
    const Function functions[] = {&HWY_DYNAMIC_DISPATCH(FindFloats), HWY_NAMESPACE::FindAny<double>,
                                  HWY_NAMESPACE::FindAny<int32_t>, HWY_NAMESPACE::FindAny<int64_t>,
                                  HWY_NAMESPACE::FindAny<uint64_t>};
    functions[static_cast<size_t>(compute)](max_, last_, x, view_.rows, stride, columns, best, at);
  }

  const bool max_;
  const Attrs& attrs_;
  bool last_ = false;
  DType dtype_ = DType::kF32;
  int64_t bytes_ = 0;  // of workspace for each thread
};

class ArgIndex final : public Arg {
 public:
  using Arg::Arg;
  void run(const RunContext& context) override {
    int64_t* out = context.out[0]->as<int64_t>();
    for_all(context, [&](int64_t outer, int64_t first, int64_t columns, const int32_t* at) {
      std::copy_n(at, columns, out + outer * view_.inner + first);
    });
  }
};

class Hardmax final : public Arg {
 public:
  explicit Hardmax(const NodeContext& node) : Arg(node, true) { default_axis_ = -1; }
  void run(const RunContext& context) override {
    const TensorType& type = context.out[0]->type;
    const size_t size = dtype_size(type.dtype);
    if (type.count() == 0) return;
    std::memset(context.out[0]->data, 0, static_cast<size_t>(type.bytes()));
    const float one = 1;
    char bits[8];
    store_block(Compute::kF32, &one, type.dtype, bits, 1);
    for_all(context, [&](int64_t outer, int64_t first, int64_t columns, const int32_t* at) {
      for (int64_t c = 0; c < columns; ++c)
        std::memcpy(offset(context.out[0]->data, (outer * view_.rows + at[c]) * view_.inner + first + c, size), bits,
                    size);
    });
  }
};

Status infer_arg(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  if (c.in(0).dtype == DType::kBool) return fail(Code::kFormat, "takes numbers, not bool");
  int axis = 0;
  MINNOW_RETURN_IF_ERROR(normalize_axis(c.attrs.i("axis", 0), c.shape(0).rank(), &axis));
  Shape out;
  for (int i = 0; i < c.shape(0).rank(); ++i)
    if (i != axis || c.attrs.b("keepdims", true)) out.push_back(i == axis ? 1 : c.shape(0)[i]);
  if (c.shape(0)[axis] == 0 && out.count() != 0)
    return fail(Code::kFormat, "axis %d of shape %s has no elements", axis, c.shape(0).str().c_str());
  c.set(0, DType::kI64, out);
  return ok();
}

Status infer_hardmax(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(infer_same(c));
  if (!is_float(c.in(0).dtype)) return fail(Code::kFormat, "takes floats, not %s", dtype_name(c.in(0).dtype));
  int axis = 0;
  return normalize_axis(c.attrs.i("axis", -1), c.shape(0).rank(), &axis);
}

std::unique_ptr<Kernel> create_arg_max(const NodeContext& node) { return std::make_unique<ArgIndex>(node, true); }
std::unique_ptr<Kernel> create_arg_min(const NodeContext& node) { return std::make_unique<ArgIndex>(node, false); }
std::unique_ptr<Kernel> create_hardmax(const NodeContext& node) { return std::make_unique<Hardmax>(node); }

MINNOW_OP("ArgMax", infer_arg);
MINNOW_KERNEL("ArgMax", create_arg_max);
MINNOW_OP("ArgMin", infer_arg);
MINNOW_KERNEL("ArgMin", create_arg_min);
MINNOW_OP("Hardmax", infer_hardmax);
MINNOW_KERNEL("Hardmax", create_hardmax);

}  // namespace
}  // namespace minnow
#endif  // HWY_ONCE
