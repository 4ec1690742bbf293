// Lowering of ops on images: pooling, resizing, transposed convolution to a given size, boxes.
#include <algorithm>

#include "runtime/src/lower/lowering.h"

namespace minnow {
namespace {

using Ints = std::vector<int64_t>;

// A window larger than the padded image is clipped to it.
Status expand_pool(Expansion& e, const char* op) {
  Attrs attrs = e.attrs();
  Ints kernel = attrs.ints("kernel");
  const Ints pads = attrs.ints("pads");
  const size_t n = kernel.size();
  if (e.rank(0) == 3 && n == 2 && pads.size() == 4 && e.num_outputs() == 1) {
    // Of files of others: the other axis of a plane is missing.
    const int plane = e.add("Unsqueeze", {e.in(0)}, {{"axes", Ints{3}}});
    const int result = e.add(op, {plane}, std::move(attrs));
    e.finish("Squeeze", {result}, {{"axes", Ints{3}}});
    return ok();
  }
  if (e.rank(0) != static_cast<int>(n) + 2 || pads.size() != 2 * n)
    return fail(Code::kFormat, "a window of %zu sizes for an input of shape %s", n, e.shape(0).str().c_str());
  for (size_t i = 0; i < n; ++i)
    kernel[i] = std::min(kernel[i], std::max<int64_t>(1, e.shape(0)[static_cast<int>(i) + 2] + pads[i] + pads[n + i]));
  attrs.set("kernel", kernel);
  e.finish(op, {e.in(0)}, std::move(attrs));
  return ok();
}
MINNOW_LOWERING("mnn.MaxPool", [](Expansion& e) { return expand_pool(e, "MaxPool"); });
MINNOW_LOWERING("mnn.AveragePool", [](Expansion& e) { return expand_pool(e, "AveragePool"); });

// The last input holds the size of the output as (1, height, width, 1); the excess is cropped on all sides.
Status expand_conv_transpose_to(Expansion& e) {
  Ints size;
  MINNOW_RETURN_IF_ERROR(e.ints(3, &size));
  if (size.size() != 4 || e.rank(0) != 4 || e.rank(1) != 4)
    return fail(Code::kFormat, "the size of the output must have 4 numbers");
  Attrs attrs = e.attrs();
  const Ints strides = attrs.ints("strides"), dilations = attrs.ints("dilations");
  Ints pads(4), extra(2);
  for (size_t i = 0; i < 2; ++i) {
    const auto axis = static_cast<int>(i) + 2;
    const int64_t full = (e.shape(0)[axis] - 1) * strides[i] + (e.shape(1)[axis] - 1) * dilations[i] + 1;
    const int64_t over = full - size[i + 1];
    pads[i] = std::max<int64_t>(over, 0) / 2;
    pads[i + 2] = (std::max<int64_t>(over, 0) + 1) / 2;
    extra[i] = std::max<int64_t>(-over, 0);
  }
  attrs.set("pads", pads);
  attrs.set("output_padding", extra);
  e.finish("ConvTranspose", {e.in(0), e.in(1), e.in(2)}, std::move(attrs));
  return ok();
}
MINNOW_LOWERING("mnn.ConvTransposeTo", expand_conv_transpose_to);

// The size of the output is an operand: of all axes, as sizes or as factors, or of height and width only; or it is
// among the parameters.
Status expand_interp(Expansion& e) {
  const int rank = e.rank(0);
  if (rank < 3) return fail(Code::kFormat, "an image of shape %s", e.shape(0).str().c_str());
  Attrs attrs;
  for (const char* name : {"mode", "coordinate_mode", "nearest_mode"}) attrs.set(name, e.attrs().s(name));
  const Ints last = {rank - 2, rank - 1};
  if (!e.has(1)) {
    const int64_t height = e.attrs().i("height"), width = e.attrs().i("width");
    attrs.set("axes", last);
    if (height > 0 && width > 0) {
      e.finish("Resize", {e.in(0), -1, -1, e.ints({height, width})}, std::move(attrs));
    } else {
      const int scales =
          e.floats({static_cast<float>(e.attrs().f("height_scale")), static_cast<float>(e.attrs().f("width_scale"))});
      e.finish("Resize", {e.in(0), -1, scales}, std::move(attrs));
    }
    return ok();
  }
  const int64_t n = e.shape(1).count();
  const bool factors = is_float(e.type(1).dtype);
  if (n == rank && e.attrs().b("channels_last")) return fail(Code::kUnsupported, "sizes of all axes of an NHWC image");
  if (n == rank) {
    e.finish("Resize", factors ? std::vector<int>{e.in(0), -1, e.in(1)} : std::vector<int>{e.in(0), -1, -1, e.in(1)},
             std::move(attrs));
  } else if (n == 2) {
    attrs.set("axes", last);
    const int sizes = factors ? e.add("Cast", {e.in(1)}, {{"to", DType::kI64}}) : e.in(1);
    e.finish("Resize", {e.in(0), -1, -1, sizes}, std::move(attrs));
  } else {
    return fail(Code::kFormat, "%lld numbers for the size of an image of rank %d", static_cast<long long>(n), rank);
  }
  return ok();
}
MINNOW_LOWERING("mnn.Interp", expand_interp);

// Boxes[N, 4] and scores[N] of one image and class, or ONNX's form with both axes.
Status expand_nms(Expansion& e) {
  std::vector<int> inputs;
  for (int i = 0; i < 5; ++i) inputs.push_back(e.in(i));
  while (inputs.back() < 0) inputs.pop_back();
  if (e.rank(0) == 3) {
    e.finish("NonMaxSuppression", inputs);
    return ok();
  }
  if (e.rank(0) != 2 || e.rank(1) != 1)
    return fail(Code::kFormat, "boxes and scores of rank %d and %d", e.rank(0), e.rank(1));
  inputs[0] = e.add("Unsqueeze", {inputs[0]}, {{"axes", Ints{0}}});
  inputs[1] = e.add("Unsqueeze", {inputs[1]}, {{"axes", Ints{0, 1}}});
  const int rows = e.add("NonMaxSuppression", inputs);
  const int column = e.add("Slice", {rows, e.ints({2}), e.ints({3}), e.ints({1})});
  e.finish("Squeeze", {column}, {{"axes", Ints{1}}});
  return ok();
}
MINNOW_LOWERING("mnn.NonMaxSuppression", expand_nms);

}  // namespace
}  // namespace minnow
