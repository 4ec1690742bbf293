// Ops that keep the elements in their order. The engine lets the output share the input's memory where it can; where
// it cannot, they copy.
#include <algorithm>

#include "kernels/cpu/convert/operand.h"
#include "kernels/core/region.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu/machine/packed_layout.h"

namespace minnow {
namespace {

void run_copy(const Attrs&, const RunContext& c) {
  copy_bytes(c.in[0]->data, c.out[0]->data, stored_bytes(c.in[0]->type), c.pool);
}

void run_convert_layout(const Attrs&, const RunContext& c) { convert_layout(*c.in[0], c.out[0], c.pool); }

Status infer_reshape(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 2));
  std::vector<int64_t> dims;
  MINNOW_RETURN_IF_ERROR(c.ints(1, &dims));
  MINNOW_RETURN_IF_ERROR(require_out_rank(static_cast<int64_t>(dims.size())));
  const Shape& x = c.shape(0);
  const bool zero_copies = !c.attrs.b("allowzero", false);
  Shape y, rest = x;  // `rest`: the dims that are not copied; zeros among the copied ones decide nothing about -1
  int inferred = -1;
  for (size_t k = 0; k < dims.size(); ++k) {
    int64_t d = dims[k];
    const int at = static_cast<int>(k);
    if (d == 0 && zero_copies) {
      if (at >= x.rank())
        return fail(Code::kFormat, "dim %d of the new shape is 0, to be copied, but the input has the shape %s", at,
                    x.str().c_str());
      rest[at] = 1;
    } else if (d == -1) {
      if (inferred >= 0) return fail(Code::kFormat, "two dims of the new shape are -1");
      inferred = at;
      d = 1;
    }
    y.push_back(d == 0 && zero_copies ? 1 : d);
  }
  MINNOW_RETURN_IF_ERROR(check_shape(y));
  const int64_t given = y.count();
  const bool divides = given != 0 && rest.count() % given == 0;
  if (inferred >= 0 && divides) y[inferred] = rest.count() / given;
  for (size_t k = 0; k < dims.size(); ++k)
    if (dims[k] == 0 && zero_copies) y[static_cast<int>(k)] = x[static_cast<int>(k)];
  if ((inferred >= 0 && !divides) || y.count() != x.count())
    return fail(Code::kFormat, "the input %s cannot be reshaped to %s%s", x.str().c_str(), y.str().c_str(),
                inferred >= 0 ? ", the 1 of which would be inferred" : "");
  c.set(0, c.in(0).dtype, y);
  return ok();
}

Status infer_flatten(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  const Shape& x = c.shape(0);
  int64_t axis = c.attrs.i("axis", 1);
  if (axis < -x.rank() || axis > x.rank())
    return fail(Code::kFormat, "axis %lld does not fit the shape %s", static_cast<long long>(axis), x.str().c_str());
  if (axis < 0) axis += x.rank();
  c.set(0, c.in(0).dtype, {x.count(0, static_cast<int>(axis)), x.count(static_cast<int>(axis), x.rank())});
  return ok();
}

Status infer_squeeze(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  const Shape& x = c.shape(0);
  std::vector<int> axes;
  if (c.has(1) || c.attrs.has("axes")) {
    std::vector<int64_t> listed = c.attrs.ints("axes");
    if (c.has(1)) MINNOW_RETURN_IF_ERROR(c.ints(1, &listed));
    MINNOW_RETURN_IF_ERROR(normalize_axes(listed, x.rank(), false, &axes));
  } else {
    for (int k = 0; k < x.rank(); ++k)
      if (x[k] == 1) axes.push_back(k);
  }
  Shape y;
  for (int k = 0; k < x.rank(); ++k) {
    const bool listed = std::binary_search(axes.begin(), axes.end(), k);
    if (listed && x[k] != 1) return fail(Code::kFormat, "axis %d of %s is not 1", k, x.str().c_str());
    if (!listed) y.push_back(x[k]);
  }
  c.set(0, c.in(0).dtype, y);
  return ok();
}

Status infer_unsqueeze(InferContext& c) {
  MINNOW_RETURN_IF_ERROR(require_inputs(c, 1));
  const Shape& x = c.shape(0);
  std::vector<int64_t> listed = c.attrs.ints("axes");
  if (c.has(1)) MINNOW_RETURN_IF_ERROR(c.ints(1, &listed));
  const int64_t rank = x.rank() + static_cast<int64_t>(listed.size());
  MINNOW_RETURN_IF_ERROR(require_out_rank(rank));
  std::vector<int> axes;
  MINNOW_RETURN_IF_ERROR(normalize_axes(listed, static_cast<int>(rank), false, &axes));
  Shape y;
  for (int k = 0, from = 0; k < rank; ++k) y.push_back(std::binary_search(axes.begin(), axes.end(), k) ? 1 : x[from++]);
  c.set(0, c.in(0).dtype, y);
  return ok();
}

MINNOW_OP("Reshape", infer_reshape, kView);
MINNOW_KERNEL("Reshape", create_simple<run_copy>, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_OP("Flatten", infer_flatten, kView);
MINNOW_KERNEL("Flatten", create_simple<run_copy>, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_OP("Squeeze", infer_squeeze, kView);
MINNOW_KERNEL("Squeeze", create_simple<run_copy>, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_OP("Unsqueeze", infer_unsqueeze, kView);
MINNOW_KERNEL("Unsqueeze", create_simple<run_copy>, LayoutRule::kPlain, /*in_place=*/true);
MINNOW_OP("Identity", infer_same, kView);
MINNOW_KERNEL("Identity", create_simple<run_copy>, LayoutRule::kFollow, /*in_place=*/true);
// What the file says about layouts is advice: the engine chooses them, so any pair may come here.
MINNOW_OP("ConvertLayout", infer_same, kView);
MINNOW_KERNEL("ConvertLayout", create_simple<run_convert_layout>, LayoutRule::kFollow, /*in_place=*/true);

}  // namespace
}  // namespace minnow
