// Reductions, running sums, order, softmax.
#include "runtime/src/decode/decode.h"
#include "runtime/src/decode/weights.h"

namespace minnow {
namespace {

// An operand of integers that our op has as an attribute: set now when the operand is a constant, else when its
// contents are known. `axes` is a list, `axis` one number.
void finish_with_ints(Decoder& d, const char* op, std::vector<int> inputs, Attrs attrs, int operand, const char* attr) {
  std::vector<int64_t> values;
  const bool list = std::string(attr) == "axes";
  if (d.constant_ints(operand, &values) && (list || values.size() == 1)) {
    if (list)
      attrs.set(attr, values);
    else
      attrs.set(attr, values[0]);
    d.finish(op, inputs, std::move(attrs));
    return;
  }
  attrs.set("mnn.op", std::string(op));
  attrs.set("mnn.attr", std::string(attr));
  inputs.push_back(d.in(operand));
  d.finish("mnn.WithInts", inputs, std::move(attrs));
}

Status decode_reduction(Decoder& d) {
  const auto* main = d.main<wire::ReductionParam>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  // op list: codes of the file, read nowhere else
  static constexpr const char* kNames[] = {"ReduceSum", "ReduceL1",   "ReduceSumSquare", "ReduceMean", "ReduceMax",
                                           "ReduceMin", "ReduceProd", "ReduceMax",       "ReduceMin"};
  const auto kind = static_cast<size_t>(main->operation());
  if (kind >= std::size(kNames)) return d.unsupported("operation " + std::to_string(kind));
  Attrs attrs = make_attrs({{"keepdims", main->keepDims()}});
  if (main->dim() != nullptr && main->dim()->size() > 0) {
    attrs.set("axes", to_ints(main->dim()));
  } else if (d.has(1)) {
    finish_with_ints(d, kNames[kind], {d.in(0)}, std::move(attrs), 1, "axes");
    return ok();
  }
  if (d.has_fixed_shapes() && attrs.has("axes") && !d.file().is_ours) {
    // The axes are those of steps in between, and so is whether they stay.
    std::vector<int64_t> shape;
    MINNOW_RETURN_IF_ERROR(static_shape(d, d.out(0), &shape));
    int dims = -1;
    MINNOW_RETURN_IF_ERROR(d.ints(shape, &dims));
    attrs.set("keepdims", true);
    const int result = d.new_value();
    d.add_node(kNames[kind], {d.in(0)}, {result}, std::move(attrs));
    d.finish("Reshape", {result, dims}, {{"allowzero", true}});
  } else if (d.net().sourceType() == wire::NetSource::CAFFE && !d.file().is_ours && attrs.has("axes")) {
    attrs.set("op", std::string(kNames[kind]));  // all axes of four, of which there may be fewer
    d.finish("mnn.ReduceThese", {d.in(0)}, std::move(attrs));
  } else {
    d.finish(kNames[kind], {d.in(0)}, std::move(attrs));
  }
  return ok();
}
MINNOW_DECODE(Reduction, decode_reduction);

Status decode_arg(Decoder& d) {
  const auto* main = d.main<wire::ArgMax>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  if (main->outMaxVal() != 0 || main->topK() > 1 || main->axis() == 10000)
    return d.unsupported("the form that gives values, or more than one");
  const bool max = d.op().type() == wire::OpType::ArgMax;
  d.finish(max ? "ArgMax" : "ArgMin", {d.in(0)}, {{"axis", int64_t{main->axis()}}, {"keepdims", false}});
  return ok();
}
MINNOW_DECODE(ArgMax, decode_arg);
MINNOW_DECODE(ArgMin, decode_arg);

Status decode_top_k(Decoder& d) {
  const auto* main = d.main<wire::TopKV2>();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(2));
  Attrs attrs = make_attrs({{"largest", main == nullptr || main->largest()}, {"sorted", true}});
  if (d.has(2)) {
    finish_with_ints(d, "TopK", {d.in(0), d.in(1)}, std::move(attrs), 2, "axis");
  } else {
    d.finish("TopK", {d.in(0), d.in(1)}, std::move(attrs));
  }
  return ok();
}
MINNOW_DECODE(TopKV2, decode_top_k);

Status decode_running(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  const bool sum = d.op().type() == wire::OpType::CumSum;
  const auto* main = d.main<wire::CumSum>();
  const auto* axis = d.main<wire::Axis>();
  Attrs attrs = make_attrs(
      {{"exclusive", main != nullptr && main->exclusive()}, {"reverse", main != nullptr && main->reverse()}});
  int at = d.in(1);
  if (!d.has(1)) MINNOW_RETURN_IF_ERROR(d.ints({axis == nullptr ? 0 : axis->axis()}, &at));
  d.finish(sum ? "CumSum" : "CumProd", {d.in(0), at}, std::move(attrs));
  return ok();
}
MINNOW_DECODE(CumSum, decode_running);
MINNOW_DECODE(CumProd, decode_running);

Status decode_softmax(Decoder& d) {
  const auto* main = d.main<wire::Axis>();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  d.finish("Softmax", {d.in(0)}, {{"axis", int64_t{main == nullptr ? 0 : main->axis()}}});
  return ok();
}
MINNOW_DECODE(Softmax, decode_softmax);

Status decode_squeeze(Decoder& d) {
  const auto* main = d.main<wire::SqueezeParam>();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  const bool add = d.op().type() != wire::OpType::Squeeze;
  const char* op = add ? "Unsqueeze" : "Squeeze";
  const auto* expand = d.main<wire::ExpandDims>();
  std::vector<int64_t> axes = main == nullptr ? std::vector<int64_t>() : to_ints(main->squeezeDims());
  if (axes.empty() && d.has(1)) {
    finish_with_ints(d, op, {d.in(0)}, Attrs(), 1, "axes");
    return ok();
  }
  if (axes.empty() && d.op().type() == wire::OpType::ExpandDims) axes = {expand == nullptr ? 0 : expand->axis()};
  if (axes.empty() && add) {
    d.finish("Identity", {d.in(0)});
  } else if (axes.empty()) {
    d.finish(op, {d.in(0)});
  } else {
    d.finish(op, {d.in(0)}, {{"axes", axes}});
  }
  return ok();
}
MINNOW_DECODE(Squeeze, decode_squeeze);
MINNOW_DECODE(Unsqueeze, decode_squeeze);
MINNOW_DECODE(ExpandDims, decode_squeeze);

Status decode_reverse(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(2));
  finish_with_ints(d, "Reverse", {d.in(0)}, Attrs(), 1, "axes");
  return ok();
}
MINNOW_DECODE(Reverse, decode_reverse);

