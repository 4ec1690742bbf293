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

// A convolution of planes, which may get lines: these lack the last axis, and so do the results.
Status expand_conv_line(Expansion& e) {
  std::vector<int> inputs = {e.in(0), e.in(1), e.in(2)};
  while (inputs.back() < 0) inputs.pop_back();
  if (e.rank(0) == 3 && e.rank(1) == 4) {
    inputs[0] = e.add("Unsqueeze", {e.in(0)}, {{"axes", Ints{3}}});
    e.finish("Squeeze", {e.add("Conv", inputs, e.attrs())}, {{"axes", Ints{3}}});
  } else {
    e.finish("Conv", inputs, e.attrs());
  }
  return ok();
}
MINNOW_LOWERING("mnn.ConvLine", expand_conv_line);

// Over those of the listed axes that there are.
Status expand_reduce_these(Expansion& e) {
  Ints axes;
  for (int64_t axis : e.attrs().ints("axes"))
    if (axis < e.rank(0)) axes.push_back(axis);
  const AttrList attrs = {{"axes", axes}, {"keepdims", e.attrs().b("keepdims")}};
  e.finish(axes.empty() ? "Identity" : e.attrs().s("op").c_str(), {e.in(0)}, axes.empty() ? AttrList() : attrs);
  return ok();
}
MINNOW_LOWERING("mnn.ReduceThese", expand_reduce_these);

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
  const Shape x = e.shape(0);
  Ints dims = {x.count(0, axis + 1)};
  dims.insert(dims.end(), x.begin() + axis + 1, x.end());
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

// The shape's first axes are those of the input, where the op says so; else the last ones.
Status expand_broadcast(Expansion& e) {
  const int64_t rank = e.shape(1).count(), own = e.rank(0);
  if (own > rank)
    return fail(Code::kFormat, "it broadcasts %s to rank %lld", e.shape(0).str().c_str(), static_cast<long long>(rank));
  Ints dims = dims_of(e.shape(0));
  dims.resize(static_cast<size_t>(rank), 1);
  e.finish("Expand", {e.add("Reshape", {e.in(0), e.ints(dims)}, {{"allowzero", true}}), e.in(1)});
  return ok();
}
MINNOW_LOWERING("mnn.BroadcastFirst", expand_broadcast);

// Diagonals from `lower` below the main one to `upper` above it; below 0: all.
Status expand_band(Expansion& e) {
  Ints lower, upper;
  MINNOW_RETURN_IF_ERROR(e.ints(1, &lower));
  MINNOW_RETURN_IF_ERROR(e.ints(2, &upper));
  if (lower.size() != 1 || upper.size() != 1 || e.rank(0) < 2)
    return fail(Code::kFormat, "%zu and %zu numbers of diagonals of %s", lower.size(), upper.size(),
                e.shape(0).str().c_str());
  int x = e.in(0);
  if (lower[0] >= 0) x = e.add("Trilu", {x, e.ints({-lower[0]})}, {{"upper", true}});
  if (upper[0] >= 0) x = e.add("Trilu", {x, e.ints({upper[0]})}, {{"upper", false}});
  e.finish("Identity", {x});
  return ok();
}
MINNOW_LOWERING("mnn.BandPart", expand_band);

// x and, at its ends, its elements in reverse.
Status expand_pad_symmetric(Expansion& e) {
  Ints pads;
  MINNOW_RETURN_IF_ERROR(e.ints(1, &pads));
  const Shape shape = e.shape(0);
  if (pads.size() != 2 * static_cast<size_t>(shape.rank()))
    return fail(Code::kFormat, "%zu paddings for rank %d", pads.size(), shape.rank());
  int x = e.in(0);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t before = pads[2 * static_cast<size_t>(axis)], after = pads[2 * static_cast<size_t>(axis) + 1];
    const int64_t n = shape[axis];
    if (before < 0 || after < 0 || before > n || after > n)
      return fail(Code::kFormat, "it mirrors %lld and %lld of %lld elements", static_cast<long long>(before),
                  static_cast<long long>(after), static_cast<long long>(n));
    const auto mirrored = [&](int64_t from, int64_t to) {
      const int part = e.add("Slice", {x, e.ints({from}), e.ints({to}), e.ints({axis})});
      return e.add("Reverse", {part}, {{"axes", Ints{axis}}});
    };
    std::vector<int> parts;
    if (before > 0) parts.push_back(mirrored(0, before));
    parts.push_back(x);
    if (after > 0) parts.push_back(mirrored(n - after, n));
    if (parts.size() > 1) x = e.add("Concat", parts, {{"axis", int64_t{axis}}});
  }
  e.finish("Identity", {x});
  return ok();
}
MINNOW_LOWERING("mnn.PadSymmetric", expand_pad_symmetric);

