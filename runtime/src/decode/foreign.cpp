// Ops that only other writers of the format use: our own files have them in other words.
#include <algorithm>
#include <cmath>

#include "runtime/src/decode/decode.h"

namespace minnow {
namespace {

Status decode_crop(Decoder& d) {
  const auto* main = d.main<wire::Crop>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(2));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  d.finish("mnn.Crop", {d.channels_first(d.in(0)), d.channels_first(d.in(1))},
           {{"axis", int64_t{main->axis()}}, {"offsets", to_ints(main->offset())}});
  return ok();
}
MINNOW_DECODE(Crop, decode_crop);

// 1 where x is above the threshold, 0 elsewhere.
Status decode_threshold(Decoder& d) {
  const auto* main = d.main<wire::ELU>();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  int threshold = -1;
  MINNOW_RETURN_IF_ERROR(d.floats({main == nullptr ? 0.0f : main->alpha()}, Shape(), &threshold));
  d.finish("Cast", {d.add("Greater", {d.in(0), threshold})}, {{"to", DType::kF32}});
  return ok();
}
MINNOW_DECODE(Threshold, decode_threshold);

Status decode_im2col(Decoder& d) {
  const auto* main = d.main<wire::Convolution2D>();
  if (main == nullptr || main->common() == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  const wire::Convolution2DCommon& c = *main->common();
  std::vector<int64_t> pads = to_ints(c.pads());
  if (pads.empty()) pads = {c.padY(), c.padX(), c.padY(), c.padX()};
  if (pads.size() == 2) pads = {pads[0], pads[1], pads[0], pads[1]};
  constexpr int64_t kMostPlaces = 4096, kMostPad = 1 << 20;
  const bool fits = c.kernelY() > 0 && c.kernelX() > 0 && int64_t{c.kernelY()} * c.kernelX() <= kMostPlaces;
  const auto in_range = [](int64_t pad) { return pad >= 0 && pad <= kMostPad; };
  if (!fits || pads.size() != 4 || !std::all_of(pads.begin(), pads.end(), in_range))
    return d.unsupported("a window of " + std::to_string(c.kernelY()) + " x " + std::to_string(c.kernelX()) + " with " +
                         std::to_string(pads.size()) + " pads");
  const auto pair = [](int y, int x) { return std::vector<int64_t>{std::max(y, 1), std::max(x, 1)}; };
  d.finish("mnn.Im2Col", {d.channels_first(d.in(0))},
           {{"kernel", pair(c.kernelY(), c.kernelX())},
            {"strides", pair(c.strideY(), c.strideX())},
            {"dilations", pair(c.dilateY(), c.dilateX())},
            {"pads", pads}});
  d.set_format(d.out(0), Format::NCHW);
  return ok();
}
MINNOW_DECODE(Im2Col, decode_im2col);

Status decode_eye(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  d.finish("mnn.EyeLike", {d.in(0), d.in(1)});
  return ok();
}
MINNOW_DECODE(EyeLike, decode_eye);

Status decode_band_part(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(3));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  d.finish("mnn.BandPart", {d.in(0), d.in(1), d.in(2)});
  return ok();
}
MINNOW_DECODE(MatrixBandPart, decode_band_part);

Status decode_normalize(Decoder& d) {
  const auto* main = d.main<wire::Normalize>();
  if (main == nullptr || main->scale() == nullptr || main->scale()->size() == 0) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  int scale = -1;
  MINNOW_RETURN_IF_ERROR(d.weights(main->scale(), nullptr, 0, Shape{main->scale()->size()}, &scale));
  d.finish("mnn.Normalize", {d.channels_first(d.in(0)), scale},
           {{"across", main->acrossSpatial() != 0}, {"epsilon", static_cast<double>(main->eps())}});
  return ok();
}
MINNOW_DECODE(Normalize, decode_normalize);

Status decode_spatial_product(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(2));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  d.finish("Mul", {d.channels_first(d.in(0)), d.channels_first(d.in(1))});
  return ok();
}
MINNOW_DECODE(SpatialProduct, decode_spatial_product);

