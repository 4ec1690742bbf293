// Reductions over any axes. Adjacent axes that are alike are merged first, so that what is left inside is either a row
// that is reduced or a row of columns that are kept; everything else is iteration around these two.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/convert/operand.h"
#include "kernels/cpu/machine/simd.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Step adds an element to a vector of partial results, Start is the result of nothing, Join and Merge combine results.
struct SumSteps {
  static constexpr float kStart = 0;
  template <class V>
  static HWY_INLINE V Step(V total, V x) {
    return hn::Add(total, x);
  }
  template <class V>
  static HWY_INLINE V Join(V a, V b) {
    return hn::Add(a, b);
  }
  static double Element(float x) { return x; }
  static double Merge(double a, double b) { return a + b; }
};
struct AbsSteps : SumSteps {
  template <class V>
  static HWY_INLINE V Step(V total, V x) {
    return hn::Add(total, hn::Abs(x));
  }
  static double Element(float x) { return x < 0 ? -x : x; }
};
struct SquareSteps : SumSteps {
  template <class V>
  static HWY_INLINE V Step(V total, V x) {
    return hn::MulAdd(x, x, total);
  }
  static double Element(float x) { return static_cast<double>(x) * x; }
};
struct MaxSteps {
  static constexpr float kStart = -__builtin_inff();
  template <class V>
  static HWY_INLINE V Step(V most, V x) {  // NaN stays
    return hn::IfThenElse(hn::Or(hn::Gt(x, most), hn::IsNaN(x)), x, most);
  }
  template <class V>
  static HWY_INLINE V Join(V a, V b) {
    return Step(a, b);
  }
  static double Element(float x) { return x; }
  static double Merge(double a, double b) { return b > a || b != b ? b : a; }
};
struct MinSteps : MaxSteps {
  static constexpr float kStart = __builtin_inff();
  template <class V>
  static HWY_INLINE V Step(V least, V x) {
    return hn::IfThenElse(hn::Or(hn::Lt(x, least), hn::IsNaN(x)), x, least);
  }
  template <class V>
  static HWY_INLINE V Join(V a, V b) {
    return Step(a, b);
  }
  static double Merge(double a, double b) { return b < a || b != b ? b : a; }
};

// Takes n floats into n totals, or all into one.
template <class Steps>
HWY_NOINLINE void MergeAll(const float* x, int64_t n, bool into_one, double* total) {
  for (int64_t i = 0; i < n; ++i) {
    keep_scalar();
    double& to = total[into_one ? 0 : i];
    to = Steps::Merge(to, Steps::Element(x[i]));
  }
}
// Partial results are merged like elements, but without what is done to an element first.
template <class Steps>
struct MergeOnly {
  static double Element(float x) { return x; }
  static double Merge(double a, double b) { return Steps::Merge(a, b); }
};

// Partial results stay in float for few elements only: the totals are doubles.
template <class Steps>
HWY_INLINE void AccumulateRow(const float* x, int64_t n, double* total) {
  constexpr int64_t kTogether = 4096;
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  while (i + lanes <= n) {
    auto a = hn::Set(d, Steps::kStart);
    auto b = a, c = a, e = a;
    const int64_t end = HWY_MIN(n, i + kTogether);
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
      a = Steps::Step(a, hn::LoadU(d, x + i));
      b = Steps::Step(b, hn::LoadU(d, x + i + lanes));
      c = Steps::Step(c, hn::LoadU(d, x + i + 2 * lanes));
      e = Steps::Step(e, hn::LoadU(d, x + i + 3 * lanes));
    }
    for (; i + lanes <= end; i += lanes) a = Steps::Step(a, hn::LoadU(d, x + i));
    HWY_ALIGN float partial[hn::MaxLanes(d)];
    hn::Store(Steps::Join(Steps::Join(a, b), Steps::Join(c, e)), d, partial);
    MergeAll<MergeOnly<Steps>>(partial, lanes, true, total);
  }
  MergeAll<Steps>(x + i, n - i, true, total);
}