// Rows of a table that is compressed as the weights of a product are: the same ones, where a file has both.
Status decode_table(Decoder& d, const wire::Convolution2D& main) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  if (main.common() == nullptr || main.quanParameter() == nullptr) return d.missing_parameters();
  const int64_t rows = main.common()->outputCount(), columns = main.common()->inputCount();
  if (rows < 1 || columns < 1)
    return fail(Code::kFormat, "its table has %lld rows of %lld numbers", static_cast<long long>(rows),
                static_cast<long long>(columns));
  std::shared_ptr<Constant> table;
  MINNOW_RETURN_IF_ERROR(decode_quantized(d, *main.quanParameter(), main.external(), Shape{rows, columns}, &table));
  d.finish("Gather", {d.add_constant(std::move(table)), d.in(0)}, {{"axis", int64_t{0}}});
  return ok();
}

Status decode_gather(Decoder& d) {
  if (kHasPackedWeights)
    if (const auto* main = d.main<wire::Convolution2D>(); main != nullptr) return decode_table(d, *main);
  MINNOW_RETURN_IF_ERROR(d.need_inputs(2));
  const auto* axis = d.main<wire::Axis>();
  const bool elements = d.op().type() == wire::OpType::GatherElements;
  const char* op = elements ? "GatherElements" : "Gather";
  if (d.has(2)) {
    finish_with_ints(d, op, {d.in(0), d.in(1)}, Attrs(), 2, "axis");
  } else {
    // The parameters of the old form have an axis, too: 1 where TensorFlow's op means 0, which MNN takes.
    const int64_t at = axis != nullptr ? axis->axis() : 0;
    d.finish(op, {d.in(0), d.in(1)}, {{"axis", at}});
  }
  return ok();
}
MINNOW_DECODE(GatherV2, decode_gather);
MINNOW_DECODE(Gather, decode_gather);
MINNOW_DECODE(GatherElements, decode_gather);

Status decode_gather_nd(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(2));
  const auto* main = d.main<wire::Axis>();
  if (const int64_t axis = main == nullptr ? 0 : main->axis(); axis != 0) {
    d.finish("mnn.GatherND", {d.in(0), d.in(1)}, {{"axis", axis}});
  } else {
    d.finish("GatherND", {d.in(0), d.in(1)}, {{"batch_dims", int64_t{0}}});
  }
  return ok();
}
MINNOW_DECODE(GatherND, decode_gather_nd);

// How a scatter combines an element with its update; false for an operation that our op does not have.
bool reduction_of(const wire::BinaryOp* main, std::string* reduction) {
  struct Row {
    int code;
    const char* name;
  };
  static constexpr Row kRows[] = {
      {-1, "none"},
      {static_cast<int>(wire::BinaryOpOperation::ADD), "add"},
      {static_cast<int>(wire::BinaryOpOperation::MUL), "mul"},
      {static_cast<int>(wire::BinaryOpOperation::MAXIMUM), "max"},
      {static_cast<int>(wire::BinaryOpOperation::MINIMUM), "min"},
  };
  const int code = main == nullptr ? -1 : static_cast<int>(main->opType());
  for (const Row& row : kRows) {
    if (row.code != code) continue;
    *reduction = row.name;
    return true;
  }
  return false;
}

Status decode_scatter_nd(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(3));
  std::string reduction;
  if (!reduction_of(d.main<wire::BinaryOp>(), &reduction)) return d.unsupported("this reduction");
  // Without data to start from, updates of the same element are summed.
  if (!d.has(3)) reduction = "add";
  const int data = d.has(3) ? d.in(3) : d.add("mnn.Zeros", {d.in(2), d.in(1)});
  d.finish("ScatterND", {data, d.in(0), d.in(1)}, {{"reduction", reduction}});
  return ok();
}
MINNOW_DECODE(ScatterNd, decode_scatter_nd);

Status decode_scatter_elements(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(3));
  std::string reduction;
  if (!reduction_of(d.main<wire::BinaryOp>(), &reduction)) return d.unsupported("this reduction");
  Attrs attrs = make_attrs({{"reduction", reduction}});
  if (d.has(3)) {
    finish_with_ints(d, "ScatterElements", {d.in(0), d.in(1), d.in(2)}, std::move(attrs), 3, "axis");
  } else {
    d.finish("ScatterElements", {d.in(0), d.in(1), d.in(2)}, std::move(attrs));
  }
  return ok();
}
MINNOW_DECODE(ScatterElements, decode_scatter_elements);

}  // namespace
}  // namespace minnow
