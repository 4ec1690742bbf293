// Running sums and products along an axis. Floats are accumulated in doubles, integers wrap.
#define HWY_TARGET_INCLUDE __BASE_FILE__
#include "kernels/cpu/convert/blocks.h"
#include "kernels/cpu/machine/simd.h"

HWY_BEFORE_NAMESPACE();
namespace minnow::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Adds a row of floats to the sums of the rows before it. y may be x.
void AddRow(const float* x, float* y, double* total, int64_t n, bool exclusive) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto before = hn::LoadU(d, total + i);
    const auto after = hn::Add(before, hn::PromoteTo(d, hn::LoadU(narrow, x + i)));
    hn::StoreU(after, d, total + i);
    hn::StoreU(hn::DemoteTo(narrow, exclusive ? before : after), narrow, y + i);
  }
  for (; i < n; ++i) {
    keep_scalar();
    const double before = total[i];
    total[i] += static_cast<double>(x[i]);
    y[i] = static_cast<float>(exclusive ? before : total[i]);
  }
}

}  // namespace minnow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "kernels/core/interrupt.h"
#include "kernels/cpu/reduce/axis.h"
#include "kernels/cpu/convert/operand.h"
#include "kernels/cpu/table.h"

namespace minnow {
HWY_EXPORT(AddRow);
namespace {

template <typename T, bool product>
T join(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<T>(product ? x * y : x + y);
  } else {
    return product ? a * b : a + b;
  }
}

constexpr int64_t kLines = 8, kPart = kBlock / kLines;

// Takes `rows` rows of `columns` elements in place, in the order given; `total` has one running result per column.
// Columns are side by side, or for lines along the last axis each a part of the block: a sum waits for the one before,
// so several lines take turns.
template <typename T, bool product, bool is_lines>
void run_rows(T* x, int64_t rows, int64_t columns, bool exclusive, bool reverse, T* total) {
  for (int64_t i = 0; i < rows; ++i) {
    T* row = x + (reverse ? rows - 1 - i : i) * (is_lines ? 1 : columns);
    for (int64_t c = 0; c < columns; ++c) {
      T& at = row[c * (is_lines ? kPart : 1)];
      const T before = total[c];
      total[c] = join<T, product>(before, at);
      at = exclusive ? before : total[c];
    }
  }
}

class Cumulative final : public Kernel {
 public:
  Cumulative(const NodeContext& node, bool product) : attrs_(node.attrs), product_(product) {}

  [[gnu::cold]] Status reshape(const NodeContext& node, int64_t* workspace) override {
    *workspace = 0;
    exclusive_ = attrs_.b("exclusive");
    reverse_ = attrs_.b("reverse");
    dtype_ = node.in[0]->dtype;
    return ok();
  }

  void run(const RunContext& context) override {
    const Status status = view_.set(IntView(*context.in[1])[0], context.in[0]->type.shape);
    if (!status.ok()) return context.report(status);
    if (view_.inner == 1) {
      is_float(dtype_) ? run_lines<double>(context, DType::kF64) : run_lines<int64_t>(context, DType::kI64);
    } else {
      is_float(dtype_) ? run_as<double>(context, DType::kF64) : run_as<int64_t>(context, DType::kI64);
    }
  }

 private:
  // Along the last axis.
  template <typename T>
  void run_lines(const RunContext& context, DType wide) {
    const int64_t n = view_.rows, size = static_cast<int64_t>(dtype_size(dtype_));
    const char* in = static_cast<const char*>(context.in[0]->data);
    char* out = static_cast<char*>(context.out[0]->data);
    const int64_t work = std::max<int64_t>(1, n * kLines);
    const auto some = [&](int64_t begin, int64_t end, int) {
      LongLoop loop;
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t first = unit * kLines, lines = std::min(kLines, view_.outer - first);
        const int64_t parts = (n + kPart - 1) / kPart;
        T total[kLines];
        std::fill_n(total, kLines, static_cast<T>(product_));
        for (int64_t i = 0; i < parts && loop.goes_on(kBlock); ++i) {
          const int64_t at = (reverse_ ? parts - 1 - i : i) * kPart, m = std::min(kPart, n - at);
          alignas(64) T block[kBlock];
          for (int64_t l = 0; l < lines; ++l)
            convert(dtype_, in + ((first + l) * n + at) * size, wide, block + l * kPart, m);
          (product_ ? run_rows<T, true, true> : run_rows<T, false, true>)(block, m, lines, exclusive_, reverse_, total);
          for (int64_t l = 0; l < lines; ++l)
            convert(wide, block + l * kPart, dtype_, out + ((first + l) * n + at) * size, m);
        }
      }
    };
    context.pool->parallel_for((view_.outer + kLines - 1) / kLines, std::max<int64_t>(1, 8192 / work), some);
  }

  template <typename T>
  void run_as(const RunContext& context, DType wide) {
    constexpr int64_t kColumns = 256;
    const int64_t pieces = (view_.inner + kColumns - 1) / kColumns;
    const int64_t work = std::max<int64_t>(1, view_.rows * std::min(view_.inner, kColumns));
    context.pool->parallel_for(
        view_.outer * pieces, std::max<int64_t>(1, 8192 / work), [&](int64_t begin, int64_t end, int) {
          for (int64_t unit = begin; unit < end; ++unit) {
            const int64_t first = unit % pieces * kColumns;
            const int64_t columns = std::min(kColumns, view_.inner - first);
            T total[kColumns];
            std::fill_n(total, columns, static_cast<T>(product_));
            for (int64_t i = 0; i < view_.rows; ++i) {
              const int64_t row = reverse_ ? view_.rows - 1 - i : i;
              const int64_t at = (unit / pieces * view_.rows + row) * view_.inner + first;
              if (dtype_ == DType::kF32 && !product_) {
                if constexpr (std::is_same_v<T, double>) HWY_DYNAMIC_DISPATCH(AddRow)
                (context.in[0]->as<float>() + at, context.out[0]->as<float>() + at, total, columns, exclusive_);
                continue;
              }
              Block block;
              convert(dtype_, offset(context.in[0]->data, at, dtype_size(dtype_)), wide, block.bytes, columns);
              (product_ ? run_rows<T, true, false> : run_rows<T, false, false>)(reinterpret_cast<T*>(block.bytes), 1,
                                                                                columns, exclusive_, reverse_, total);
              convert(wide, block.bytes, dtype_, offset(context.out[0]->data, at, dtype_size(dtype_)), columns);
            }
          }
        });
  }

  const Attrs& attrs_;
  const bool product_;
  AxisView view_;
  bool exclusive_ = false, reverse_ = false;
  DType dtype_ = DType::kF32;
};

template <bool product>
std::unique_ptr<Kernel> create(const NodeContext& node) {
  return std::make_unique<Cumulative>(node, product);
}

Status infer_cumulative(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  MINNOW_RETURN_IF_ERROR(infer_same(c));
  if (c.in(0).dtype == DType::kBool) return fail(Code::kFormat, "takes numbers, not bool");
  MINNOW_RETURN_IF_ERROR(require_int(c, 1));
  if (c.shape(1).count() == 1) return ok();
  return fail(Code::kFormat, "the axis must be one number, not the shape %s", c.shape(1).str().c_str());
}

MINNOW_OP("CumSum", infer_cumulative);
MINNOW_KERNEL("CumSum", create<false>, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_OP("CumProd", infer_cumulative);
MINNOW_KERNEL("CumProd", create<true>, LayoutRule::kPlain, /*in_place=*/true);

}  // namespace
}  // namespace minnow
#endif  // HWY_ONCE