// `Width` vectors of columns.
template <class Steps, int Width>
HWY_INLINE void AccumulateColumns(const float* x, int64_t rows, int64_t stride, double* total) {
  constexpr int64_t kTogether = 128;
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < rows;) {
    hn::Vec<decltype(d)> sum[Width];
    for (auto& v : sum) v = hn::Set(d, Steps::kStart);
    for (const int64_t end = HWY_MIN(rows, r + kTogether); r < end; ++r)
      for (int k = 0; k < Width; ++k) sum[k] = Steps::Step(sum[k], hn::LoadU(d, x + r * stride + k * lanes));
    HWY_ALIGN float partial[Width * hn::MaxLanes(d)];
    for (int k = 0; k < Width; ++k) hn::Store(sum[k], d, partial + k * lanes);
    MergeAll<MergeOnly<Steps>>(partial, Width * lanes, false, total);
  }
}

template <class Steps>
HWY_INLINE void Accumulate(const void* in, int64_t rows, int64_t stride, int64_t columns, void* acc) {
  const float* x = static_cast<const float*>(in);
  double* total = static_cast<double*>(acc);
  if (columns == 1 && stride == 1) return AccumulateRow<Steps>(x, rows, total);
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + 4 * lanes <= columns; c += 4 * lanes) AccumulateColumns<Steps, 4>(x + c, rows, stride, total + c);
  for (; c + lanes <= columns; c += lanes) AccumulateColumns<Steps, 1>(x + c, rows, stride, total + c);
  if (c == columns) return;
  for (int64_t r = 0; r < rows; ++r) MergeAll<Steps>(x + r * stride + c, columns - c, false, total + c);
}

void AccumulateSum(const void* in, int64_t rows, int64_t stride, int64_t columns, void* acc) {
  Accumulate<SumSteps>(in, rows, stride, columns, acc);
}
void AccumulateAbs(const void* in, int64_t rows, int64_t stride, int64_t columns, void* acc) {
  Accumulate<AbsSteps>(in, rows, stride, columns, acc);
}
void AccumulateSquare(const void* in, int64_t rows, int64_t stride, int64_t columns, void* acc) {
  Accumulate<SquareSteps>(in, rows, stride, columns, acc);
}
void AccumulateMax(const void* in, int64_t rows, int64_t stride, int64_t columns, void* acc) {
  Accumulate<MaxSteps>(in, rows, stride, columns, acc);
}
void AccumulateMin(const void* in, int64_t rows, int64_t stride, int64_t columns, void* acc) {
  Accumulate<MinSteps>(in, rows, stride, columns, acc);
}

// Adds n neighboring integers of 32 bits, which need not become a block of 64-bit ones first.
void AccumulateInts(const int32_t* x, int64_t n, int64_t* total) {
  const hn::ScalableTag<int64_t> d;
  const hn::Rebind<int32_t, decltype(d)> narrow;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    a = hn::Add(a, hn::PromoteTo(d, hn::LoadU(narrow, x + i)));
    b = hn::Add(b, hn::PromoteTo(d, hn::LoadU(narrow, x + i + lanes)));
  }
  int64_t sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
  for (; i < n; ++i) {
    keep_scalar();
    sum += x[i];
  }
  *total += sum;
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/reduce/bytes.h"
#include "kernels/cpu/reduce/step.h"
#include "kernels/core/infer.h"
#include "kernels/cpu/table.h"

