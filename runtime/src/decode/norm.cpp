// Normalization.
#include <algorithm>
#include <cmath>

#include "runtime/src/decode/decode.h"

namespace minnow {
namespace {

Status decode_scale(Decoder& d) {
  const auto* main = d.main<wire::Scale>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  const auto* external = main->external();
  const bool outside = external != nullptr && external->size() > 1;
  const Shape shape{outside                        ? external->Get(1) / 4
                    : main->scaleData() == nullptr ? 0
                                                   : int64_t{main->scaleData()->size()}};
  if (shape[0] < 1) return d.missing_parameters();
  int scale = -1, bias = -1;
  MINNOW_RETURN_IF_ERROR(d.weights(main->scaleData(), external, 0, shape, &scale));
  const bool has_bias = main->biasData() != nullptr && main->biasData()->size() > 0;
  if (has_bias || (outside && external->size() > 2 && external->Get(2) > 0)) {
    MINNOW_RETURN_IF_ERROR(d.weights(main->biasData(), external, 1, shape, &bias));
  } else {
    MINNOW_RETURN_IF_ERROR(d.floats(std::vector<float>(static_cast<size_t>(shape[0])), shape, &bias));
  }
  d.finish("Scale", {d.channels_first(d.in(0)), scale, bias});
  return ok();
}
MINNOW_DECODE(Scale, decode_scale);

Status decode_batch_norm(Decoder& d) {
  const auto* main = d.main<wire::BatchNorm>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  const auto *scale = main->slopeData(), *bias = main->biasData(), *mean = main->meanData(), *var = main->varData();
  if (scale == nullptr || mean == nullptr || var == nullptr) return d.missing_parameters();
  const Shape shape{scale->size()};
  int s = -1, b = -1, m = -1, v = -1;
  MINNOW_RETURN_IF_ERROR(d.weights(scale, nullptr, 0, shape, &s));
  if (bias != nullptr && bias->size() > 0) {
    MINNOW_RETURN_IF_ERROR(d.weights(bias, nullptr, 0, shape, &b));
  } else {
    MINNOW_RETURN_IF_ERROR(d.floats(std::vector<float>(scale->size()), shape, &b));
  }
  MINNOW_RETURN_IF_ERROR(d.weights(mean, nullptr, 0, shape, &m));
  MINNOW_RETURN_IF_ERROR(d.weights(var, nullptr, 0, shape, &v));
  d.finish("BatchNorm", {d.channels_first(d.in(0)), s, b, m, v}, {{"epsilon", static_cast<double>(main->epsilon())}});
  return ok();
}
MINNOW_DECODE(BatchNorm, decode_batch_norm);

// gamma and beta as vectors; -1 where the op has none. Shaped when the rank of the input is known.
template <typename Table>
Status scale_and_shift(Decoder& d, const Table& main, int* gamma, int* beta) {
  const auto* external = main.external();
  const bool outside = external != nullptr && external->size() > 1;
  const auto size = [&](const flatbuffers::Vector<float>* values, flatbuffers::uoffset_t part) -> int64_t {
    if (values != nullptr && values->size() > 0) return values->size();
    return outside && external->size() > part + 1 ? external->Get(part + 1) / 4 : 0;
  };
  *gamma = *beta = -1;
  if (const int64_t n = size(main.gamma(), 0); n > 0)
    MINNOW_RETURN_IF_ERROR(d.weights(main.gamma(), external, 0, Shape{n}, gamma));
  if (const int64_t n = size(main.beta(), 1); n > 0)
    MINNOW_RETURN_IF_ERROR(d.weights(main.beta(), external, 1, Shape{n}, beta));
  return ok();
}

Status decode_layer_norm(Decoder& d) {
  const auto* main = d.main<wire::LayerNorm>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  if (d.num_inputs() != 1 || d.num_outputs() != 1) return d.unsupported("the form with a fused addition");
  int gamma = -1, beta = -1;
  MINNOW_RETURN_IF_ERROR(scale_and_shift(d, *main, &gamma, &beta));
  if (main->group() > 1) {
    if (gamma >= 0 || main->useRMSNorm()) return d.unsupported("the form with groups and a scale");
    d.finish("GroupNorm", {d.in(0)},
             {{"num_groups", int64_t{main->group()}}, {"epsilon", static_cast<double>(main->epsilon())}});
    return ok();
  }
  d.finish("mnn.LayerNorm", {d.in(0), gamma, beta},
           {{"axes", to_ints(main->axis())},
            {"epsilon", static_cast<double>(main->epsilon())},
            {"rms", main->useRMSNorm()}});
  return ok();
}
MINNOW_DECODE(LayerNorm, decode_layer_norm);

Status decode_group_norm(Decoder& d) {
  const auto* main = d.main<wire::GroupNorm>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  int gamma = -1, beta = -1;
  MINNOW_RETURN_IF_ERROR(scale_and_shift(d, *main, &gamma, &beta));
  if (gamma < 0 || beta < 0) return d.missing_parameters();
  int x = d.channels_first(d.in(0));
  if (d.has(1)) x = d.add("Add", {x, d.in(1)});
  const std::vector<int> inputs = {x, gamma, beta};
  const AttrList attrs = {{"num_groups", int64_t{main->group()}}, {"epsilon", static_cast<double>(main->epsilon())}};
  if (main->bSwish() != 0) {
    d.finish("Silu", {d.add("GroupNorm", inputs, attrs)});
  } else {
    d.finish("GroupNorm", inputs, attrs);
  }
  return ok();
}
MINNOW_DECODE(GroupNorm, decode_group_norm);

// Scale and bias of a training BatchNorm's table, applied to each image by itself.
Status decode_instance_norm(Decoder& d) {
  const auto* main = d.main<wire::BatchNorm>();
  if (main == nullptr || main->slopeData() == nullptr || main->biasData() == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  if (d.num_inputs() != 1) return d.unsupported("the form with given mean and variance");
  const Shape shape{main->slopeData()->size()};
  int scale = -1, bias = -1;
  MINNOW_RETURN_IF_ERROR(d.weights(main->slopeData(), nullptr, 0, shape, &scale));
  MINNOW_RETURN_IF_ERROR(d.weights(main->biasData(), nullptr, 0, shape, &bias));
  d.finish("InstanceNorm", {d.channels_first(d.in(0)), scale, bias},
           {{"epsilon", static_cast<double>(main->epsilon())}});
  return ok();
}
MINNOW_DECODE(InstanceNorm, decode_instance_norm);

Status decode_lrn(Decoder& d) {
  const auto* main = d.main<wire::LRN>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  if (main->regionType() > 1) return d.unsupported("region type " + std::to_string(main->regionType()));
  d.finish(main->regionType() == 1 ? "mnn.LrnWithin" : "LRN", {d.channels_first(d.in(0))},
           {{"size", int64_t{main->localSize()}},
            {"alpha", static_cast<double>(main->alpha())},
            {"beta", static_cast<double>(main->beta())},
            {"bias", static_cast<double>(main->bias())}});
  return ok();
}
MINNOW_DECODE(LRN, decode_lrn);

}  // namespace
}  // namespace minnow
