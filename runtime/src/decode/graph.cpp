// Inputs, constants, ops of the generic encoding (engine "minnow"), control flow.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels/core/registrar.h"
#include "runtime/src/backend/custom_ops.h"
#include "runtime/src/decode/decode.h"
#include "runtime/src/lower/lowering.h"
#include "runtime/src/run/limits.h"

namespace minnow {
namespace {

Status decode_input(Decoder& d) {
  const auto* main = d.main<wire::Input>();
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  Format format = main == nullptr ? Format::NC4HW4 : main->dformat();
  // What MNN's converter writes for an input of a subgraph of which it knows nothing.
  const bool unknown = main != nullptr && main->dims() != nullptr && main->dims()->size() == 1 &&
                       main->dims()->Get(0) == 1 && format == Format::NC4HW4;
  if (unknown && !d.file().is_ours && &d.graph() != &d.model().main) {
    const wire::NetSource source = d.net().sourceType();
    const bool last = source == wire::NetSource::TENSORFLOW || source == wire::NetSource::TFLITE;
    format = last ? Format::NHWC : Format::NCHW;
  }
  d.set_format(d.out(0), format);
  return ok();  // which of them are inputs of the graph, and of which type, is read elsewhere
}
MINNOW_DECODE(Input, decode_input);

Status decode_const(Decoder& d) {
  const auto* main = d.main<wire::Blob>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_outputs(1));
  std::shared_ptr<Constant> constant;
  MINNOW_RETURN_IF_ERROR(decode_blob(d, *main, &constant, d.graph().values[static_cast<size_t>(d.out(0))].name));
  d.set_constant(d.out(0), std::move(constant));
  d.set_format(d.out(0), main->dataFormat());
  return ok();
}
MINNOW_DECODE(Const, decode_const);
MINNOW_DECODE(TrainableParam, decode_const);

Status decode_identity(Decoder& d) {
  MINNOW_RETURN_IF_ERROR(d.need_inputs(d.num_outputs()));
  for (int i = 0; i < d.num_outputs(); ++i) {
    d.set_format(d.out(i), d.format(d.in(i)));
    d.add_node("Identity", {d.in(i)}, {d.out(i)}, Attrs());
  }
  return ok();
}
MINNOW_DECODE(Identity, decode_identity);

// --- the generic encoding

Status read_attribute(const wire::Attribute& a, Attr* out) {
  const wire::DataType type = a.type();
  if (const wire::ListValue* list = a.list(); list != nullptr) {
    if (type == wire::DataType::DT_INT32) {
      *out = to_ints(list->i());
    } else if (type == wire::DataType::DT_FLOAT) {
      *out = list->f() == nullptr ? std::vector<double>() : std::vector<double>(list->f()->begin(), list->f()->end());
    } else if (type == wire::DataType::DT_STRING) {
      std::vector<std::string> strings;
      if (list->s() != nullptr)
        for (const auto* s : *list->s()) strings.push_back(s->str());
      *out = std::move(strings);
    } else {
      return fail(Code::kUnsupported, "a list of type %d", static_cast<int>(type));
    }
    return ok();
  }
  const std::string text = a.s() == nullptr ? "" : a.s()->str();
  switch (type) {
    case wire::DataType::DT_INT32:
      *out = int64_t{a.i()};
      return ok();
    case wire::DataType::DT_INT64: {
      char* end = nullptr;
      const long long value = std::strtoll(text.c_str(), &end, 10);
      if (text.empty() || *end != '\0') return fail(Code::kFormat, "'%s' is not a number", text.c_str());
      *out = static_cast<int64_t>(value);
      return ok();
    }
    case wire::DataType::DT_FLOAT:
      *out = static_cast<double>(a.f());
      return ok();
    case wire::DataType::DT_BOOL:
      *out = a.b();
      return ok();
    case wire::DataType::DT_STRING:
      *out = text;
      return ok();
    case wire::DataType::DT_VARIANT: {
      DType dtype = DType::kF32;
      if (!text.empty()) {
        if (!dtype_of_name(text, &dtype)) return fail(Code::kFormat, "there is no type '%s'", text.c_str());
        *out = dtype;
        return ok();
      }
      MINNOW_RETURN_IF_ERROR(to_dtype(static_cast<wire::DataType>(a.i()), &dtype));
      *out = dtype;
      return ok();
    }
    default:
      return fail(Code::kUnsupported, "a value of type %d", static_cast<int>(type));
  }
}

// --- control flow

// The nodes of its body take its place: which of them are fused is decided when shapes are known.
Status decode_fused(Decoder& d, const wire::Extra& main) {
  const flatbuffers::String* name = nullptr;
  if (main.attr() != nullptr && main.attr()->size() == 1) name = main.attr()->Get(0)->s();
  int index = -1;
  MINNOW_RETURN_IF_ERROR(find_graph(d, name, &index));
  const Graph& body = d.model().graphs[static_cast<size_t>(index)];
  const auto inputs = static_cast<int>(body.inputs.size()), outputs = static_cast<int>(body.outputs.size());
  d.graph().depth = std::max(d.graph().depth, body.depth);
  MINNOW_RETURN_IF_ERROR(d.count_copies(static_cast<int64_t>(body.values.size())));
  for (const Node& node : body.nodes)
    MINNOW_RETURN_IF_ERROR(
        d.count_copies(static_cast<int64_t>(1 + node.attrs.size() + node.in.size() + node.out.size())));
  MINNOW_RETURN_IF_ERROR(d.need_inputs(inputs));
  if (d.num_inputs() != inputs || d.num_outputs() != outputs)
    return fail(Code::kFormat, "its %d inputs and %d outputs do not fit the %d and %d of its body", d.num_inputs(),
                d.num_outputs(), inputs, outputs);
  std::vector<int> here(body.values.size(), -1);  // by value of the body
  const auto place = [&](int v) -> int& { return here[static_cast<size_t>(v)]; };
  for (int i = 0; i < inputs; ++i) place(body.inputs[static_cast<size_t>(i)]) = d.in(i);
  for (size_t v = 0; v < here.size(); ++v)
    if (body.values[v].constant != nullptr) here[v] = d.add_constant(body.values[v].constant);
  for (int i = 0; i < outputs; ++i)
    if (int& v = place(body.outputs[static_cast<size_t>(i)]); v < 0) v = d.out(i);
  for (int& v : here)
    if (v < 0) v = d.new_value();
  const auto map = [&](std::vector<int>* values) {
    for (int& v : *values)
      if (v >= 0) v = place(v);
  };
  for (Node node : body.nodes) {
    map(&node.in);
    map(&node.out);
    d.graph().nodes.push_back(std::move(node));
  }
  for (int i = 0; i < outputs; ++i)
    if (const int v = place(body.outputs[static_cast<size_t>(i)]); v != d.out(i))
      d.add_node("Identity", {v}, {d.out(i)}, Attrs());
  return ok();
}

Status decode_extra(Decoder& d) {
  const auto* main = d.main<wire::Extra>();
  if (main == nullptr || main->type() == nullptr || main->engine() == nullptr) return d.missing_parameters();
  if (main->engine()->str() != "minnow") return d.unsupported("an op of the engine '" + main->engine()->str() + "'");
  const std::string type = main->type()->str();
  if (type == "Fused") return decode_fused(d, *main);
  // Names with a point are those of the file's own forms, which are checked where they are decoded.
  const bool lowered = type.find('.') == std::string::npos && find_lowering(type) != nullptr;
  const bool known = find_op(type) != nullptr || lowered;
  bool custom = false;
  if constexpr (is_kept("Custom")) {
    if (!known) MINNOW_RETURN_IF_ERROR(find_custom_op(type, &custom));
  }
  if (!known && !custom) return d.unsupported(MINNOW_THIS_BUILD " has no kernel for it");
  Attrs attrs;
  if (main->attr() != nullptr) {
    for (const wire::Attribute* a : *main->attr()) {
      Attr value;
      MINNOW_RETURN_IF_ERROR(read_attribute(*a, &value).at("attribute '" + a->key()->str() + "'"));
      attrs.set(a->key()->str(), std::move(value));
    }
  }
  if (custom) attrs.set(kCustomOp, type);
  d.finish(custom ? "Custom" : type.c_str(), d.inputs(), std::move(attrs));
  return ok();
}
MINNOW_DECODE(Extra, decode_extra);

// The place of a value among the outputs of a graph, which it becomes if it is none yet.
Status output_number(Graph& graph, int value, int* number) {
  const auto it = std::find(graph.outputs.begin(), graph.outputs.end(), value);
  *number = static_cast<int>(it - graph.outputs.begin());
  if (it != graph.outputs.end()) return ok();
  if (graph.is_closed)
    return fail(Code::kFormat, "the subgraph '%s' is the body of a loop, and '%s' is none of its outputs",
                graph.name.c_str(), graph.values[static_cast<size_t>(value)].name.c_str());
  graph.outputs.push_back(value);
  return ok();
}

Status decode_if(Decoder& d) {
  const auto* main = d.main<wire::IfParam>();
  if (main == nullptr) return d.missing_parameters();
  MINNOW_RETURN_IF_ERROR(d.need_inputs(d.num_inputs()));
  MINNOW_RETURN_IF_ERROR(d.need_inputs(1));
  std::vector<Call> calls(2);
  for (flatbuffers::uoffset_t k = 0; k < 2; ++k) {
    Call& call = calls[k];
    MINNOW_RETURN_IF_ERROR(find_graph(d, k == 0 ? main->then_graph() : main->else_graph(), &call.graph));
    Graph& graph = d.model().graphs[static_cast<size_t>(call.graph)];
    MINNOW_RETURN_IF_ERROR(add_call(d, graph));
    std::map<std::string, int> fed;  // which input of the node
    if (main->aliases_inputs() != nullptr) {
      for (flatbuffers::uoffset_t i = 0; i < main->aliases_inputs()->size() && static_cast<int>(i) < d.num_inputs();
           ++i) {
        const auto* names = main->aliases_inputs()->Get(i)->data();
        if (names == nullptr) continue;
        for (const auto* name : *names) fed[name->str()] = static_cast<int>(i);
      }
    }
    for (int v : graph.inputs) {
      const std::string& name = graph.values[static_cast<size_t>(v)].name;
      const auto it = fed.find(name);
      if (it == fed.end()) return fail(Code::kFormat, "nothing feeds the input '%s' of its subgraph", name.c_str());
      call.inputs.push_back(it->second);
    }
    const std::map<std::string, int>& made = d.made_by_name(call.graph);
    for (int i = 0; i < d.num_outputs(); ++i) {
      const auto* rows = main->aliases_outputs();
      const auto* names = rows == nullptr || static_cast<int>(rows->size()) <= i
                              ? nullptr
                              : rows->Get(static_cast<flatbuffers::uoffset_t>(i))->data();
      const auto* name = names == nullptr || names->size() != 2 ? nullptr : names->Get(k);
      const auto it = name == nullptr ? made.end() : made.find(name->str());
      if (it == made.end()) return fail(Code::kFormat, "its output %d is tied to nothing", i);
      call.outputs.emplace_back();
      MINNOW_RETURN_IF_ERROR(output_number(graph, it->second, &call.outputs.back()));
    }
  }
  d.finish("If", d.inputs()).calls = std::move(calls);
  return ok();
}
MINNOW_DECODE(If, decode_if);

Status decode_while(Decoder& d) {
  if (const auto* loop = d.main<wire::LoopParam>(); loop != nullptr) return decode_static_loop(d, *loop);
  const auto* main = d.main<wire::WhileParam>();
  if (main == nullptr) return d.missing_parameters();
  if (main->cond_graph() != nullptr && main->cond_graph()->size() > 0) return decode_conditional_loop(d, *main);
  MINNOW_RETURN_IF_ERROR(d.need_inputs(d.num_inputs()));
  std::vector<Call> calls(1);
  MINNOW_RETURN_IF_ERROR(find_graph(d, main->body_graph(), &calls[0].graph));
  Graph& body = d.model().graphs[static_cast<size_t>(calls[0].graph)];
  MINNOW_RETURN_IF_ERROR(add_call(d, body));
  const int states = d.num_inputs() - 2;
  if (states < 0 || static_cast<int>(body.inputs.size()) != states + 2 ||
      static_cast<int>(body.outputs.size()) != 1 + d.num_outputs() || d.num_outputs() < states)
    return fail(Code::kFormat, "its %d inputs and %d outputs do not fit the %zu and %zu of its body", d.num_inputs(),
                d.num_outputs(), body.inputs.size(), body.outputs.size());
  body.is_closed = true;
  d.finish("Loop", d.inputs()).calls = std::move(calls);
  return ok();
}
MINNOW_DECODE(While, decode_while);

}  // namespace

