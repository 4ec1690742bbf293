// Resampling of images, boxes.
#include <algorithm>

#include "runtime/src/decode/decode.h"

namespace minnow {
namespace {

using Mode = wire::CoordinateTransformationMode;

Status decode_interp(Decoder& d) {
  const auto* main = d.main<wire::Interp>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  struct Kind {
    const char *mode, *nearest;
  };
  static constexpr Kind kKinds[] = {
      {"nearest", "floor"}, {"linear", "floor"}, {"cubic", "floor"}, {"nearest", "round_prefer_floor"}};
  const int type = main->resizeType();
  if (type < 1 || type > 4) return d.unsupported("resizing of type " + std::to_string(type));
  Mode mode = main->ctm();
  if (mode == Mode::NotSet) {
    mode = main->halfPixelCenters() && type != 1 ? Mode::HalfPixels
           : main->alignCorners()                ? Mode::AlignCorners
                                                 : Mode::Asymmetric;
  }
  static constexpr const char* kModes[] = {nullptr,      "align_corners",       "half_pixel", "pytorch_half_pixel",
                                           "asymmetric", "tf_half_pixel_for_nn"};
  if (static_cast<size_t>(mode) >= std::size(kModes)) return d.unsupported("this coordinate transformation");
  const bool last = d.format(d.in(0)) == Format::NHWC;
  const int x = d.channels_first(d.in(0));
  d.set_format(d.out(0), Format::NC4HW4);
  int64_t height = main->outputHeight(), width = main->outputWidth();
  if (d.has_fixed_shapes() && !d.file().is_ours) {
    // The factors are steps from element to element here.
    std::vector<int64_t> shape;
    MINNOW_RETURN_IF_ERROR(static_shape(d, d.out(0), &shape));
    if (shape.size() == 4) {
      height = shape[2];
      width = shape[3];
    }
  }
  d.finish("mnn.Interp", {x, d.in(1)},
           {{"mode", std::string(kKinds[type - 1].mode)},
            {"nearest_mode", std::string(kKinds[type - 1].nearest)},
            {"coordinate_mode", std::string(kModes[static_cast<size_t>(mode)])},
            {"height", height},
            {"width", width},
            {"height_scale", static_cast<double>(main->heightScale())},
            {"width_scale", static_cast<double>(main->widthScale())},
            {"channels_last", last}});
  return ok();
}
MINNOW_DECODE(Interp, decode_interp);

Status decode_grid_sample(Decoder& d) {
  const auto* main = d.main<wire::GridSample>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(2));
  static constexpr const char *kModes[] = {"linear", "nearest"}, *kPaddings[] = {"zeros", "border", "reflection"};
  const auto mode = static_cast<size_t>(main->mode()), padding = static_cast<size_t>(main->paddingMode());
  if (main->backward() || mode >= std::size(kModes) || padding >= std::size(kPaddings))
    return d.unsupported("this mode");
  d.finish("GridSample", {d.channels_first(d.in(0)), d.in(1)},
           {{"mode", std::string(kModes[mode])},
            {"padding", std::string(kPaddings[padding])},
            {"align_corners", main->alignCorners()}});
  return ok();
}
MINNOW_DECODE(GridSample, decode_grid_sample);

Status decode_roi_align(Decoder& d) {
  const auto* main = d.main<wire::RoiParameters>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(2));
  if (!d.has(2) || main->outputGrad()) return d.unsupported("the form without indices of images");
  d.finish("RoiAlign", {d.channels_first(d.in(0)), d.in(1), d.in(2)},
           {{"output_height", int64_t{main->pooledHeight()}},
            {"output_width", int64_t{main->pooledWidth()}},
            {"spatial_scale", static_cast<double>(main->spatialScale())},
            {"sampling_ratio", int64_t{std::max(main->samplingRatio(), 0)}},
            {"coordinate_mode", std::string(main->aligned() ? "half_pixel" : "output_half_pixel")},
            {"mode", std::string(main->poolType() == wire::PoolType::MAXPOOL ? "max" : "avg")}});
  return ok();
}
MINNOW_DECODE(ROIAlign, decode_roi_align);

Status decode_roi_pool(Decoder& d) {
  const auto* main = d.main<wire::RoiParameters>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(2));
  if (main->outputGrad()) return d.unsupported("the gradient");
  int rois = d.in(1);
  if (!d.file().is_ours) {
    int rows = -1;  // Caffe's regions may have two more axes
    MINNOW_RETURN_IF_ERROR(d.ints({-1, 5}, &rows));
    rois = d.add("Reshape", {rois, rows});
  }
  d.finish("MaxRoiPool", {d.channels_first(d.in(0)), rois},
           {{"height", int64_t{main->pooledHeight()}},
            {"width", int64_t{main->pooledWidth()}},
            {"scale", static_cast<double>(main->spatialScale())}});
  return ok();
}
MINNOW_DECODE(ROIPooling, decode_roi_pool);

// The blocks of an image, of which only the image's size is an operand.
Status decode_col2im(Decoder& d) {
  const auto* main = d.main<wire::Convolution2D>();
  if (main == nullptr || main->common() == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(2));
  const wire::Convolution2DCommon& c = *main->common();
  std::vector<int64_t> pads = to_ints(c.pads());
  if (pads.empty()) pads = {c.padY(), c.padX(), c.padY(), c.padX()};
  if (pads.size() != 4) return d.unsupported("padding of " + std::to_string(pads.size()) + " numbers");
  int block = -1;
  MINNOW_RETURN_IF_ERROR(d.ints({c.kernelY(), c.kernelX()}, &block));
  d.finish("Col2Im", {d.in(0), d.in(1), block},
           {{"strides", std::vector<int64_t>{c.strideY(), c.strideX()}},
            {"dilations", std::vector<int64_t>{c.dilateY(), c.dilateX()}},
            {"pads", pads}});
  return ok();
}
MINNOW_DECODE(Col2Im, decode_col2im);

Status decode_nms(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(3));
  d.finish("mnn.NonMaxSuppression", {d.in(0), d.in(1), d.in(2), d.in(3), d.in(4)});
  return ok();
}
MINNOW_DECODE(NonMaxSuppressionV2, decode_nms);

}  // namespace
}  // namespace minnow