namespace minnow {
namespace {

HWY_EXPORT(AccumulateSum);
HWY_EXPORT(AccumulateAbs);
HWY_EXPORT(AccumulateSquare);
HWY_EXPORT(AccumulateMax);
HWY_EXPORT(AccumulateMin);
HWY_EXPORT(AccumulateInts);

// ---- the table

enum class Finish : uint8_t { kNone, kMean, kSqrt, kLog, kLogSumExp };
enum class Start : uint8_t { kZero, kOne, kLowest, kHighest };

// f32 is accumulated in doubles like f64. Integers are accumulated as 64-bit ones, or as doubles where `i64` is null.
struct Reduction {
  Start start;
  Finish finish;
  AccumulateFunction f32, f64, i64, u64;
};

enum ReductionKind { kSum, kMean, kMax, kMin, kProd, kL1, kL2, kSumSquare, kLogSum, kLogSumExp };

template <typename Step>
constexpr AccumulateFunction of_double() {
  return accumulate<double, double, Step>;
}
template <typename T, typename Step>
constexpr AccumulateFunction of_ints() {
  return accumulate<T, T, Step>;
}

Reduction reduction_of(ReductionKind kind) {
  const auto with_ints = [](Start start, Finish finish, AccumulateFunction f32, auto step) {
    using Step = decltype(step);
    return Reduction{start, finish, f32, of_double<Step>(), of_ints<int64_t, Step>(), of_ints<uint64_t, Step>()};
  };
  const AccumulateFunction sum = &HWY_DYNAMIC_DISPATCH(AccumulateSum);
  switch (kind) {
    case kSum:
      return with_ints(Start::kZero, Finish::kNone, sum, AddStep());
    case kMean:
      return with_ints(Start::kZero, Finish::kMean, sum, AddStep());
    case kMax:
      return with_ints(Start::kLowest, Finish::kNone, &HWY_DYNAMIC_DISPATCH(AccumulateMax), MaxStep());
    case kMin:
      return with_ints(Start::kHighest, Finish::kNone, &HWY_DYNAMIC_DISPATCH(AccumulateMin), MinStep());
    case kProd:
      return with_ints(Start::kOne, Finish::kNone, nullptr, MulStep());
    case kL1:
      return with_ints(Start::kZero, Finish::kNone, &HWY_DYNAMIC_DISPATCH(AccumulateAbs), AbsStep());
    case kL2:
      return {Start::kZero, Finish::kSqrt, &HWY_DYNAMIC_DISPATCH(AccumulateSquare), of_double<SquareStep>(),
              nullptr,      nullptr};
    case kSumSquare:
      return with_ints(Start::kZero, Finish::kNone, &HWY_DYNAMIC_DISPATCH(AccumulateSquare), SquareStep());
    case kLogSum:
      return {Start::kZero, Finish::kLog, sum, of_double<AddStep>(), nullptr, nullptr};
    default:
      return {Start::kZero, Finish::kLogSumExp, nullptr, accumulate<double, LogSumExp, LogSumExpStep>, nullptr,
              nullptr};
  }
}

// ---- the kernel

struct Dimension {
  int64_t size;
  int64_t stride;  // in elements
};

// The axes, negative ones counted from the end, as bits of a number.
template <typename List>
Status axes_of(const List& listed, int rank, bool empty_is_all, uint32_t* bits) {
  const auto n = static_cast<int64_t>(listed.size());
  *bits = n == 0 && empty_is_all ? (uint32_t{1} << rank) - 1 : 0;
  for (int64_t i = 0; i < n; ++i) {
    int axis = 0;
    MINNOW_RETURN_IF_ERROR(normalize_axis(listed[i], rank, &axis));
    if ((*bits >> axis & 1) != 0) return fail(Code::kFormat, "axis %d is listed twice", axis);
    *bits |= uint32_t{1} << axis;
  }
  return ok();
}

class Reduce final : public Kernel {
 public:
  Reduce(const NodeContext& node, ReductionKind kind) : reduction_(reduction_of(kind)), attrs_(node.attrs) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    const TensorType& in = *node.in[0];
    in_ = in.dtype;
    out_ = node.out[0]->dtype;
    selects_bytes_ = (in_ == DType::kI8 || in_ == DType::kU8) &&
                     (reduction_.start == Start::kLowest || reduction_.start == Start::kHighest);
    pick_function();
    kept_.reserve(kMaxRank);
    reduced_.reserve(kMaxRank);
    computed_ = node.in.size() > 1 && node.in[1] != nullptr;
    if (computed_) return ok();
    uint32_t axes = 0;
    MINNOW_RETURN_IF_ERROR(axes_of(attrs_.ints("axes"), in.shape.rank(), !attrs_.has("axes"), &axes));
    lay_out(in.shape, axes);
    return ok();
  }

  void run(const RunContext& context) override {
    if (computed_) {
      const Shape& shape = context.in[0]->type.shape;
      uint32_t axes = 0;
      const Status status = axes_of(IntView(*context.in[1]), shape.rank(), false, &axes);
      if (!status.ok()) return context.report(status);
      lay_out(shape, axes);
    }
    reduce(context);
  }

