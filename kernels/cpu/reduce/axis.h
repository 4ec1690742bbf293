// A tensor seen along one axis: [outer][rows][inner], of which an op computes along the rows.
#pragma once

#include "kernels/core/infer.h"

namespace minnow {

struct AxisView {
  int64_t outer = 1, rows = 1, inner = 1;

  // `axis` counts from the end when it is negative; an error names it.
  Status set(int64_t axis, const Shape& shape) {
    int at = 0;
    MINNOW_RETURN_IF_ERROR(normalize_axis(axis, shape.rank(), &at));
    outer = shape.count(0, at);
    rows = shape[at];
    inner = shape.count(at + 1, shape.rank());
    return ok();
  }
};

}  // namespace minnow
