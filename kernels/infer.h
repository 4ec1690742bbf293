// Shape rules that many ops share.
#pragma once

#include "kernels/op.h"

namespace minnow {

Status infer_same(InferContext& c);       // out[0] = type and shape of in[0]
Status infer_broadcast(InferContext& c);  // numpy broadcasting of all inputs; dtype of in[0]
Status infer_compare(InferContext& c);    // as infer_broadcast, but bool

// Numpy broadcasting of two shapes into `out`; an error names both.
Status broadcast_shapes(const Shape& a, const Shape& b, Shape* out);

// Axis in [-rank, rank) to [0, rank); an error names the axis and the rank.
Status normalize_axis(int64_t axis, int rank, int* out);
// The same for a list; an empty list means all axes when `empty_is_all`. Sorted, duplicates are an error.
Status normalize_axes(const std::vector<int64_t>& axes, int rank, bool empty_is_all, std::vector<int>* out);

}  // namespace minnow
