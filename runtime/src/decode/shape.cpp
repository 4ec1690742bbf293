// Shapes, and movement of data.
#include <algorithm>
#include <limits>

#include "runtime/src/decode/decode.h"

namespace minnow {
namespace {

Status decode_reshape(Decoder& d) {
  const auto* main = d.main<wire::Reshape>();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  int shape = d.in(1);
  if (!d.has(1)) {
    if (main == nullptr) return d.missing_parameters();
    MINNOW_RETURN_IF_ERROR(d.ints(to_ints(main->dims()), &shape));
  }
  // In shapes that TensorFlow wrote, 0 is a size (not "as in the input").
  const bool allowzero = d.has(1) && d.constant(1) != nullptr && d.format(d.in(1)) == Format::NHWC;
  const bool turned = main != nullptr && main->dimType() == Format::NHWC && d.format(d.in(0)) == Format::NC4HW4;
  if (turned) {
    d.finish("mnn.ReshapeNHWC", {d.in(0), shape}, {{"allowzero", allowzero}});
  } else {
    d.finish("Reshape", {d.in(0), shape}, {{"allowzero", allowzero}});
  }
  return ok();
}
MINNOW_DECODE(Reshape, decode_reshape);

Status decode_flatten(Decoder& d) {
  const auto* main = d.main<wire::Flatten>();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  const int64_t axis = main == nullptr ? 0 : main->axis(), end = main == nullptr ? 0 : main->endAxis();
  if (end == 0) {
    d.finish("Flatten", {d.in(0)}, {{"axis", axis}});
  } else {
    d.finish("mnn.Flatten", {d.in(0)}, {{"axis", axis}, {"end", end}});
  }
  return ok();
}
MINNOW_DECODE(Flatten, decode_flatten);

void turn_bytes(const uint8_t* from, int64_t rows, int64_t columns, uint8_t* to) {
  constexpr int64_t kSide = 64;
  for (int64_t r = 0; r < rows; r += kSide)
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t i = r; i < std::min(rows, r + kSide); ++i) to[c * rows + i] = from[i * columns + c];
}

// A matrix of bytes in the file on its side, which is how the weights of a product lie that both graphs of a file have.
std::shared_ptr<Constant> turned_bytes(const std::shared_ptr<Constant>& source) {
  const TensorType& type = source->type();
  if (source->is_lazy() || type.shape.rank() != 2 || dtype_size(type.dtype) != 1) return nullptr;
  const int64_t rows = type.shape[0], columns = type.shape[1];
  const auto decode = [source, rows, columns](void* to) {
    std::shared_ptr<const Tensor> tensor;
    if (source->acquire(&tensor).ok()) turn_bytes(tensor->as<uint8_t>(), rows, columns, static_cast<uint8_t*>(to));
    source->release();
  };
  return Constant::decoded({type.dtype, Layout::kPlain, {columns, rows}}, decode, {});
}

Status decode_permute(Decoder& d) {
  const auto* main = d.main<wire::Permute>();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  std::vector<int64_t> perm = main == nullptr ? std::vector<int64_t>() : to_ints(main->dims());
  const auto value = [&](int i) -> Value& { return d.graph().values[static_cast<size_t>(i)]; };
  if (d.constant(0) != nullptr && d.num_outputs() == 1 && perm == std::vector<int64_t>{1, 0}) {
    if (auto turned = turned_bytes(value(d.in(0)).constant)) {
      value(d.out(0)).constant = std::move(turned);  // its bytes have been counted
      return ok();
    }
  }
  d.finish("mnn.Permute", {d.in(0)}, {{"perm", std::move(perm)}});
  return ok();
}
MINNOW_DECODE(Permute, decode_permute);

Status decode_transpose(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  d.finish("mnn.Permute", {d.in(0), d.in(1)});
  return ok();
}
MINNOW_DECODE(Transpose, decode_transpose);

Status decode_convert(Decoder& d) {
  const auto* main = d.main<wire::TensorConvertInfo>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  const Format to = main->dest();
  if (to > Format::NC4HW4) return d.unsupported("this layout");
  const Format from = d.format(d.in(0));
  d.set_format(d.out(0), to);
  if ((from == Format::NHWC) == (to == Format::NHWC)) {
    d.finish("Identity", {d.in(0)});
  } else {
    const char* turn = to == Format::NHWC ? "channels_last" : "channels_first";
    d.finish("mnn.Transpose", {d.in(0)}, {{"to", std::string(turn)}});
  }
  return ok();
}
MINNOW_DECODE(ConvertTensor, decode_convert);

Status decode_concat(Decoder& d) {
  const auto* main = d.main<wire::Axis>();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(std::max(1, d.num_inputs())));
  d.finish(d.file().is_ours ? "Concat" : "mnn.Concat", d.inputs(),
           {{"axis", int64_t{main == nullptr ? 0 : main->axis()}}});
  return ok();
}
MINNOW_DECODE(Concat, decode_concat);