// Each vector of channels, or each image, divided by its length, and times a scale for each channel.
Status expand_normalize(Expansion& e) {
  if (e.rank(0) < 2) return fail(Code::kFormat, "channels of %s", e.shape(0).str().c_str());
  Ints axes = {1};
  if (e.attrs().b("across"))
    for (int a = 2; a < e.rank(0); ++a) axes.push_back(a);
  const int squares = e.add("ReduceSumSquare", {e.in(0)}, {{"axes", axes}, {"keepdims", true}});
  const int base = e.add("Add", {squares, e.floats({static_cast<float>(e.attrs().f("epsilon"))})});
  const int y = e.add("Div", {e.in(0), e.add("Sqrt", {base})});
  Ints dims(static_cast<size_t>(e.rank(0)) - 1, 1);
  dims[0] = e.shape(1).count();
  e.finish("Mul", {y, e.add("Reshape", {e.in(1), e.ints(dims)})});
  return ok();
}
MINNOW_LOWERING("mnn.Normalize", expand_normalize);

// The place of each maximum in its own plane.
Status expand_pool_places(Expansion& e) {
  const int values = e.add("MaxPool", {e.in(0)}, e.attrs());
  const int places = e.another_output();
  const int64_t plane = e.shape(0).count(2, e.rank(0));
  e.finish(0, "Identity", {values}, Attrs());
  const int within = e.add("Mod", {places, e.ints({std::max<int64_t>(plane, 1)})}, {{"fmod", false}});
  e.finish(1, "Cast", {within}, make_attrs({{"to", DType::kI32}}));
  return ok();
}
MINNOW_LOWERING("mnn.MaxPoolPlaces", expand_pool_places);

// Boxes (y0, x0, y1, x1), in units of the image, of the images that a vector names, each resized.
Status expand_crop_and_resize(Expansion& e) {
  Ints size;
  MINNOW_RETURN_IF_ERROR(e.ints(3, &size));
  if (size.size() != 2 || e.rank(0) != 4 || e.rank(1) != 2 || e.shape(1)[1] != 4)
    return fail(Code::kFormat, "boxes of shape %s in images of shape %s", e.shape(1).str().c_str(),
                e.shape(0).str().c_str());
  constexpr int64_t kMost = 1 << 16;
  const Shape image = e.shape(0);  // [N, C, H, W]
  const int64_t boxes = e.shape(1)[0];
  for (int64_t n : {size[0], size[1], image[2], image[3]})
    if (n < 1 || n > kMost) return fail(Code::kUnsupported, "a crop or an image of %lld", static_cast<long long>(n));
  const auto scalar = [&](double value) { return e.floats({static_cast<float>(value)}); };
  std::vector<int> places, inside;
  for (size_t i = 0; i < 2; ++i) {
    const auto axis = static_cast<int64_t>(i);
    const auto column = [&](int64_t c) { return e.add("Slice", {e.in(1), e.ints({c}), e.ints({c + 1}), e.ints({1})}); };
    const int first = column(axis), second = column(axis + 2);
    const double last = static_cast<double>(image[static_cast<int>(i) + 2] - 1);
    int place;
    if (size[i] > 1) {
      std::vector<float> steps;
      for (int64_t k = 0; k < size[i]; ++k) steps.push_back(static_cast<float>(k));
      const int step = e.add("Mul", {e.add("Sub", {second, first}), scalar(last / static_cast<double>(size[i] - 1))});
      place = e.add("Add", {e.add("Mul", {first, scalar(last)}), e.add("Mul", {step, e.floats(steps)})});
    } else {
      place = e.add("Mul", {e.add("Add", {first, second}), scalar(0.5 * last)});
    }
    const int low = e.add("GreaterOrEqual", {place, scalar(0)}), high = e.add("LessOrEqual", {place, scalar(last)});
    inside.push_back(e.add("And", {low, high}));
    // As GridSample counts them, from -1 to 1.
    place = e.add("Min", {e.add("Max", {place, scalar(0)}), scalar(last)});
    if (e.attrs().s("mode") == "nearest") place = e.add("Floor", {e.add("Add", {place, scalar(0.5)})});
    const double unit = last > 0 ? 2 / last : 0;
    places.push_back(e.add("Sub", {e.add("Mul", {place, scalar(unit)}), scalar(1)}));
  }
  const auto spread = [&](int v, size_t i) {
    const int shaped = e.add("Unsqueeze", {v}, {{"axes", Ints{i == 0 ? 2 : 1}}});
    return e.add("Expand", {shaped, e.ints({boxes, size[0], size[1]})});
  };
  const Ints last_axis = {3};
  const int y = e.add("Unsqueeze", {spread(places[0], 0)}, {{"axes", last_axis}});
  const int x = e.add("Unsqueeze", {spread(places[1], 1)}, {{"axes", last_axis}});
  const int grid = e.add("Concat", {x, y}, {{"axis", int64_t{3}}});
  const int images = e.add("Gather", {e.in(0), e.in(2)}, {{"axis", int64_t{0}}});
  const int crops = e.add("GridSample", {images, grid},
                          {{"mode", e.attrs().s("mode")}, {"padding", "border"}, {"align_corners", true}});
  const int seen =
      e.add("Unsqueeze", {e.add("And", {spread(inside[0], 0), spread(inside[1], 1)})}, {{"axes", Ints{1}}});
  e.finish("Where", {seen, crops, scalar(e.attrs().f("outside"))});
  return ok();
}
MINNOW_LOWERING("mnn.CropAndResize", expand_crop_and_resize);