 private:
  // Bit i of `axes`: axis i is reduced.
  void lay_out(const Shape& shape, uint32_t axes) {
    const int rank = shape.rank();
    kept_.clear();
    reduced_.clear();
    count_ = 1;
    int64_t stride = 1;
    bool last_reduced = false, any = false;
    for (int i = rank - 1; i >= 0; --i) {
      const int64_t dim = shape[i];
      const bool is_reduced = (axes >> i & 1) != 0;
      if (is_reduced) count_ *= dim;
      if (dim == 1) continue;
      std::vector<Dimension>& dimensions = is_reduced ? reduced_ : kept_;
      if (any && is_reduced == last_reduced) {
        dimensions.back().size *= dim;
      } else {
        dimensions.push_back({dim, stride});
      }
      if (!any) inner_reduced_ = is_reduced;
      any = true;
      last_reduced = is_reduced;
      stride *= dim;
    }
    if (!any) inner_reduced_ = true;
    // The inner row: reduced elements, or columns with the rows of the next dimension below each other.
    row_ = {1, 1};
    columns_ = 1;
    if (inner_reduced_) {
      if (!reduced_.empty()) row_ = take_first(&reduced_);
    } else {
      columns_ = take_first(&kept_).size;
      if (!reduced_.empty()) row_ = take_first(&reduced_);
    }
  }