Status find_graph(const Decoder& d, const flatbuffers::String* name, int* index) {
  if (name == nullptr) return fail(Code::kFormat, "the name of a subgraph is missing");
  const auto it = d.file().graph_by_name.find(name->str());
  // Subgraphs are decoded in the order of the file, each after those it calls: so there is no recursion.
  if (it == d.file().graph_by_name.end())
    return fail(Code::kFormat, "there is no subgraph '%s' before it", name->c_str());
  *index = it->second;
  return ok();
}

// The graph that is decoded calls that one.
Status add_call(Decoder& d, const Graph& callee) {
  d.graph().depth = std::max(d.graph().depth, callee.depth + 1);
  if (d.graph().depth <= kMostNesting) return ok();
  return fail(Code::kUnsupported, "its subgraphs call each other in more than %d levels", kMostNesting);
}

Status decode_blob(Decoder& d, const wire::Blob& blob, std::shared_ptr<Constant>* out, const std::string& tensor) {
  TensorType type;
  MINNOW_RETURN_IF_ERROR(to_dtype(blob.dataType(), &type.dtype));
  if (blob.dims() != nullptr) {
    if (blob.dims()->size() > kMaxRank)
      return fail(Code::kUnsupported, "%u dims, more than %d", blob.dims()->size(), kMaxRank);
    for (int32_t dim : *blob.dims()) {
      if (dim < 0) return fail(Code::kFormat, "a constant has the size %d", dim);
      if (dim > 0 && type.count() > (int64_t{1} << 42) / dim) return fail(Code::kFormat, "a constant is too large");
      type.shape.push_back(dim);
    }
  }
  const char* data = nullptr;
  int64_t bytes = 0;
  const auto take = [&](const auto* values, int64_t size) {
    if (values == nullptr || bytes > 0) return;
    data = reinterpret_cast<const char*>(values->data());
    bytes = static_cast<int64_t>(values->size()) * size;
  };
  switch (type.dtype) {
    case DType::kF32:
      take(blob.float32s(), 4);
      break;
    case DType::kI32:
      take(blob.int32s(), 4);
      break;
    case DType::kI64:
      take(blob.int64s(), 8);
      break;
    case DType::kI8:
      take(blob.int8s(), 1);
      break;
    default:
      break;
  }
  take(blob.uint8s(), 1);
  std::shared_ptr<const MappedFile> file = d.main_file();
  if (bytes == 0 && blob.external() != nullptr && blob.external()->size() > 1)
    MINNOW_RETURN_IF_ERROR(d.external_bytes(*blob.external(), 0, &data, &bytes, &file));
  if (bytes != type.bytes())
    return fail(Code::kFormat, "a constant %s of shape %s has %lld bytes, not %lld", dtype_name(type.dtype),
                type.shape.str().c_str(), static_cast<long long>(bytes), static_cast<long long>(type.bytes()));
  FileBytes source{data, bytes, std::move(file)};
  MINNOW_RETURN_IF_ERROR(d.file().true_type(tensor, type.dtype, &type.dtype));
  const bool exact = d.file().types.count(tensor) != 0;
  const bool half = !exact && (type.dtype == DType::kF16 || type.dtype == DType::kBF16);
  *out =
      half ? constant_of_halves(type.dtype, type.shape, std::move(source)) : constant_of_bytes(type, std::move(source));
  return ok();
}

}  // namespace minnow
