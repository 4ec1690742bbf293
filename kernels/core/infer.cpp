#include "kernels/core/infer.h"

#include <algorithm>

namespace minnow {

void InferContext::set(int i, DType dtype, const Shape& shape) {
  if (i < num_outputs()) (*outputs_)[static_cast<size_t>(i)] = TensorType{dtype, Layout::kPlain, shape};
}

namespace {

Status broadcast_inputs(InferContext& c, bool compare) {
  if (!c.has(0)) return fail(Code::kFormat, "input 0 is missing");
  Shape shape = c.shape(0);
  for (int i = 1; i < c.num_inputs(); ++i) {
    if (!c.has(i)) continue;
    Shape joined;
    MINNOW_RETURN_IF_ERROR(broadcast_shapes(shape, c.shape(i), &joined));
    shape = joined;
  }
  c.set(0, compare ? DType::kBool : c.in(0).dtype, shape);
  return ok();
}

}  // namespace

Status infer_same(InferContext& c) {
  if (!c.has(0)) return fail(Code::kFormat, "input 0 is missing");
  c.set(0, c.in(0).dtype, c.shape(0));
  return ok();
}

Status infer_broadcast(InferContext& c) { return broadcast_inputs(c, false); }

Status infer_compare(InferContext& c) { return broadcast_inputs(c, true); }

Status broadcast_shapes(const Shape& a, const Shape& b, Shape* out) {
  const int rank = std::max(a.rank(), b.rank());
  Shape joined;
  joined.resize(rank);
  for (int i = 1; i <= rank; ++i) {
    const int64_t da = i <= a.rank() ? a.at(-i) : 1;
    const int64_t db = i <= b.rank() ? b.at(-i) : 1;
    if (da != db && da != 1 && db != 1)
      return fail(Code::kFormat, "shapes %s and %s do not broadcast: %lld and %lld at axis -%d", a.str().c_str(),
                  b.str().c_str(), static_cast<long long>(da), static_cast<long long>(db), i);
    joined[rank - i] = da == 1 ? db : da;
  }
  *out = joined;
  return ok();
}

Status normalize_axis(int64_t axis, int rank, int* out) {
  if (axis < -rank || axis >= rank)
    return fail(Code::kFormat, "axis %lld is outside [%d, %d) for rank %d", static_cast<long long>(axis), -rank, rank,
                rank);
  *out = static_cast<int>(axis < 0 ? axis + rank : axis);
  return ok();
}

Status normalize_axes(const std::vector<int64_t>& axes, int rank, bool empty_is_all, std::vector<int>* out) {
  out->clear();
  if (axes.empty() && empty_is_all) {
    for (int i = 0; i < rank; ++i) out->push_back(i);
    return ok();
  }
  std::vector<bool> listed(static_cast<size_t>(rank));
  for (int64_t axis : axes) {
    int normal = 0;
    MINNOW_RETURN_IF_ERROR(normalize_axis(axis, rank, &normal));
    if (listed[static_cast<size_t>(normal)]) return fail(Code::kFormat, "axis %d is listed twice", normal);
    listed[static_cast<size_t>(normal)] = true;
  }
  for (int i = 0; i < rank; ++i)
    if (listed[static_cast<size_t>(i)]) out->push_back(i);
  return ok();
}

}  // namespace minnow