  void reduce(const RunContext& context) const {
    const int64_t groups = count(kept_);
    const int64_t pieces = (columns_ + kBlock - 1) / kBlock;
    const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, count_ * std::min(columns_, kBlock)));
    context.pool->parallel_for(groups * pieces, grain, [&](int64_t begin, int64_t end, int) {
      if (selects_bytes_ && columns_ == 1) return select_rows(context, begin, end);
      if (columns_ == 1) return reduce_rows(context, begin, end);
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t group = unit / pieces;
        const int64_t first = unit % pieces * kBlock;
        const int64_t n = std::min(kBlock, columns_ - first);
        if (selects_bytes_) {
          select_columns(context, group, first, n);
          continue;
        }
        alignas(64) Accumulators acc;
        start(acc.bytes, n);
        accumulate_all(context, position(kept_, group) + first, n, acc.bytes);
        finish(acc.bytes, n, offset(context.out[0]->data, group * columns_ + first, dtype_size(out_)));
      }
    });
  }

  struct Accumulators {
    unsigned char bytes[kBlock * sizeof(LogSumExp)];
  };

  static Dimension take_first(std::vector<Dimension>* dimensions) {
    const Dimension first = dimensions->front();
    dimensions->erase(dimensions->begin());
    return first;
  }
  static int64_t count(const std::vector<Dimension>& dimensions) {
    int64_t n = 1;
    for (const Dimension& e : dimensions) n *= e.size;
    return n;
  }
  [[gnu::noinline]] static int64_t position(const std::vector<Dimension>& dimensions, int64_t index) {
    int64_t at = 0;
    for (const Dimension& e : dimensions) {
      at += index % e.size * e.stride;
      index /= e.size;
    }
    return at;
  }

  void pick_function() {
    const Compute compute = compute_type(in_);
    acc_ = Compute::kF64;
    if (compute == Compute::kF32 && reduction_.f32 != nullptr) {
      compute_ = Compute::kF32;
      function_ = reduction_.f32;
    } else if (is_float(in_) || reduction_.i64 == nullptr) {
      compute_ = Compute::kF64;
      function_ = reduction_.f64;
    } else {
      compute_ = acc_ = compute == Compute::kU64 ? Compute::kU64 : Compute::kI64;
      function_ = compute == Compute::kU64 ? reduction_.u64 : reduction_.i64;
    }
  }

  // Outputs that are one element each, [begin, end) of them.
  void reduce_rows(const RunContext& context, int64_t begin, int64_t end) const {
    for (; begin < end; begin += kBlock) {
      const int64_t n = std::min(kBlock, end - begin);
      alignas(64) Accumulators acc;
      start(acc.bytes, n);
      const size_t size = reduction_.finish == Finish::kLogSumExp ? sizeof(LogSumExp) : 8;
      for (int64_t i = 0; i < n; ++i)
        accumulate_all(context, position(kept_, begin + i), 1, acc.bytes + static_cast<size_t>(i) * size);
      finish(acc.bytes, n, offset(context.out[0]->data, begin, dtype_size(out_)));
    }
  }

  // ---- the greatest or least bytes, which are their own accumulators

  // What greatest_of_rows() is told of the type and the kind: its 0 is then the result of nothing.
  uint8_t flip() const {
    const bool is_signed = in_ == DType::kI8;
    return reduction_.start == Start::kLowest ? (is_signed ? 0x80 : 0) : (is_signed ? 0x7f : 0xff);
  }

  [[gnu::noinline]] void select_columns(const RunContext& context, int64_t group, int64_t first, int64_t n) const {
    const uint8_t* x = context.in[0]->as<uint8_t>() + position(kept_, group) + first;
    uint8_t* most = context.out[0]->as<uint8_t>() + group * columns_ + first;
    std::fill_n(most, n, flip());
    const int64_t outer = count(reduced_);
    for (int64_t i = 0; i < outer; ++i)
      greatest_of_columns(x + position(reduced_, i), row_.size, row_.stride, n, flip(), most);
  }

  [[gnu::noinline]] void select_rows(const RunContext& context, int64_t begin, int64_t end) const {
    uint8_t* most = context.out[0]->as<uint8_t>();
    std::fill_n(most + begin, end - begin, flip());
    // Neighboring outputs differ along one dimension, up to its end.
    const Dimension inner = kept_.empty() ? Dimension{1, 0} : kept_.front();
    const int64_t outer = count(reduced_);
    while (begin < end) {
      const int64_t n = std::min(inner.size - begin % inner.size, end - begin);
      const uint8_t* x = context.in[0]->as<uint8_t>() + position(kept_, begin);
      for (int64_t i = 0; i < outer; ++i)
        greatest_of_rows(x + position(reduced_, i), n, inner.stride, row_.size, flip(), most + begin);
      begin += n;
    }
  }

  // All that is reduced into `columns` neighboring outputs, of which the first starts at element `at`.
  [[gnu::noinline]] void accumulate_all(const RunContext& context, int64_t at, int64_t columns, void* acc) const {
    const int64_t outer = count(reduced_);
    for (int64_t i = 0; i < outer; ++i)
      accumulate(offset(context.in[0]->data, at + position(reduced_, i), dtype_size(in_)), columns, acc);
  }

  void accumulate(const void* in, int64_t columns, void* acc) const {
    if (compute_dtype(compute_) == in_) return function_(in, row_.size, row_.stride, columns, acc);
    Block block;
    if (columns == 1 && row_.stride == 1) {
      if (in_ == DType::kI32 && function_ == &minnow::accumulate<int64_t, int64_t, AddStep>)
        return HWY_DYNAMIC_DISPATCH(AccumulateInts)(static_cast<const int32_t*>(in), row_.size,
                                                    static_cast<int64_t*>(acc));
      for (int64_t i = 0; i < row_.size; i += kBlock) {
        const int64_t n = std::min(kBlock, row_.size - i);
        convert(in_, offset(in, i, dtype_size(in_)), compute_dtype(compute_), block.bytes, n);
        function_(block.bytes, n, 1, 1, acc);
      }
    } else {
      for (int64_t r = 0; r < row_.size; ++r) {
        convert(in_, offset(in, r * row_.stride, dtype_size(in_)), compute_dtype(compute_), block.bytes, columns);
        function_(block.bytes, 1, columns, columns, acc);
      }
    }
  }

  void start(void* acc, int64_t n) const {
    if (reduction_.finish == Finish::kLogSumExp) {
      std::fill_n(static_cast<LogSumExp*>(acc), n, LogSumExp{-std::numeric_limits<double>::infinity(), 0});
    } else if (acc_ == Compute::kF64) {
      const double infinity = std::numeric_limits<double>::infinity();
      const double values[] = {0, 1, -infinity, infinity};
      std::fill_n(static_cast<double*>(acc), n, values[static_cast<size_t>(reduction_.start)]);
    } else {
      const int64_t values[] = {0, 1, integer_limit(in_, false), integer_limit(in_, true)};
      std::fill_n(static_cast<int64_t*>(acc), n, values[static_cast<size_t>(reduction_.start)]);
    }
  }

  void finish(void* acc, int64_t n, void* out) const {
    double* x = static_cast<double*>(acc);
    switch (reduction_.finish) {
      case Finish::kNone:
        break;
      case Finish::kSqrt:
        for (int64_t i = 0; i < n; ++i) x[i] = std::sqrt(x[i]);
        break;
      case Finish::kLog:
        for (int64_t i = 0; i < n; ++i) x[i] = std::log(x[i]);
        break;
      case Finish::kLogSumExp:
        for (int64_t i = 0; i < n; ++i) {
          const LogSumExp total = static_cast<LogSumExp*>(acc)[i];
          x[i] = total.greatest + std::log(total.sum);
        }
        break;
      case Finish::kMean:
        for (int64_t i = 0; i < n; ++i) {
          if (acc_ == Compute::kF64) {
            x[i] /= static_cast<double>(count_);
          } else if (acc_ == Compute::kI64) {
            static_cast<int64_t*>(acc)[i] /= std::max<int64_t>(1, count_);
          } else {
            static_cast<uint64_t*>(acc)[i] /= static_cast<uint64_t>(std::max<int64_t>(1, count_));
          }
        }
        break;
    }
    store_block(acc_, acc, out_, out, n);
  }

  const Reduction reduction_;
  const Attrs& attrs_;
  DType in_ = DType::kF32, out_ = DType::kF32;
  Compute compute_ = Compute::kF32;  // the type that function_ takes
  Compute acc_ = Compute::kF64;      // the type of the accumulators
  AccumulateFunction function_ = nullptr;
  std::vector<Dimension> kept_, reduced_;  // innermost first, without the inner row
  Dimension row_{1, 1};
  int64_t columns_ = 1;
  int64_t count_ = 1;  // elements reduced into one
  bool inner_reduced_ = true;
  bool computed_ = false;  // the axes are an operand
  bool selects_bytes_ = false;
};