Status decode_crop_and_resize(Decoder& d) {
  const auto* main = d.main<wire::CropAndResize>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(4));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  const bool nearest = main->method() == wire::CropAndResizeMethod::NEAREST;
  if (!nearest && main->method() != wire::CropAndResizeMethod::BILINEAR) return d.unsupported("this method");
  const bool last = d.format(d.in(0)) == Format::NHWC;
  const AttrList attrs = {{"mode", nearest ? "nearest" : "linear"},
                          {"outside", static_cast<double>(main->extrapolationValue())}};
  const std::vector<int> inputs = {d.channels_first(d.in(0)), d.in(1), d.in(2), d.in(3)};
  if (last) {
    d.finish("mnn.Transpose", {d.add("mnn.CropAndResize", inputs, attrs)}, {{"to", std::string("channels_last")}});
  } else {
    d.finish("mnn.CropAndResize", inputs, attrs);
  }
  return ok();
}
MINNOW_DECODE(CropAndResize, decode_crop_and_resize);

// Boxes around every element of a feature map, in parts of the image; their numbers are known when shapes are.
Status decode_prior_box(Decoder& d) {
  const auto* main = d.main<wire::PriorBox>();
  if (main == nullptr || main->minSizes() == nullptr || main->minSizes()->size() == 0) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(2));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  const auto list = [](const flatbuffers::Vector<float>* values) {
    return values == nullptr ? std::vector<double>() : std::vector<double>(values->begin(), values->end());
  };
  constexpr size_t kMostSizes = 4096;
  const std::vector<double> smallest = list(main->minSizes()), largest = list(main->maxSizes());
  std::vector<double> ratios = {1};
  for (double ratio : list(main->aspectRatios())) {
    if (ratios.size() > kMostSizes / smallest.size()) return d.unsupported("more than 4096 boxes for each element");
    if (!(ratio > 0)) return fail(Code::kFormat, "an aspect ratio is %g", ratio);
    const auto same = [&](double known) { return std::abs(ratio - known) < 1e-6; };
    if (std::any_of(ratios.begin(), ratios.end(), same)) continue;
    ratios.push_back(ratio);
    if (main->flip()) ratios.push_back(1 / ratio);
  }
  if (!largest.empty() && largest.size() != smallest.size())
    return fail(Code::kFormat, "%zu largest sizes for %zu smallest ones", largest.size(), smallest.size());
  std::vector<double> widths, heights;
  for (size_t i = 0; i < smallest.size(); ++i) {
    const auto add = [&](double w, double h) {
      widths.push_back(w);
      heights.push_back(h);
    };
    add(smallest[i], smallest[i]);
    if (!largest.empty()) add(std::sqrt(smallest[i] * largest[i]), std::sqrt(smallest[i] * largest[i]));
    for (size_t r = 1; r < ratios.size(); ++r)
      add(smallest[i] * std::sqrt(ratios[r]), smallest[i] / std::sqrt(ratios[r]));
  }
  std::vector<double> variances = list(main->variances());
  if (variances.empty()) variances = {0.1};
  if (variances.size() == 1) variances.resize(4, variances[0]);
  if (variances.size() != 4) return fail(Code::kFormat, "%zu variances", variances.size());
  Attrs attrs = make_attrs({{"image_width", int64_t{main->imageWidth()}},
                            {"image_height", int64_t{main->imageHeight()}},
                            {"step_width", int64_t{main->stepWidth()}},
                            {"step_height", int64_t{main->stepHeight()}},
                            {"offset", static_cast<double>(main->offset())},
                            {"clip", main->clip()}});
  attrs.set("widths", widths);
  attrs.set("heights", heights);
  attrs.set("variances", variances);
  d.finish("mnn.PriorBox", {d.channels_first(d.in(0)), d.channels_first(d.in(1))}, std::move(attrs));
  d.set_format(d.out(0), Format::NCHW);
  return ok();
}
MINNOW_DECODE(PriorBox, decode_prior_box);

}  // namespace
}  // namespace minnow
