// What Slice takes of each axis.
#pragma once

#include <algorithm>
#include <array>
#include <limits>

#include "kernels/core/infer.h"
#include "kernels/core/region.h"

namespace minnow {

struct AxisCut {
  int64_t start = 0, step = 1, count = 0;
};

// Numpy's rule: negative numbers count from the end, what lies outside is cut off. `step` is not 0.
inline AxisCut cut(int64_t dim, int64_t start, int64_t end, int64_t step) {
  step = std::max(step, -std::numeric_limits<int64_t>::max());
  if (start < 0) start += dim;
  if (end < 0) end += dim;
  if (step > 0) {
    start = std::clamp<int64_t>(start, 0, dim);
    end = std::clamp<int64_t>(end, 0, dim);
    return {start, step, end > start ? (end - start - 1) / step + 1 : 0};
  }
  start = std::clamp<int64_t>(start, -1, dim - 1);
  end = std::clamp<int64_t>(end, -1, dim - 1);
  return {start, step, start > end ? (start - end - 1) / -step + 1 : 0};
}

// Fills `cuts`, one per axis. The operands are read through `at(input, k)`, so that infer and run share this.
template <typename At>
Status resolve_cuts(const Shape& x, int64_t n, bool has_axes, bool has_steps, At at,
                    std::array<AxisCut, kMaxRank>* cuts) {
  std::array<bool, kMaxRank> seen{};
  for (int k = 0; k < x.rank(); ++k) (*cuts)[static_cast<size_t>(k)] = {0, 1, x[k]};
  for (int64_t k = 0; k < n; ++k) {
    int axis = 0;
    MINNOW_RETURN_IF_ERROR(normalize_axis(has_axes ? at(3, k) : k, x.rank(), &axis));
    if (seen[static_cast<size_t>(axis)]) return fail(Code::kFormat, "axis %d is listed twice", axis);
    seen[static_cast<size_t>(axis)] = true;
    const int64_t step = has_steps ? at(4, k) : 1;
    if (step == 0) return fail(Code::kFormat, "the step of axis %d is 0", axis);
    (*cuts)[static_cast<size_t>(axis)] = cut(x[axis], at(1, k), at(2, k), step);
  }
  return ok();
}

}  // namespace minnow
