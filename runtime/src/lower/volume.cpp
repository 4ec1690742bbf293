// Windows that are computed by those of other ops. Over three spatial axes by those over two: for convolutions the
// slices under a kernel are channels of one image, for every slice of the result. Transposed groups whose channels do
// not fill packs one by one, and norms by means.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/core/tensor.h"
#include "runtime/src/lower/lowering.h"

namespace minnow {
namespace {

using Ints = std::vector<int64_t>;

int reshape(Expansion& e, int x, const Ints& shape) {
  return e.add("Reshape", {x, e.ints(shape)}, {{"allowzero", true}});
}

// Padding of the first spatial axis (negative: cut off), and of the others.
struct Depth {
  int64_t begin, end;
  Ints others;
};

Ints without_first(const Ints& list) { return Ints(list.begin() + 1, list.end()); }

Depth split_pads(const Expansion& e) {
  Ints pads = e.attrs().ints("pads");
  const std::string mode = e.attrs().s("auto_pad");
  if (!mode.empty()) {
    const Ints strides = e.attrs().ints("strides"), dilations = e.attrs().ints("dilations");
    for (size_t i = 0; i < 3; ++i) {
      const int axis = static_cast<int>(i) + 2;
      const int64_t span = (e.shape(1)[axis] - 1) * dilations[i] + 1;
      const int64_t total = std::max<int64_t>(0, (e.out_shape()[axis] - 1) * strides[i] + span - e.shape(0)[axis]);
      pads[i] = mode == "SAME_LOWER" ? total - total / 2 : total / 2;
      pads[i + 3] = total - pads[i];
    }
  }
  return {pads[0], pads[3], {pads[1], pads[2], pads[4], pads[5]}};
}

// x[N, C, D, H, W] as [N * slices, C * kernel, H, W]: for each slice of the result those that it is made of.
int stack(Expansion& e, int x, Ints shape, int64_t kernel, int64_t stride, int64_t dilation, const Depth& pads,
          int64_t slices) {
  if (pads.begin != 0 || pads.end != 0) x = e.add("Pad", {x, e.ints({0, 0, 0, 0, pads.begin, pads.end, 0, 0, 0, 0})});
  std::vector<int> taken;
  for (int64_t k = 0; k < kernel; ++k) {
    const int64_t first = k * dilation, last = first + (slices - 1) * stride + 1;
    const int slice = e.add("Slice", {x, e.ints({first}), e.ints({last}), e.ints({2}), e.ints({stride})});
    taken.push_back(reshape(e, slice, {shape[0], shape[1], 1, slices, shape[3], shape[4]}));
  }
  const int whole = e.add("Concat", taken, {{"axis", int64_t{2}}});
  const int turned = e.add("Transpose", {whole}, {{"perm", Ints{0, 3, 1, 2, 4, 5}}});
  return reshape(e, turned, {shape[0] * slices, shape[1] * kernel, shape[3], shape[4]});
}

// Convolves the images, and gives the result its axes.
void finish(Expansion& e, const char* op, int images, int weights, Attrs attrs) {
  const Shape y = e.out_shape();
  std::vector<int> in = {images, weights, e.in(2)};
  if (e.has(3)) {
    const int turned = e.add("Transpose", {e.in(3)}, {{"perm", Ints{0, 2, 1, 3, 4}}});
    in.push_back(reshape(e, turned, {y[0] * y[2], y[1], y[3], y[4]}));
  }
  while (in.back() < 0) in.pop_back();
  const int slices = reshape(e, e.add(op, in, std::move(attrs)), {y[0], y[2], y[1], y[3], y[4]});
  e.finish("Transpose", {slices}, {{"perm", Ints{0, 2, 1, 3, 4}}});
}

Attrs flat_attrs(const Expansion& e, const Depth& pads) {
  Attrs attrs = e.attrs();
  for (const char* name : {"strides", "dilations", "output_padding"})
    if (attrs.has(name)) attrs.set(name, without_first(attrs.ints(name)));
  attrs.set("pads", pads.others);
  attrs.set("auto_pad", std::string());
  return attrs;
}

Status expand_conv(Expansion& e) {
  const Ints w = dims_of(e.shape(1));
  MINNOW_RETURN_IF_ERROR(e.may_add(2 * w[2]));
  const Depth pads = split_pads(e);
  const int images = stack(e, e.in(0), dims_of(e.shape(0)), w[2], e.attrs().ints("strides")[0],
                           e.attrs().ints("dilations")[0], pads, e.out_shape()[2]);
  finish(e, "Conv", images, reshape(e, e.in(1), {w[0], w[1] * w[2], w[3], w[4]}), flat_attrs(e, pads));
  return ok();
}
MINNOW_LOWERING("mnn.ConvVolume", expand_conv);

// Between slices stand as many zeros as the stride leaves out; then a kernel the other way round slides over them.
Status expand_conv_transpose(Expansion& e) {
  Ints x = dims_of(e.shape(0));
  const Ints w = dims_of(e.shape(1));
  MINNOW_RETURN_IF_ERROR(e.may_add(2 * w[2]));
  const int64_t stride = e.attrs().ints("strides")[0], dilation = e.attrs().ints("dilations")[0];
  const Depth own = split_pads(e);
  int spread = e.in(0);
  if (stride > 1) {
    const int apart = reshape(e, spread, {x[0], x[1], x[2], 1, x[3], x[4]});
    const int wide = e.add("Pad", {apart, e.ints({0, 0, 0, 0, 0, 0, 0, stride - 1, 0, 0, 0, 0})});
    x[2] *= stride;
    spread = reshape(e, wide, x);
  }
  const int64_t slices = e.out_shape()[2], reach = (w[2] - 1) * dilation, begin = reach - own.begin;
  const Depth pads = {begin, slices + reach - x[2] - begin, own.others};
  const int images = stack(e, spread, x, w[2], 1, dilation, pads, slices);
  const int reversed = e.add("Reverse", {e.in(1)}, {{"axes", Ints{2}}});
  const int turned = e.add("Transpose", {reversed}, {{"perm", Ints{0, 2, 1, 3, 4}}});
  finish(e, "ConvTranspose", images, reshape(e, turned, {w[0] * w[2], w[1], w[3], w[4]}), flat_attrs(e, pads));
  return ok();
}
MINNOW_LOWERING("mnn.ConvTransposeVolume", expand_conv_transpose);

// The attributes of a pooling over some of the axes, and over one of size 1 where `one` says so.
Attrs pool_attrs(const Expansion& e, size_t begin, size_t end, bool one) {
  const auto take = [&](const Ints& list, size_t from, int64_t last) {
    Ints part(list.begin() + static_cast<std::ptrdiff_t>(from + begin),
              list.begin() + static_cast<std::ptrdiff_t>(from + end));
    if (one) part.push_back(last);
    return part;
  };
  Attrs attrs = e.attrs();
  for (const char* name : {"kernel", "strides", "dilations"}) attrs.set(name, take(attrs.ints(name), 0, 1));
  const Ints pads = attrs.ints("pads");
  Ints own = take(pads, 0, 0);
  for (int64_t p : take(pads, 3, 0)) own.push_back(p);
  attrs.set("pads", own);
  return attrs;
}

// First over the last two axes of every slice, then over the slices.
Status expand_volume_pool(Expansion& e, const char* op) {
  const Ints x = dims_of(e.shape(0)), y = dims_of(e.out_shape());
  const int planes = reshape(e, e.in(0), {x[0], x[1] * x[2], x[3], x[4]});
  const int slices = e.add(op, {planes}, pool_attrs(e, 1, 3, false));
  const int columns = reshape(e, slices, {x[0], x[1], x[2], y[3] * y[4]});
  const int result = e.add(op, {columns}, pool_attrs(e, 0, 1, true));
  e.finish("Reshape", {result, e.ints(y)}, {{"allowzero", true}});
  return ok();
}
MINNOW_LOWERING("mnn.MaxPoolVolume", [](Expansion& e) { return expand_volume_pool(e, "MaxPool"); });
MINNOW_LOWERING("mnn.AveragePoolVolume", [](Expansion& e) { return expand_volume_pool(e, "AveragePool"); });

Status expand_groups(Expansion& e) {
  const int64_t groups = e.attrs().i("group", 1);
  MINNOW_RETURN_IF_ERROR(e.may_add(groups));
  Attrs attrs = e.attrs();
  attrs.set("group", int64_t{1});
  const auto part = [&](int i, int64_t axis, int64_t g) {
    if (!e.has(i)) return -1;
    const int64_t n = e.shape(i)[static_cast<int>(axis)] / groups;
    return e.add("Slice", {e.in(i), e.ints({g * n}), e.ints({g * n + n}), e.ints({axis})});
  };
  std::vector<int> parts;
  for (int64_t g = 0; g < groups; ++g)
    parts.push_back(e.add("ConvTranspose", {part(0, 1, g), part(1, 0, g), part(2, 0, g), part(3, 1, g)}, attrs));
  e.finish("Concat", parts, {{"axis", int64_t{1}}});
  return ok();
}
MINNOW_LOWERING("mnn.ConvTransposeGroups", expand_groups);

// The sum of powers is their mean times their number.
Status expand_norm_pool(Expansion& e) {
  const bool sums = e.attrs().i("p", 2) == 1;
  Attrs attrs = e.attrs();
  attrs.set("count_include_pad", true);
  int64_t count = 1;
  for (int64_t n : attrs.ints("kernel")) count *= n;
  const int mean = e.add("AveragePool", {e.add(sums ? "Abs" : "Square", {e.in(0)})}, std::move(attrs));
  const int number = e.floats({static_cast<float>(count)});
  if (sums) {
    e.finish("Mul", {mean, number});
  } else {
    e.finish("Sqrt", {e.add("Mul", {mean, number})});
  }
  return ok();
}
MINNOW_LOWERING("mnn.LpPool", expand_norm_pool);

Status expand_global_norm_pool(Expansion& e) {
  Ints axes;
  for (int a = 2; a < e.rank(0); ++a) axes.push_back(a);
  e.finish(e.attrs().i("p", 2) == 1 ? "ReduceL1" : "ReduceL2", {e.in(0)}, {{"axes", axes}, {"keepdims", true}});
  return ok();
}
MINNOW_LOWERING("mnn.GlobalLpPool", expand_global_norm_pool);

// To a size among the parameters. The steps beside it say the same again, or nothing.
Status expand_interp3d(Expansion& e) {
  if (e.rank(0) != 5) return fail(Code::kFormat, "a volume of shape %s", e.shape(0).str().c_str());
  const Ints sizes = e.attrs().ints("sizes");
  constexpr const char* kSteps[] = {"depth_step", "height_step", "width_step"};
  for (size_t i = 0; i < 3; ++i) {
    const auto size = static_cast<double>(e.shape(0)[static_cast<int>(i) + 2]), step = e.attrs().f(kSteps[i]);
    const double whole = step * static_cast<double>(sizes[i]);
    if (sizes[i] < 1 || (step != 0 && !(std::abs(whole - size) < 1)))
      return fail(Code::kUnsupported, "steps of %g for %lld elements of %g", step, static_cast<long long>(sizes[i]),
                  size);
  }
  e.finish(
      "Resize", {e.in(0), -1, -1, e.ints(sizes)},
      {{"mode", "nearest"}, {"coordinate_mode", "asymmetric"}, {"nearest_mode", "floor"}, {"axes", Ints{2, 3, 4}}});
  return ok();
}
MINNOW_LOWERING("mnn.Interp3D", expand_interp3d);

// The largest sum of an element under the window and its weight: a slice of the image for each weight.
Status expand_dilation2d(Expansion& e) {
  if (e.rank(0) != 4 || e.rank(1) != 3 || e.shape(0)[1] != e.shape(1)[0])
    return fail(Code::kFormat, "weights of shape %s for %s", e.shape(1).str().c_str(), e.shape(0).str().c_str());
  const Ints strides = e.attrs().ints("strides"), dilations = e.attrs().ints("dilations");
  Ints out(2), before(2), after(2);
  for (size_t i = 0; i < 2; ++i) {
    const int64_t size = e.shape(0)[static_cast<int>(i) + 2];
    const int64_t span = (e.shape(1)[static_cast<int>(i) + 1] - 1) * dilations[i] + 1;
    if (e.attrs().b("same")) {
      out[i] = (size + strides[i] - 1) / strides[i];
      const int64_t total = std::max<int64_t>(0, (out[i] - 1) * strides[i] + span - size);
      before[i] = total / 2;
      after[i] = total - before[i];
    } else {
      before[i] = e.attrs().ints("pads")[i];
      after[i] = e.attrs().ints("pads")[i + 2];
      if (size + before[i] + after[i] < span)
        return fail(Code::kFormat, "its window does not fit into %s", e.shape(0).str().c_str());
      out[i] = (size + before[i] + after[i] - span) / strides[i] + 1;
    }
  }
  MINNOW_RETURN_IF_ERROR(e.may_add(5 * e.shape(1)[1] * e.shape(1)[2]));
  const int least = e.add("Reshape", {e.floats({-std::numeric_limits<float>::infinity()}), e.ints({})});
  const int x = e.add("Pad", {e.in(0), e.ints({0, 0, 0, 0, before[0], after[0], before[1], after[1]}), least});
  int result = -1;
  for (int64_t ky = 0; ky < e.shape(1)[1]; ++ky) {
    for (int64_t kx = 0; kx < e.shape(1)[2]; ++kx) {
      const int64_t top = ky * dilations[0], left = kx * dilations[1];
      const Ints ends = {top + (out[0] - 1) * strides[0] + 1, left + (out[1] - 1) * strides[1] + 1};
      const int part = e.add("Slice", {x, e.ints({top, left}), e.ints(ends), e.ints({2, 3}), e.ints(strides)});
      const int weight = e.add("Slice", {e.in(1), e.ints({ky, kx}), e.ints({ky + 1, kx + 1}), e.ints({1, 2})});
      const int sum = e.add("Add", {part, weight});
      result = result < 0 ? sum : e.add("Max", {result, sum});
    }
  }
  e.finish("Identity", {result});
  return ok();
}
MINNOW_LOWERING("mnn.Dilation2D", expand_dilation2d);

// Nothing is left to a default.
bool says_all(const Attrs& attrs, bool pool) {
  const auto has = [&](const char* name, size_t n) { return attrs.ints(name).size() == n; };
  return has("strides", 3) && has("dilations", 3) && has("pads", 6) && (!pool || has("kernel", 3)) &&
         (!attrs.has("output_padding") || has("output_padding", 3));
}

}  // namespace

const Lowering* other_form_of(const OpSpec& op, const Attrs& attrs, const std::vector<const TensorType*>& inputs,
                              const Shape& out, int channel_block) {
  const std::string_view name = op.name;
  const bool pools = inputs.size() == 1;
  const char* form = nullptr;
  if (name == "LpPool" || name == "GlobalLpPool") {
    if (out.rank() > 2 && attrs.i("p", 2) < 3 && !attrs.b("ceil_mode"))
      form = name == "LpPool" ? "mnn.LpPool" : "mnn.GlobalLpPool";
  } else if (out.rank() == 4 && name == "ConvTranspose") {
    const int64_t groups = attrs.i("group", 1), ins = inputs[1]->shape[0] / groups, outs = inputs[1]->shape[1];
    const bool fills = ins % channel_block == 0 && outs % channel_block == 0;
    if (groups > 1 && !fills && ins + outs > 2) form = "mnn.ConvTransposeGroups";
  } else if (out.rank() == 5 && says_all(attrs, pools)) {
    // op list: what is lowered in this file
    constexpr std::pair<std::string_view, const char*> kVolumes[] = {{"Conv", "mnn.ConvVolume"},
                                                                     {"ConvTranspose", "mnn.ConvTransposeVolume"},
                                                                     {"MaxPool", "mnn.MaxPoolVolume"},
                                                                     {"AveragePool", "mnn.AveragePoolVolume"}};
    for (const auto& [volume, own] : kVolumes)
      if (name == volume) form = own;
  }
  if (form == nullptr || out.count() == 0) return nullptr;
  for (const TensorType* type : inputs)
    if (type != nullptr && (type->count() == 0 || type->dtype != DType::kF32)) return nullptr;
  return find_lowering(form);
}

}  // namespace minnow