Status decode_pack(Decoder& d) {
  const auto* main = d.main<wire::PackParam>();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(std::max(1, d.num_inputs())));
  const int64_t axis = main == nullptr ? 0 : main->axis();
  std::vector<int> parts;
  for (int v : d.inputs()) parts.push_back(d.add("Unsqueeze", {v}, {{"axes", std::vector<int64_t>{axis}}}));
  d.finish("Concat", std::move(parts), {{"axis", axis}});
  return ok();
}
MINNOW_DECODE(Pack, decode_pack);

Status decode_unpack(Decoder& d) {
  const auto* main = d.main<wire::Axis>();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  d.finish("mnn.Unpack", {d.in(0)}, {{"axis", int64_t{main == nullptr ? 0 : main->axis()}}});
  return ok();
}
MINNOW_DECODE(Unpack, decode_unpack);

Status decode_slice(Decoder& d) {
  const auto* main = d.main<wire::Slice>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  std::vector<int> inputs = {d.in(0)};
  if (d.has(1)) inputs.push_back(d.in(1));
  d.finish("mnn.Split", inputs,
           {{"axis", int64_t{main->axis()}},
            {"points", to_ints(main->slicePoints())},
            {"source", int64_t{static_cast<int>(main->sourceType())}}});
  return ok();
}
MINNOW_DECODE(Slice, decode_slice);

Status decode_slice_tf(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(3));
  d.finish("mnn.SliceTf", {d.in(0), d.in(1), d.in(2)});
  return ok();
}
MINNOW_DECODE(SliceTf, decode_slice_tf);

Status decode_strided_slice(Decoder& d) {
  const auto* main = d.main<wire::StridedSliceParam>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(3));
  if (main->fromType() == 1) {
    d.finish("Slice", d.inputs());
    return ok();
  }
  if (d.has(4)) return d.unsupported("the form that writes into its input");
  d.finish("mnn.StridedSlice", {d.in(0), d.in(1), d.in(2), d.in(3)},
           {{"begin", int64_t{main->beginMask()}},
            {"end", int64_t{main->endMask()}},
            {"ellipsis", int64_t{main->ellipsisMask()}},
            {"new_axis", int64_t{main->newAxisMask()}},
            {"shrink", int64_t{main->shrinkAxisMask()}}});
  return ok();
}
MINNOW_DECODE(StridedSlice, decode_strided_slice);

Status decode_pad(Decoder& d) {
  const auto* main = d.main<wire::PadParam>();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(2));
  if (main != nullptr && main->mode() == wire::PadValueMode::SYMMETRIC) {
    d.finish("mnn.PadSymmetric", {d.in(0), d.in(1)});
    return ok();
  }
  static constexpr const char* kModes[] = {"constant", "reflect", nullptr, "edge"};
  const auto mode = main == nullptr ? size_t{0} : static_cast<size_t>(main->mode());
  if (mode >= std::size(kModes) || kModes[mode] == nullptr) return d.unsupported("this mode");
  d.finish("mnn.Pad", {d.in(0), d.in(1), d.in(2)}, {{"mode", std::string(kModes[mode])}});
  return ok();
}
MINNOW_DECODE(Padding, decode_pad);

// Ops with the same operands as ours, and no parameters.
struct SameRow {
  wire::OpType type;
  const char* op;
  int inputs;
};
// op list: codes of the file, read nowhere else
constexpr SameRow kSame[] = {
    {wire::OpType::Tile, "Tile", 2}, {wire::OpType::BroadcastTo, "Expand", 2},
    {wire::OpType::Fill, "Fill", 2}, {wire::OpType::Range, "mnn.Range", 3},
    {wire::OpType::Size, "Size", 1}, {wire::OpType::Rank, "mnn.Rank", 1},
    {wire::OpType::Det, "Det", 1},   {wire::OpType::Where, "mnn.ArgWhere", 1},
};

Status decode_same(Decoder& d) {
  for (const SameRow& row : kSame) {
    if (row.type != d.op().type()) continue;
    MINNOW_RETURN_IF_ERROR(d.need_inputs(row.inputs));
    const auto* axis = d.op().type() == wire::OpType::BroadcastTo ? d.main<wire::Axis>() : nullptr;
    if (axis != nullptr && axis->axis() == 1) {
      d.finish("mnn.BroadcastFirst", {d.in(0), d.in(1)});
      return ok();
    }
    std::vector<int> inputs = d.inputs();
    inputs.resize(static_cast<size_t>(row.inputs));
    d.finish(row.op, inputs);
  }
  return ok();
}
MINNOW_DECODE(Tile, decode_same);
MINNOW_DECODE(BroadcastTo, decode_same);
MINNOW_DECODE(Fill, decode_same);
MINNOW_DECODE(Range, decode_same);
MINNOW_DECODE(Size, decode_same);
MINNOW_DECODE(Rank, decode_same);
MINNOW_DECODE(Det, decode_same);
MINNOW_DECODE(Where, decode_same);