template <ReductionKind kind>
std::unique_ptr<Kernel> create_reduce(const NodeContext& node) {
  return std::make_unique<Reduce>(node, kind);
}

Status infer_reduce(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  const Shape& shape = c.shape(0);
  std::vector<int64_t> listed = c.attrs.ints("axes");
  if (c.has(1)) MINNOW_RETURN_IF_ERROR(c.ints(1, &listed));
  uint32_t axes = 0;
  MINNOW_RETURN_IF_ERROR(axes_of(listed, shape.rank(), !c.has(1) && !c.attrs.has("axes"), &axes));
  Shape out;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool is_reduced = (axes >> i & 1) != 0;
    if (!is_reduced || c.attrs.b("keepdims", true)) out.push_back(is_reduced ? 1 : shape[i]);
  }
  c.set(0, c.in(0).dtype, out);
  return ok();
}
Status infer_number_reduce(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(infer_reduce(c));
  return c.in(0).dtype == DType::kBool ? fail(Code::kFormat, "takes numbers, not bool") : ok();
}
Status infer_float_reduce(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(infer_reduce(c));
  return is_float(c.in(0).dtype) ? ok() : fail(Code::kFormat, "takes floats, not %s", dtype_name(c.in(0).dtype));
}

MINNOW_OP("ReduceSum", infer_number_reduce);
MINNOW_KERNEL("ReduceSum", create_reduce<kSum>);
MINNOW_OP("ReduceMean", infer_number_reduce);
MINNOW_KERNEL("ReduceMean", create_reduce<kMean>);
MINNOW_OP("ReduceMax", infer_reduce);
MINNOW_KERNEL("ReduceMax", create_reduce<kMax>);
MINNOW_OP("ReduceMin", infer_reduce);
MINNOW_KERNEL("ReduceMin", create_reduce<kMin>);
MINNOW_OP("ReduceProd", infer_number_reduce);
MINNOW_KERNEL("ReduceProd", create_reduce<kProd>);
MINNOW_OP("ReduceL1", infer_number_reduce);
MINNOW_KERNEL("ReduceL1", create_reduce<kL1>);
MINNOW_OP("ReduceL2", infer_number_reduce);
MINNOW_KERNEL("ReduceL2", create_reduce<kL2>);
MINNOW_OP("ReduceSumSquare", infer_number_reduce);
MINNOW_KERNEL("ReduceSumSquare", create_reduce<kSumSquare>);
MINNOW_OP("ReduceLogSum", infer_float_reduce);
MINNOW_KERNEL("ReduceLogSum", create_reduce<kLogSum>);
MINNOW_OP("ReduceLogSumExp", infer_float_reduce);
MINNOW_KERNEL("ReduceLogSumExp", create_reduce<kLogSumExp>);

}  // namespace
}  // namespace minnow
#endif  // HWY_ONCE
