// Arrays of tensors (TensorArray of TensorFlow, sequences of ONNX): what such an op calls the flow is a sequence. The
// handle, its first input, only names the array.
#include "runtime/src/decode/decode.h"

namespace minnow {
namespace {

// The type of the elements, which nothing else in the file tells.
Status read_element(const Decoder& d, DType* dtype) {
  const auto* main = d.main<wire::TensorArray>();
  return to_dtype(main == nullptr ? wire::DataType::DT_FLOAT : main->T(), dtype);
}

Status decode_array(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(2));
  DType dtype = DType::kF32;
  MINNOW_RETURN_IF_ERROR(read_element(d, &dtype));
  d.add_node("mnn.Array", {d.in(0)}, {d.out(1)}, make_attrs({{"dtype", dtype}}));
  d.add_node("Identity", {d.out(1)}, {d.out(0)}, Attrs());
  return ok();
}
MINNOW_DECODE(TensorArray, decode_array);

Status decode_array_size(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(2));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  d.finish("SequenceLength", {d.in(1)});
  return ok();
}
MINNOW_DECODE(TensorArraySize, decode_array_size);

Status decode_array_read(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(3));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  DType dtype = DType::kF32;
  MINNOW_RETURN_IF_ERROR(read_element(d, &dtype));
  d.finish("SequenceAt", {d.in(2), d.in(1)}, {{"dtype", dtype}});
  return ok();
}
MINNOW_DECODE(TensorArrayRead, decode_array_read);

Status decode_array_write(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(4));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  d.finish("mnn.ArrayWrite", {d.in(3), d.in(2), d.in(1)});
  return ok();
}
MINNOW_DECODE(TensorArrayWrite, decode_array_write);

Status decode_array_gather(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(3));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  DType dtype = DType::kF32;
  MINNOW_RETURN_IF_ERROR(read_element(d, &dtype));
  const int all = d.add("ConcatFromSequence", {d.in(2)}, {{"axis", int64_t{0}}, {"new_axis", true}, {"dtype", dtype}});
  d.finish("Gather", {all, d.in(1)}, {{"axis", int64_t{0}}});
  return ok();
}
MINNOW_DECODE(TensorArrayGather, decode_array_gather);

Status decode_array_scatter(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(4));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  d.finish("mnn.ArrayScatter", {d.in(3), d.in(2), d.in(1)});
  return ok();
}
MINNOW_DECODE(TensorArrayScatter, decode_array_scatter);

Status decode_array_split(Decoder& d) {
  const auto* main = d.main<wire::TensorArray>();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(4));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  d.finish("mnn.ArraySplit", {d.in(1), d.in(2)},
           {{"axis", int64_t{main == nullptr ? 0 : main->axis()}}, {"keepdims", main == nullptr || main->keepdims()}});
  return ok();
}
MINNOW_DECODE(TensorArraySplit, decode_array_split);

Status decode_array_concat(Decoder& d) {
  const auto* main = d.main<wire::TensorArray>();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(2));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  DType dtype = DType::kF32;
  MINNOW_RETURN_IF_ERROR(read_element(d, &dtype));
  d.finish("ConcatFromSequence", {d.in(1)},
           {{"axis", int64_t{main == nullptr ? 0 : main->axis()}},
            {"new_axis", main != nullptr && main->new_axis()},
            {"dtype", dtype}});
  return ok();
}
MINNOW_DECODE(TensorArrayConcat, decode_array_concat);

Status decode_array_insert(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(4));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  d.finish("SequenceInsert", {d.in(3), d.in(2), d.in(1)});
  return ok();
}
MINNOW_DECODE(TensorArrayInsert, decode_array_insert);

Status decode_array_erase(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(3));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  d.finish("SequenceErase", {d.in(2), d.in(1)});
  return ok();
}
MINNOW_DECODE(TensorArrayErase, decode_array_erase);

}  // namespace
}  // namespace minnow
