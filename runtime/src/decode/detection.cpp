// What stands behind the layers of detectors: boxes are decoded, and of those that overlap the best one stays.
#include <algorithm>

#include "runtime/src/decode/decode.h"

namespace minnow {
namespace {

Status decode_detection_output(Decoder& d) {
  const auto* main = d.main<wire::DetectionOutput>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(3));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  constexpr int32_t kCorner = 1, kCenterSize = 2;
  if (main->codeType() != kCorner && main->codeType() != kCenterSize)
    return d.unsupported("boxes of code " + std::to_string(main->codeType()));
  if (main->shareLocation() == 0) return d.unsupported("boxes for each class");
  if (main->classCount() < 1 || main->keepTopK() == 0)
    return fail(Code::kFormat, "%d classes, of which %d boxes stay", main->classCount(), main->keepTopK());
  if (d.num_inputs() > 3) MINNOW_RETURN_IF_ERROR(d.need_inputs(5));
  d.finish("mnn.DetectionOutput", d.inputs(),
           {{"classes", int64_t{main->classCount()}},
            {"overlap", static_cast<double>(main->nmsThresholdold())},
            {"top", int64_t{main->nmsTopK()}},
            {"keep", int64_t{main->keepTopK()}},
            {"least", static_cast<double>(main->confidenceThreshold())},
            {"background", int64_t{main->backgroundLable()}},
            {"scaled", main->varianceEncodedTarget() == 0},
            {"corners", main->codeType() == kCorner},
            {"objectness", static_cast<double>(main->objectnessScore())}});
  d.set_format(d.out(0), Format::NCHW);
  return ok();
}
MINNOW_DECODE(DetectionOutput, decode_detection_output);

Status decode_detection_post_process(Decoder& d) {
  const auto* main = d.main<wire::DetectionPostProcessParam>();
  if (main == nullptr || main->centerSizeEncoding() == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(3));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(4));
  if (main->useRegularNMS()) return d.unsupported("suppression within each class");
  constexpr int32_t kMost = 1 << 20;
  for (int32_t n : {main->maxDetections(), main->maxClassesPerDetection(), main->numClasses()})
    if (n < 1 || n > kMost) return fail(Code::kFormat, "%d detections or classes", n);
  Attrs attrs = make_attrs({{"most", int64_t{main->maxDetections()}},
                            {"per_box", int64_t{std::min(main->maxClassesPerDetection(), main->numClasses())}},
                            {"classes", int64_t{main->numClasses()}},
                            {"least", static_cast<double>(main->nmsScoreThreshold())},
                            {"overlap", static_cast<double>(main->iouThreshold())}});
  const std::vector<double> scales(main->centerSizeEncoding()->begin(), main->centerSizeEncoding()->end());
  if (scales.size() != 4) return fail(Code::kFormat, "%zu scales of boxes", scales.size());
  for (double s : scales)
    if (!(s > 0)) return fail(Code::kFormat, "a scale of boxes is %g", s);
  attrs.set("scales", scales);
  d.finish("mnn.DetectionPostProcess", {d.in(0), d.in(1), d.in(2)}, std::move(attrs));
  return ok();
}
MINNOW_DECODE(DetectionPostProcess, decode_detection_post_process);

}  // namespace
}  // namespace minnow