Status decode_shape(Decoder& d) {
  const auto* main = d.main<wire::ShapeParam>();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  int x = d.in(0);
  // The shape as seen by a program that has all images in NHWC.
  if (d.op().defaultDimentionFormat() == Format::NHWC && d.format(x) == Format::NC4HW4)
    x = d.add("mnn.Transpose", {x}, {{"to", std::string("channels_last")}});
  Attrs attrs;
  if (main != nullptr && main->hasStart()) attrs.set("start", int64_t{main->start()});
  if (main != nullptr && main->hasEnd()) attrs.set("end", int64_t{main->end()});
  d.finish("Shape", {x}, std::move(attrs));
  d.set_format(d.out(0), Format::NCHW);
  return ok();
}
MINNOW_DECODE(Shape, decode_shape);

Status decode_one_hot(Decoder& d) {
  const auto* main = d.main<wire::OneHotParam>();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(4));
  int one = -1;
  MINNOW_RETURN_IF_ERROR(d.ints({1}, &one));
  const int off = d.add("Reshape", {d.in(3), one}), on = d.add("Reshape", {d.in(2), one});
  const int values = d.add("Concat", {off, on}, {{"axis", int64_t{0}}});
  // Our op counts indices below 0 from the end; TensorFlow finds nothing there.
  int indices = d.in(0);
  const wire::NetSource source = d.net().sourceType();
  if (!d.file().is_ours && (source == wire::NetSource::TENSORFLOW || source == wire::NetSource::TFLITE)) {
    const int zero = d.add("mnn.ZerosLike", {indices}), depth = d.add("mnn.CastLike", {d.in(1), indices});
    indices = d.add("Where", {d.add("Less", {indices, zero}), depth, indices});
  }
  d.finish("OneHot", {indices, d.in(1), values}, {{"axis", int64_t{main == nullptr ? -1 : main->axis()}}});
  return ok();
}
MINNOW_DECODE(OneHot, decode_one_hot);

Status decode_depth_space(Decoder& d) {
  const auto* main = d.main<wire::DepthSpaceParam>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  const bool to_space = d.op().type() == wire::OpType::DepthToSpace;
  const bool crd = main->mode() == wire::DepthToSpaceMode::CRD;
  if (!to_space && crd) return d.unsupported("the mode CRD");
  const bool last = d.format(d.in(0)) == Format::NHWC;
  Attrs attrs = make_attrs({{"blocksize", int64_t{main->blockSize()}}});
  if (to_space) attrs.set("mode", std::string(crd ? "CRD" : "DCR"));
  const char* op = to_space ? "DepthToSpace" : "SpaceToDepth";
  if (!last) {
    d.finish(op, {d.in(0)}, std::move(attrs));
    return ok();
  }
  const int result = d.new_value();
  d.add_node(op, {d.channels_first(d.in(0))}, {result}, std::move(attrs));
  d.finish("mnn.Transpose", {result}, {{"to", std::string("channels_last")}});
  return ok();
}
MINNOW_DECODE(DepthToSpace, decode_depth_space);
MINNOW_DECODE(SpaceToDepth, decode_depth_space);

Status decode_space_batch(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  const auto* main = d.main<wire::SpaceBatch>();
  std::vector<int> inputs = {d.in(0), d.in(1), d.in(2)};
  if (main != nullptr && main->blockShape() != nullptr && main->padding() != nullptr) {
    std::shared_ptr<Constant> block, padding;
    MINNOW_RETURN_IF_ERROR(decode_blob(d, *main->blockShape(), &block));
    MINNOW_RETURN_IF_ERROR(decode_blob(d, *main->padding(), &padding));
    inputs = {d.in(0), d.add_constant(std::move(block)), d.add_constant(std::move(padding))};
  }
  if (inputs[1] < 0 || inputs[2] < 0) return fail(Code::kFormat, "block sizes or paddings are missing");
  const bool to_batch = d.op().type() == wire::OpType::SpaceToBatchND;
  d.finish(to_batch ? "mnn.SpaceToBatch" : "mnn.BatchToSpace", inputs,
           {{"first", int64_t{d.format(d.in(0)) == Format::NHWC ? 1 : 2}}});
  return ok();
}
MINNOW_DECODE(SpaceToBatchND, decode_space_batch);
MINNOW_DECODE(BatchToSpaceND, decode_space_batch);

Status decode_reverse_sequence(Decoder& d) {
  const auto* main = d.main<wire::ReverseSequenceParam>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(2));
  d.finish("ReverseSequence", {d.in(0), d.in(1)},
           {{"batch_axis", int64_t{main->batchDim()}}, {"time_axis", int64_t{main->seqDim()}}});
  return ok();
}
MINNOW_DECODE(ReverseSequence, decode_reverse_sequence);

}  // namespace
}  // namespace minnow
