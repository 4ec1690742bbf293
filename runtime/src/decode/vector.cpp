// Vectors of numbers: evenly spaced ones, different ones, parts of an index, spectra of windows.
#include "runtime/src/decode/decode.h"

namespace minnow {
namespace {

Status decode_lin_space(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(3));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  d.finish("mnn.LinSpace", {d.in(0), d.in(1), d.in(2)});
  return ok();
}
MINNOW_DECODE(LinSpace, decode_lin_space);

Status decode_unravel_index(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(2));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  d.finish("mnn.UnravelIndex", {d.in(0), d.in(1)});
  return ok();
}
MINNOW_DECODE(UnravelIndex, decode_unravel_index);

// In ascending order. Of TensorFlow's two outputs the second is ONNX's third: for each element its place.
Status decode_unique(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  const int n = d.num_outputs();
  if (n > 4) return fail(Code::kFormat, "it has %d outputs", n);
  std::vector<int> outputs(4, -1);
  for (int i = 0; i < n; ++i) outputs[static_cast<size_t>(n == 2 && i == 1 ? 2 : i)] = d.out(i);
  for (int& v : outputs)
    if (v < 0) v = d.new_value();
  d.add_node("Unique", {d.in(0)}, outputs, make_attrs({{"sorted", true}}));
  return ok();
}
MINNOW_DECODE(Unique, decode_unique);

Status decode_stft(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(3));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  d.finish("STFT", {d.in(0), d.in(1), d.in(2)}, {{"onesided", true}});
  return ok();
}
MINNOW_DECODE(Stft, decode_stft);

// Sums and the like of rows, each of the number that stands beside it.
Status decode_segment(Decoder& d) {
  const auto* main = d.main<wire::ReductionParam>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(2));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  using Type = wire::ReductionType;
  const Type type = main->operation();
  const char* how = type == Type::SUM || type == Type::MEAN ? "add"
                    : type == Type::MAXIMUM                 ? "max"
                    : type == Type::MINIMUM                 ? "min"
                    : type == Type::PROD                    ? "mul"
                                                            : nullptr;
  if (how == nullptr) return d.unsupported("operation " + std::to_string(static_cast<int>(type)));
  d.finish("mnn.Segment", {d.in(0), d.in(1)}, {{"reduction", how}, {"mean", type == Type::MEAN}});
  return ok();
}
MINNOW_DECODE(Segment, decode_segment);

// To 8 bits by the range of x: the numbers, their scale, and the number that stands for 0.
Status decode_dynamic_quant(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(3));
  const int y = d.new_value(), scale = d.new_value(), zero = d.new_value();
  d.add_node("DynamicQuantizeLinear", {d.in(0)}, {y, scale, zero}, Attrs());
  int half = -1, one = -1;  // from unsigned numbers to signed ones
  MINNOW_RETURN_IF_ERROR(d.floats({128}, Shape(), &half));
  MINNOW_RETURN_IF_ERROR(d.ints({1}, &one));
  const auto less = [&](int v) { return d.add("Sub", {d.add("Cast", {v}, {{"to", DType::kF32}}), half}); };
  d.add_node("Cast", {less(y)}, {d.out(0)}, make_attrs({{"to", DType::kI8}}));
  d.add_node("Reshape", {scale, one}, {d.out(1)}, Attrs());
  d.add_node("Reshape", {less(zero), one}, {d.out(2)}, Attrs());
  return ok();
}
MINNOW_DECODE(DynamicQuant, decode_dynamic_quant);

}  // namespace
}  // namespace minnow
