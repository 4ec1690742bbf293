// Convolution and resampling over three spatial axes: depth, height, width.
#include <algorithm>

#include "runtime/src/decode/conv.h"

namespace minnow {
namespace {

using Sizes = std::vector<int64_t>;

// The attributes of a window; `pads` are those of the beginnings, or of these and the ends.
Status volume_attrs(Decoder& d, const wire::Convolution3DCommon& c, bool transposed, Sizes* kernel, Attrs* attrs) {
  *kernel = to_ints(c.kernels());
  Sizes strides = to_ints(c.strides()), dilations = to_ints(c.dilates()), pads = to_ints(c.pads());
  Sizes extra = to_ints(c.outPads());
  if (strides.empty()) strides.assign(3, 1);
  if (dilations.empty()) dilations.assign(3, 1);
  if (pads.empty()) pads.assign(3, 0);
  if (pads.size() == 3) pads.insert(pads.end(), {pads[0], pads[1], pads[2]});
  if (extra.empty()) extra.assign(3, 0);
  if (kernel->size() != 3 || strides.size() != 3 || dilations.size() != 3 || pads.size() != 6 || extra.size() != 3)
    return fail(Code::kFormat, "%zu sizes of a kernel, %zu strides, %zu dilations, %zu pads and %zu extra elements",
                kernel->size(), strides.size(), dilations.size(), pads.size(), extra.size());
  for (int64_t k : *kernel)
    if (k < 1 || k > 4096) return fail(Code::kFormat, "its kernel has the size %lld", static_cast<long long>(k));
  for (Sizes* list : {&strides, &dilations})
    for (int64_t& n : *list) n = std::max<int64_t>(n, 1);
  if (c.padMode() == wire::PadMode::SAME && transposed) return d.unsupported("padding of mode SAME");
  if (c.padMode() != wire::PadMode::CAFFE) pads.assign(6, 0);
  if (c.padMode() == wire::PadMode::SAME) attrs->set("auto_pad", std::string("SAME_UPPER"));
  attrs->set("strides", strides);
  attrs->set("dilations", dilations);
  attrs->set("pads", pads);
  if (transposed) attrs->set("output_padding", extra);
  attrs->set("activation", std::string(c.relu6() ? "relu6" : c.relu() ? "relu" : ""));
  return ok();
}

Status decode_conv3d(Decoder& d) {
  const auto* main = d.main<wire::Convolution3D>();
  if (main == nullptr || main->common() == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  const wire::Convolution3DCommon& c = *main->common();
  if (c.hasOutputShape()) return d.unsupported("a given size of the result");
  const bool transposed = d.op().type() == wire::OpType::ConvTranspose3D;
  Attrs attrs;
  Sizes kernel;
  MINNOW_RETURN_IF_ERROR(volume_attrs(d, c, transposed, &kernel, &attrs));
  const int64_t outs = c.outputCount(), group = std::max(c.group(), 1);
  const int64_t taps = kernel[0] * kernel[1] * kernel[2];
  attrs.set("group", group);
  std::vector<int> inputs = {d.channels_first(d.in(0))};
  if (d.num_inputs() > 1) {
    MINNOW_RETURN_IF_ERROR(d.need_inputs(2));
    inputs.push_back(d.in(1));
    inputs.push_back(d.in(2));
  } else {
    const int64_t count = main->weight() == nullptr ? 0 : main->weight()->size();
    if (outs < 1 || outs % group != 0 || count < 1 || count % taps != 0 || (count / taps) % (outs / group) != 0 ||
        (!transposed && (count / taps) % outs != 0))
      return fail(Code::kFormat, "%lld weights do not fit %lld output channels in %lld groups and a kernel of %lld",
                  static_cast<long long>(count), static_cast<long long>(outs), static_cast<long long>(group),
                  static_cast<long long>(taps));
    const Shape shape = transposed ? Shape{count / taps / (outs / group), outs / group, kernel[0], kernel[1], kernel[2]}
                                   : Shape{outs, count / taps / outs, kernel[0], kernel[1], kernel[2]};
    int weight = -1, bias = -1;
    MINNOW_RETURN_IF_ERROR(d.weights(main->weight(), nullptr, 0, shape, &weight));
    if (main->bias() != nullptr && main->bias()->size() > 0)
      MINNOW_RETURN_IF_ERROR(d.weights(main->bias(), nullptr, 0, Shape{outs}, &bias));
    inputs.push_back(weight);
    inputs.push_back(bias);
  }
  d.set_format(d.out(0), Format::NC4HW4);
  d.finish(transposed ? "ConvTranspose" : "Conv", inputs, std::move(attrs));
  return ok();
}
MINNOW_DECODE(Convolution3D, decode_conv3d);
MINNOW_DECODE(ConvTranspose3D, decode_conv3d);

// The nearest element only: MNN's runtime has no other mode for volumes.
Status decode_interp3d(Decoder& d) {
  const auto* main = d.main<wire::Interp>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  if (d.has(1)) return d.unsupported("sizes of the result as an operand");
  if (main->resizeType() != 1) return d.unsupported("resizing of type " + std::to_string(main->resizeType()));
  d.set_format(d.out(0), Format::NC4HW4);
  d.finish("mnn.Interp3D", {d.channels_first(d.in(0))},
           {{"sizes", Sizes{main->outputDepth(), main->outputHeight(), main->outputWidth()}},
            {"depth_step", static_cast<double>(main->depthScale())},
            {"height_step", static_cast<double>(main->heightScale())},
            {"width_step", static_cast<double>(main->widthScale())}});
  return ok();
}
MINNOW_DECODE(Interp3D, decode_interp3d);

// Twice as large and the like, between the elements around.
Status decode_resize(Decoder& d) {
  const auto* main = d.main<wire::Resize>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  int scales = -1;
  MINNOW_RETURN_IF_ERROR(d.floats({main->yScale(), main->xScale()}, Shape{2}, &scales));
  d.set_format(d.out(0), Format::NC4HW4);
  d.finish("Resize", {d.channels_first(d.in(0)), -1, scales},
           {{"mode", std::string("linear")},
            {"coordinate_mode", std::string("asymmetric")},
            {"nearest_mode", std::string("floor")},
            {"axes", Sizes{2, 3}}});
  return ok();
}
MINNOW_DECODE(Resize, decode_resize);

// The largest sum of an element under the window and its weight.
Status decode_dilation2d(Decoder& d) {
  const auto* main = d.main<wire::Convolution2D>();
  if (main == nullptr || main->common() == nullptr || main->weight() == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  const wire::Convolution2DCommon& c = *main->common();
  Attrs window;
  MINNOW_RETURN_IF_ERROR(window_attrs(d, c, false, &window));
  const int64_t high = c.kernelY(), wide = c.kernelX(), taps = high * wide, count = main->weight()->size();
  if (high < 1 || wide < 1 || high > 64 || wide > 64 || count % taps != 0 || count < 1)
    return fail(Code::kFormat, "%lld weights for a kernel of %lld x %lld", static_cast<long long>(count),
                static_cast<long long>(high), static_cast<long long>(wide));
  int weight = -1;
  MINNOW_RETURN_IF_ERROR(d.weights(main->weight(), nullptr, 0, Shape{count / taps, high, wide}, &weight));
  d.set_format(d.out(0), Format::NC4HW4);
  d.finish("mnn.Dilation2D", {d.channels_first(d.in(0)), weight},
           {{"strides", Sizes{std::max(c.strideY(), 1), std::max(c.strideX(), 1)}},
            {"dilations", Sizes{std::max(c.dilateY(), 1), std::max(c.dilateX(), 1)}},
            {"pads", window.ints("pads")},
            {"same", c.padMode() == wire::PadMode::SAME}});
  return ok();
}
MINNOW_DECODE(Dilation2D, decode_dilation2d);

}  // namespace
}  // namespace minnow
