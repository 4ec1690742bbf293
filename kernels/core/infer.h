// Shape rules that many ops share.
#pragma once

#include "kernels/core/op_spec.h"

namespace minnow {

Status infer_same(InferContext& c);       // out[0] = type and shape of in[0]
Status infer_broadcast(InferContext& c);  // numpy broadcasting of all inputs; dtype of in[0]
Status infer_compare(InferContext& c);    // as infer_broadcast, but bool

// The first `n` inputs must be there. Every rule that reads in(i) asks this first: the model file may be wrong.
inline Status require_inputs(const InferContext& c, int n) {
  for (int i = 0; i < n; ++i)
    if (!c.has(i)) return fail(Code::kFormat, "input %d is missing", i);
  return ok();
}

// A shape made from numbers of the model must have dims >= 0 and a size in bytes that an int64 holds.
inline Status check_shape(const Shape& shape) {
  int64_t n = 8;
  for (int64_t d : shape) {
    if (d < 0) return fail(Code::kFormat, "the output shape %s has a negative dim", shape.str().c_str());
    if (d != 0 && __builtin_mul_overflow(n, d, &n))
      return fail(Code::kFormat, "the output shape %s is too large", shape.str().c_str());
  }
  return ok();
}

// Numpy broadcasting of two shapes into `out`; an error names both.
Status broadcast_shapes(const Shape& a, const Shape& b, Shape* out);

// Axis in [-rank, rank) to [0, rank); an error names the axis and the rank.
Status normalize_axis(int64_t axis, int rank, int* out);
// The same for a list; an empty list means all axes when `empty_is_all`. Sorted, duplicates are an error.
Status normalize_axes(const std::vector<int64_t>& axes, int rank, bool empty_is_all, std::vector<int>* out);

}  // namespace minnow
