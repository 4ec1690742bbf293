// Of the integer ops of TensorFlow's and TFLite's first integer models those that MNN's runtime still has.
#include <algorithm>

#include "runtime/src/decode/decode.h"

namespace minnow {
namespace {

// To floats, by a scale among the parameters, or by the least and the largest number that stand beside it.
Status decode_dequantize(Decoder& d) {
  const auto* main = d.main<wire::Dequantize>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  const int x = d.add("Cast", {d.in(0)}, {{"to", DType::kF32}});
  int scale = -1, zero = -1;
  if (d.num_inputs() == 1) {
    const wire::QuantizedParam* q = main->inputQuantizedParam();
    if (q == nullptr) return d.missing_parameters();
    MINNOW_RETURN_IF_ERROR(d.floats({q->scale()}, Shape(), &scale));
    MINNOW_RETURN_IF_ERROR(d.floats({static_cast<float>(q->zeroPoint())}, Shape(), &zero));
    d.finish("Mul", {d.add("Sub", {x, zero}), scale});
    return ok();
  }
  MINNOW_RETURN_IF_ERROR(d.need_inputs(3));
  if (main->mode() != wire::QuantizeMode::MIN_COMBINED || main->type() != wire::DataType::DT_QUINT8)
    return d.unsupported("another range than that of 8 bits without a sign");
  MINNOW_RETURN_IF_ERROR(d.floats({255}, Shape(), &scale));
  const int step = d.add("Div", {d.add("Sub", {d.in(2), d.in(1)}), scale});
  d.finish("Add", {d.add("Mul", {x, step}), d.in(1)});
  return ok();
}
MINNOW_DECODE(Dequantize, decode_dequantize);

Status decode_quantized_reshape(Decoder& d) {
  const auto* main = d.main<wire::QuantizedReshape>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  int dims = -1;
  MINNOW_RETURN_IF_ERROR(d.ints(to_ints(main->dims()), &dims));
  d.finish("Reshape", {d.in(0), dims});
  return ok();
}
MINNOW_DECODE(QuantizedReshape, decode_quantized_reshape);

Status decode_quantized_concat(Decoder& d) {
  const auto* main = d.main<wire::QuantizedConcat>();
  if (main == nullptr || main->outputQuantizedParam() == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(std::max(1, d.num_inputs())));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  const wire::QuantizedParam& q = *main->outputQuantizedParam();
  const auto differs = [](const auto* list, auto value) {
    return list != nullptr && std::any_of(list->begin(), list->end(), [&](auto v) { return v != value; });
  };
  if (differs(main->inputScale(), q.scale()) || differs(main->inputZeroPoint(), q.zeroPoint()))
    return d.unsupported("operands of several scales");
  if (main->activationType() != wire::FusedActivation::kTfLiteActNone) return d.unsupported("an activation");
  d.finish("Concat", d.inputs(), {{"axis", int64_t{main->axis()}}});
  return ok();
}
MINNOW_DECODE(QuantizedConcat, decode_quantized_concat);

}  // namespace
}  // namespace minnow
