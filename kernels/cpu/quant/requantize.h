// Sums of products of small integers as small integers again: what ends integer convolutions and matrix products.
#pragma once

#include <optional>

#include "kernels/core/kernel.h"
#include "kernels/core/op_spec.h"

namespace minnow {

// y = clip(round((x + bias) * factor) + zero). The factor is a float, and halves go to even; or a multiplier and a
// shift, in the steps that the op Requantize names. Row i takes bias[i] and factor[i] where their step is 1, else the
// first; with `columns`, that holds for columns.
struct Requantization {
  const int32_t* bias = nullptr;        // may be null
  const float* scale = nullptr;         // of these two ...
  const int32_t* multiplier = nullptr;  // ... one is given, or none: nothing is to be done
  const int32_t* shift = nullptr;       // with `multiplier`
  int bias_step = 0, factor_step = 0;
  bool columns = false;
  int32_t zero = 0;
  int32_t least = 0, most = 0;  // with `multiplier`
  DType to = DType::kI8;        // 8 bits with `scale`; any integer up to 32 bits with `multiplier`

  bool active() const { return scale != nullptr || multiplier != nullptr; }
};

// What stands in a graph, or the planner has added to a node, whose sums are requantized at once: inputs from `first`
// on, which are what is added (may be null), a scale or multipliers, and a zero point or shifts; and the attributes of
// Requantize. Reports shifts that Requantize does not take, and gives nothing then.
std::optional<Requantization> read_requantization(const Attrs& attrs, const RunContext& context, size_t first,
                                                  bool columns);
// Reports a shift that does not lie between -31 and `most`; false then.
bool check_shifts(const RunContext& context, const Tensor& shifts, int32_t most = 31);
// Those attributes alone.
void read_limits(const Attrs& attrs, Requantization* q);

// The type of a result whose inputs from `first` on are those, and whose sums have this shape; they go along `axis` of
// it, which is counted from the end.
Status infer_requantized(InferContext& c, int first, const Shape& sums, int axis, DType* to);

void requantize(const Requantization& q, int64_t first_row, int64_t rows, const int32_t* x, int64_t ldx, int64_t n,
                void* y, int64_t ldy);

}  // namespace minnow
