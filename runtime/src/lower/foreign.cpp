// Lowering of forms that only other writers of the format use: our own files have these ops in other words.
#include <algorithm>

#include "kernels/core/infer.h"
#include "runtime/src/lower/lowering.h"

namespace minnow {
namespace {

using Ints = std::vector<int64_t>;

Status expand_cast_like(Expansion& e) {
  e.finish("Cast", {e.in(0)}, {{"to", e.type(1).dtype}});
  return ok();
}
MINNOW_LOWERING("mnn.CastLike", expand_cast_like);

// As many elements as the second input has, from `axis` on; one offset for all of these axes, or one each.
Status expand_crop(Expansion& e) {
  const auto axis = e.attrs().i("axis");
  const Ints offsets = e.attrs().ints("offsets");
  const int rank = e.rank(0);
  if (e.rank(1) != rank || axis < 0 || axis >= rank)
    return fail(Code::kFormat, "it crops %s like %s from axis %lld on", e.shape(0).str().c_str(),
                e.shape(1).str().c_str(), static_cast<long long>(axis));
  const auto count = static_cast<size_t>(rank - axis);
  if (offsets.size() > 1 && offsets.size() != count)
    return fail(Code::kFormat, "%zu offsets for %zu axes", offsets.size(), count);
  Ints starts, ends, axes;
  for (size_t i = 0; i < count; ++i) {
    const auto a = static_cast<int>(axis) + static_cast<int>(i);
    const int64_t from = offsets.empty() ? 0 : offsets[std::min(i, offsets.size() - 1)], size = e.shape(1)[a];
    if (from < 0 || size > e.shape(0)[a] || from > e.shape(0)[a] - size)
      return fail(Code::kFormat, "%lld elements from %lld on are not in axis %d of %s", static_cast<long long>(size),
                  static_cast<long long>(from), a, e.shape(0).str().c_str());
    starts.push_back(from);
    ends.push_back(from + size);
    axes.push_back(a);
  }
  e.finish("Slice", {e.in(0), e.ints(starts), e.ints(ends), e.ints(axes)});
  return ok();
}
MINNOW_LOWERING("mnn.Crop", expand_crop);

// x / (bias + alpha * mean of the squares around it) ^ beta, where the window counts as full at the borders, too.
Status expand_lrn_within(Expansion& e) {
  const int64_t size = e.attrs().i("size"), before = (size - 1) / 2, after = size - 1 - before;
  if (size < 1 || e.rank(0) != 4)
    return fail(Code::kFormat, "a window of %lld for an image of shape %s", static_cast<long long>(size),
                e.shape(0).str().c_str());
  const int mean = e.add("AveragePool", {e.add("Square", {e.in(0)})},
                         {{"kernel", Ints{size, size}},
                          {"strides", Ints{1, 1}},
                          {"dilations", Ints{1, 1}},
                          {"pads", Ints{before, before, after, after}},
                          {"count_include_pad", true}});
  const int scaled = e.add("Mul", {mean, e.floats({static_cast<float>(e.attrs().f("alpha"))})});
  const int base = e.add("Add", {scaled, e.floats({static_cast<float>(e.attrs().f("bias"))})});
  e.finish("Mul", {e.in(0), e.add("Pow", {base, e.floats({static_cast<float>(-e.attrs().f("beta"))})})});
  return ok();
}
MINNOW_LOWERING("mnn.LrnWithin", expand_lrn_within);

// For every place of the window, what is under it, as [channels * kernel, images * places].
Status expand_im2col(Expansion& e) {
  if (e.rank(0) != 4) return fail(Code::kFormat, "an image of shape %s", e.shape(0).str().c_str());
  const Ints kernel = e.attrs().ints("kernel"), strides = e.attrs().ints("strides");
  const Ints dilations = e.attrs().ints("dilations"), pads = e.attrs().ints("pads");
  const Shape x = e.shape(0);
  Ints out(2);
  for (size_t i = 0; i < 2; ++i) {
    const int64_t span = (kernel[i] - 1) * dilations[i] + 1, whole = x[static_cast<int>(i) + 2] + pads[i] + pads[i + 2];
    if (whole < span) return fail(Code::kFormat, "its window does not fit into %s", x.str().c_str());
    out[i] = (whole - span) / strides[i] + 1;
  }
  const int padded = e.add("Pad", {e.in(0), e.ints({0, 0, 0, 0, pads[0], pads[2], pads[1], pads[3]})});
  std::vector<int> parts;
  for (int64_t ky = 0; ky < kernel[0]; ++ky) {
    for (int64_t kx = 0; kx < kernel[1]; ++kx) {
      const int64_t y = ky * dilations[0], z = kx * dilations[1];
      const Ints ends = {y + (out[0] - 1) * strides[0] + 1, z + (out[1] - 1) * strides[1] + 1};
      const int part =
          e.add("Slice", {padded, e.ints({y, z}), e.ints(ends), e.ints({2, 3}), e.ints({strides[0], strides[1]})});
      parts.push_back(e.add("Unsqueeze", {part}, {{"axes", Ints{2}}}));
    }
  }
  const int all = e.add("Concat", parts, {{"axis", int64_t{2}}});
  const int turned = e.add("Transpose", {all}, {{"perm", Ints{1, 2, 0, 3, 4}}});
  e.finish("Reshape", {turned, e.ints({x[1] * kernel[0] * kernel[1], x[0] * out[0] * out[1]})}, {{"allowzero", true}});
  return ok();
}
MINNOW_LOWERING("mnn.Im2Col", expand_im2col);

// Indices that count through the `axis` leading axes and the next one, as if these were one.
Status expand_gather_nd(Expansion& e) {
  const auto axis = static_cast<int>(e.attrs().i("axis"));
  if (axis < 0 || axis + 1 > e.rank(0) || e.rank(1) < 1 || e.shape(1)[e.rank(1) - 1] != 1)
    return fail(Code::kUnsupported, "indices of shape %s for %s after %d axes", e.shape(1).str().c_str(),
                e.shape(0).str().c_str(), axis);
  Ints dims = {e.shape(0).count(0, axis + 1)};
  dims.insert(dims.end(), e.shape(0).begin() + axis + 1, e.shape(0).end());
  const int flat = e.add("Reshape", {e.in(0), e.ints(dims)}, {{"allowzero", true}});
  e.finish("GatherND", {flat, e.in(1)}, {{"batch_dims", int64_t{0}}});
  return ok();
}
MINNOW_LOWERING("mnn.GatherND", expand_gather_nd);

// The diagonal is an operand.
Status expand_eye(Expansion& e) {
  Ints k = {0};
  if (e.has(1)) MINNOW_RETURN_IF_ERROR(e.ints(1, &k));
  if (k.size() != 1) return fail(Code::kFormat, "%zu numbers of a diagonal", k.size());
  e.finish("EyeLike", {e.in(0)}, {{"k", k[0]}});
  return ok();
}
MINNOW_LOWERING("mnn.EyeLike", expand_eye);

// Vectors of one number stand for numbers.
Status expand_range(Expansion& e) {
  std::vector<int> operands;
  for (int i = 0; i < 3; ++i) {
    const bool vector = e.rank(i) > 0 && e.shape(i).count() == 1;
    operands.push_back(vector ? e.add("Reshape", {e.in(i), e.ints({})}) : e.in(i));
  }
  e.finish("Range", operands);
  return ok();
}
MINNOW_LOWERING("mnn.Range", expand_range);

// Inputs of another rank than the first that is not empty count as if they had its shape but for the axis.
Status expand_concat(Expansion& e) {
  int first = 0;
  while (first + 1 < e.num_inputs() && e.shape(first).count() == 0) ++first;
  int axis = 0;
  MINNOW_RETURN_IF_ERROR(normalize_axis(e.attrs().i("axis"), e.rank(first), &axis));
  Ints dims = dims_of(e.shape(first));
  const int64_t rest = e.shape(first).count(0, axis) * e.shape(first).count(axis + 1, e.rank(first));
  std::vector<int> parts;
  for (int i = 0; i < e.num_inputs(); ++i) {
    const int64_t count = e.shape(i).count();
    if (e.rank(i) == e.rank(first)) {
      parts.push_back(e.in(i));
    } else if (count > 0 && rest > 0 && count % rest == 0) {
      dims[static_cast<size_t>(axis)] = count / rest;
      parts.push_back(e.add("Reshape", {e.in(i), e.ints(dims)}));
    } else if (count > 0) {
      return fail(Code::kFormat, "%s and %s do not go together at axis %d", e.shape(first).str().c_str(),
                  e.shape(i).str().c_str(), axis);
    }
  }
  e.finish("Concat", parts, {{"axis", int64_t{axis}}});
  return ok();
}
MINNOW_LOWERING("mnn.Concat", expand_concat);

}  // namespace
}  // namespace minnow