// [1, 2, boxes * 4]: the corners of the boxes around every element, then their variances.
Status expand_prior_box(Expansion& e) {
  if (e.rank(0) != 4 || e.rank(1) != 4)
    return fail(Code::kFormat, "boxes of %s in %s", e.shape(0).str().c_str(), e.shape(1).str().c_str());
  const auto numbers = [&](const char* name) { return e.attrs().get<std::vector<double>>(name, {}); };
  const auto widths = numbers("widths"), heights = numbers("heights"), variances = numbers("variances");
  const int64_t rows = e.shape(0)[2], columns = e.shape(0)[3];
  constexpr int64_t kMostBoxes = 1 << 20;  // 64 MiB, counted by no limit of memory before they are there
  if (rows < 1 || columns < 1 || rows > kMostBoxes || columns > kMostBoxes ||
      rows * columns > kMostBoxes / static_cast<int64_t>(widths.size()))
    return fail(Code::kUnsupported, "boxes around %lld x %lld elements", static_cast<long long>(rows),
                static_cast<long long>(columns));
  const auto given = [&](const char* name, double otherwise) {
    const auto n = static_cast<double>(e.attrs().i(name));
    return n > 0 ? n : otherwise;
  };
  const double width = given("image_width", static_cast<double>(e.shape(1)[3]));
  const double height = given("image_height", static_cast<double>(e.shape(1)[2]));
  const double right = given("step_width", width / static_cast<double>(columns));
  const double down = given("step_height", height / static_cast<double>(rows));
  const double offset = e.attrs().f("offset");
  std::vector<float> corners, spread;
  const auto add = [&](double value) {
    corners.push_back(static_cast<float>(e.attrs().b("clip") ? std::clamp(value, 0.0, 1.0) : value));
  };
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const double x = (static_cast<double>(column) + offset) * right, y = (static_cast<double>(row) + offset) * down;
      for (size_t k = 0; k < widths.size(); ++k) {
        add((x - widths[k] / 2) / width);
        add((y - heights[k] / 2) / height);
        add((x + widths[k] / 2) / width);
        add((y + heights[k] / 2) / height);
        for (double v : variances) spread.push_back(static_cast<float>(v));
      }
    }
  }
  const auto count = static_cast<int64_t>(corners.size());
  corners.insert(corners.end(), spread.begin(), spread.end());
  e.finish("Reshape", {e.floats(corners), e.ints({1, 2, count})});
  return ok();
}
MINNOW_LOWERING("mnn.PriorBox", expand_prior_box);

}  // namespace
}  // namespace minnow
