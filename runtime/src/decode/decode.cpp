#include "runtime/src/decode/decode.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "kernels/core/elements.h"
#include "names.h"
#include "runtime/src/run/limits.h"

namespace minnow {

const char* enumerator_name(const char* names, int code) {
  for (; *names != '\0'; names += std::strlen(names) + 1)
    if (std::atoi(names) == code) return std::strchr(names, '=') + 1;
  return "";
}

namespace {

std::map<wire::OpType, DecodeFunction>& decoders() {
  static std::map<wire::OpType, DecodeFunction> rows;
  return rows;
}

std::string type_name(wire::OpType type) {
  const char* name = enumerator_name(wire::kOpTypeNames, static_cast<int>(type));
  return *name != '\0' ? name : "OpType " + std::to_string(static_cast<int>(type));
}

std::string place_of(const wire::Op& op) {
  std::string place = type_name(op.type());
  if (op.type() == wire::OpType::Extra && op.main_as_Extra() != nullptr && op.main_as_Extra()->type() != nullptr)
    place = op.main_as_Extra()->type()->str();
  return op.name() == nullptr || op.name()->size() == 0 ? place : place + " '" + op.name()->str() + "'";
}

std::vector<int> indices(const flatbuffers::Vector<int32_t>* list) {
  return list == nullptr ? std::vector<int>() : std::vector<int>(list->begin(), list->end());
}

// Some files store comments as an op.
bool is_metadata(const wire::Op& op) {
  const wire::Extra* extra = op.main_as_Extra();
  return op.type() == wire::OpType::Extra && extra != nullptr && extra->type() != nullptr &&
         extra->type()->str() == "Meta";
}

}  // namespace

DecodeRegistrar::DecodeRegistrar(wire::OpType type, DecodeFunction function) { decoders().emplace(type, function); }

DecodeFunction find_decoder(wire::OpType type) {
  const auto it = decoders().find(type);
  return it == decoders().end() ? nullptr : it->second;
}

Status DecodeContext::true_type(const std::string& tensor, DType stored, DType* out) const {
  const auto it = types.find(tensor);
  *out = it == types.end() ? stored : it->second;
  const DType twin = is_storage(*out)      ? DType::kU8
                     : *out == DType::kU32 ? DType::kI32
                     : *out == DType::kU64 ? DType::kI64
                                           : *out;
  if (twin == stored) return ok();
  return fail(Code::kFormat, "the tensor '%s' of type %s cannot be one of %s", tensor.c_str(), dtype_name(stored),
              dtype_name(*out));
}

Status check_indices(const Decoder::Ops& ops, size_t tensors) {
  for (const wire::Op* op : ops) {
    for (const auto* indices : {op->inputIndexes(), op->outputIndexes()}) {
      if (indices == nullptr) continue;
      const int least = indices == op->inputIndexes() ? -1 : 0;  // an input may be missing
      for (int32_t v : *indices)
        if (v < least || v >= static_cast<int64_t>(tensors))
          return fail(Code::kFormat, "there is no tensor %d", v).at(place_of(*op));
    }
  }
  return ok();
}

Status Decoder::decode(const Ops& ops, std::vector<std::string>* unsupported) {
  std::vector<bool>& made = made_;
  made.assign(graph_.values.size(), false);
  formats_.resize(graph_.values.size(), Format::NCHW);
  for (const wire::Op* op : ops) {
    op_ = op;
    const std::string place = place_of(*op);
    const std::vector<int> inputs = indices(op->inputIndexes()), outputs = indices(op->outputIndexes());
    const bool has_outputs = !outputs.empty();
    if (!has_outputs && is_metadata(*op)) continue;
    if (!has_outputs) return fail(Code::kFormat, "it has no outputs").at(place);
    for (int v : inputs)
      if (v >= 0 && !made[static_cast<size_t>(v)])
        return fail(Code::kFormat, "tensor %d '%s' is read before any op makes it", v,
                    graph_.values[static_cast<size_t>(v)].name.c_str())
            .at(place);
    for (int v : outputs) {
      if (made[static_cast<size_t>(v)])
        return fail(Code::kFormat, "tensor %d '%s' is made by more than one op", v,
                    graph_.values[static_cast<size_t>(v)].name.c_str())
            .at(place);
      made[static_cast<size_t>(v)] = true;
    }
    in_ = inputs;
    out_ = outputs;
    for (int v : out_) formats_[static_cast<size_t>(v)] = format_of_inputs();
    const Status status = decode_op(*op);
    if (status.code() == Code::kUnsupported) {
      unsupported->push_back(place + (status.message().empty() ? "" : ": " + status.message()));
    } else {
      MINNOW_RETURN_IF_ERROR(status.at(place));
    }
  }
  return ok();
}

const std::map<std::string, int>& Decoder::made_by_name(int index) {
  const auto [it, is_new] = file_.made_by_name.try_emplace(index);
  std::map<std::string, int>& names = it->second;
  if (!is_new) return names;
  const Graph& graph = file_.model->graphs[static_cast<size_t>(index)];
  std::vector<bool> made(graph.values.size());
  const auto add = [&](const std::vector<int>& values) {
    for (int v : values)
      if (v >= 0) made[static_cast<size_t>(v)] = true;
  };
  add(graph.inputs);
  for (const Node& node : graph.nodes) add(node.out);
  for (size_t v = 0; v < made.size(); ++v)
    if (made[v] || graph.values[v].constant != nullptr) names.emplace(graph.values[v].name, static_cast<int>(v));
  return names;
}

Status Decoder::count_copies(int64_t copies) {
  file_.copied = std::min(file_.copied, INT64_MAX - copies) + copies;
  if (file_.copied <= most_copies(file_.model->declared)) return ok();
  return fail(Code::kUnsupported, "the bodies of its Fused ops come to more than %lld nodes and tensors",
              static_cast<long long>(most_copies(file_.model->declared)));
}

Status Decoder::count_places(int64_t places, int64_t most) {
  file_.places = std::min(file_.places, INT64_MAX - places) + places;
  if (file_.places <= most) return ok();
  return fail(Code::kUnsupported, "the copies in the file come to more than %lld elements",
              static_cast<long long>(most));
}

// Of the first input that is not a constant.
Format Decoder::format_of_inputs() const {
  for (int i = 0; i < num_inputs(); ++i)
    if (has(i) && constant(i) == nullptr) return format(in(i));
  return format(in(0));
}

Status Decoder::decode_op(const wire::Op& op) {
  const size_t first = graph_.nodes.size();
  const DecodeFunction function = find_decoder(op.type());
#ifdef MINNOW_SLIM
  if (function == nullptr) return unsupported(MINNOW_THIS_BUILD " has no kernel for it");
#endif
  if (function == nullptr) return unsupported("");
  if constexpr (is_kept("decode 8-bit tensors")) {
    MINNOW_RETURN_IF_ERROR(roundings_.empty() ? function(*this) : decode_rounded(*this, function));
  } else {
    MINNOW_RETURN_IF_ERROR(function(*this));
  }
  for (size_t i = first; i < graph_.nodes.size(); ++i) {
    const std::string& name = graph_.nodes[i].op;
    if (graph_.nodes[i].calls.empty() && find_op(name) == nullptr && find_lowering(name) == nullptr)
      return unsupported(MINNOW_THIS_BUILD " has no kernel for " + name);
  }
  return ok();
}

Status Decoder::need_inputs(int n) const {
  for (int i = 0; i < n; ++i)
    if (!has(i)) return fail(Code::kFormat, "input %d is missing", i);
  return ok();
}

Status Decoder::need_outputs(int n) const {
  if (num_outputs() == n) return ok();
  return fail(Code::kFormat, "it has %d outputs, not %d", num_outputs(), n);
}

const Constant* Decoder::constant(int i) const {
  return has(i) ? graph_.values[static_cast<size_t>(in(i))].constant.get() : nullptr;
}

bool Decoder::constant_ints(int i, std::vector<int64_t>* values) const {
  const Constant* constant = this->constant(i);
  std::shared_ptr<const Tensor> tensor;
  if (constant == nullptr || !constant->acquire(&tensor).ok()) return false;
  const TensorType* type = &tensor->type;
  return InferContext(Attrs(), {type}, {tensor.get()}, nullptr).ints(0, values).ok();
}

int Decoder::channels_first(int value) {
  if (format(value) != Format::NHWC) return value;
  const int result = add("mnn.Transpose", {value}, {{"to", std::string("channels_first")}});
  set_format(result, Format::NCHW);
  return result;
}

int Decoder::new_value() {
  graph_.values.emplace_back();
  formats_.push_back(Format::NCHW);
  return static_cast<int>(graph_.values.size()) - 1;
}

int Decoder::add_constant(std::shared_ptr<Constant> constant) {
  const int value = new_value();
  set_constant(value, std::move(constant));
  return value;
}

void Decoder::set_constant(int value, std::shared_ptr<Constant> constant) {
  file_.model->weight_bytes += constant->type().bytes();
  graph_.values[static_cast<size_t>(value)].constant = std::move(constant);
}

void Decoder::cast_input(size_t i, DType from) {
  const int inner = graph_.inputs[i];
  const int outer = new_value();
  graph_.values[static_cast<size_t>(outer)].name = graph_.values[static_cast<size_t>(inner)].name;
  Node node;
  node.op = "Cast";
  node.name = graph_.values[static_cast<size_t>(inner)].name;
  node.attrs = make_attrs({{"to", graph_.input_types[i]}});
  node.in = {outer};
  node.out = {inner};
  graph_.nodes.insert(graph_.nodes.begin(), std::move(node));
  graph_.inputs[i] = outer;
  graph_.input_types[i] = from;
}

int Decoder::finish_output(int value, Attrs attrs) {
  const int result = new_value();
  Node node;
  node.op = "mnn.Output";
  node.name = graph_.values[static_cast<size_t>(value)].name;
  node.attrs = std::move(attrs);
  node.in = {value};
  node.out = {result};
  graph_.values[static_cast<size_t>(result)].name = node.name;
  graph_.nodes.push_back(std::move(node));
  return result;
}

int Decoder::channels_last(int value) {
  const int result = new_value();
  Node node;
  node.op = "mnn.Transpose";
  node.name = graph_.values[static_cast<size_t>(value)].name;
  node.attrs = make_attrs({{"to", std::string("channels_last")}});
  node.in = {value};
  node.out = {result};
  graph_.values[static_cast<size_t>(result)].name = node.name;
  graph_.nodes.push_back(std::move(node));
  return result;
}

Status Decoder::floats(const std::vector<float>& values, const Shape& shape, int* value) {
  const TensorType type{DType::kF32, Layout::kPlain, shape};
  Buffer buffer;
  MINNOW_RETURN_IF_ERROR(Buffer::make(type.bytes(), &buffer));
  std::copy(values.begin(), values.end(), reinterpret_cast<float*>(buffer.data()));
  *value = add_constant(Constant::owned(type, std::move(buffer)));
  return ok();
}

Status Decoder::ints(const std::vector<int64_t>& values, int* value) {
  const TensorType type{DType::kI64, Layout::kPlain, Shape{static_cast<int64_t>(values.size())}};
  Buffer buffer;
  MINNOW_RETURN_IF_ERROR(Buffer::make(type.bytes(), &buffer));
  std::copy(values.begin(), values.end(), reinterpret_cast<int64_t*>(buffer.data()));
  *value = add_constant(Constant::owned(type, std::move(buffer)));
  return ok();
}

Node& Decoder::add_node(const char* op, Values inputs, Values outputs, Attrs attrs) {
  Node node;
  node.op = op;
  node.name = op_->name() == nullptr ? "" : op_->name()->str();
  node.attrs = std::move(attrs);
  node.in.assign(inputs.begin(), inputs.end());
  while (!node.in.empty() && node.in.back() < 0) node.in.pop_back();
  node.out.assign(outputs.begin(), outputs.end());
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back();
}

int Decoder::add(const char* op, Values inputs, AttrList attrs) {
  const int value = new_value();
  const Format first = inputs.begin() == inputs.end() ? Format::NCHW : format(*inputs.begin());
  set_format(value, first);
  add_node(op, inputs, {value}, make_attrs(attrs));
  return value;
}

Node& Decoder::finish(const char* op, Values inputs, Attrs attrs) {
  return add_node(op, inputs, std::vector<int>(out_), std::move(attrs));
}

Node& Decoder::finish(const char* op, Values inputs, AttrList attrs) { return finish(op, inputs, make_attrs(attrs)); }

Status Decoder::external_bytes(const flatbuffers::Vector<int64_t>& external, size_t part, const char** data,
                               int64_t* bytes, std::shared_ptr<const MappedFile>* file) {
  if (external.size() <= part + 1) return fail(Code::kFormat, "part %zu of its external weights is missing", part);
  int64_t offset = external.Get(0);
  for (size_t i = 0; i <= part; ++i) {
    *bytes = external.Get(static_cast<flatbuffers::uoffset_t>(i + 1));
    if (offset < 0 || *bytes < 0 || offset > INT64_MAX - *bytes)
      return fail(Code::kFormat, "its external weights have a negative place");
    if (i < part) offset += *bytes;
  }
  const std::string name = op_->externalPath() == nullptr ? "" : op_->externalPath()->str();
  return file_.side_files->read(name, offset, *bytes, data, file);
}

Status Decoder::weights(const flatbuffers::Vector<float>* values, const flatbuffers::Vector<int64_t>* external,
                        size_t part, const Shape& shape, int* value) {
  const TensorType type{DType::kF32, Layout::kPlain, shape};
  const char* data = nullptr;
  int64_t bytes = 0;
  std::shared_ptr<const MappedFile> file = main_file();
  if (values != nullptr && values->size() > 0) {
    data = reinterpret_cast<const char*>(values->data());
    bytes = static_cast<int64_t>(values->size()) * 4;
  } else if (external != nullptr && external->size() > 0) {
    MINNOW_RETURN_IF_ERROR(external_bytes(*external, part, &data, &bytes, &file));
  }
  if (bytes != type.bytes())
    return fail(Code::kFormat, "has %lld bytes of weights where the shape %s needs %lld", static_cast<long long>(bytes),
                shape.str().c_str(), static_cast<long long>(type.bytes()));
  *value = add_constant(constant_of_bytes(type, {data, bytes, std::move(file)}));
  return ok();
}

std::shared_ptr<Constant> constant_of_bytes(const TensorType& type, FileBytes bytes) {
  if (reinterpret_cast<uintptr_t>(bytes.data) % dtype_size(type.dtype) == 0)
    return Constant::view(type, bytes.data, std::move(bytes.file));
  const auto copy = [bytes](void* to) { std::memcpy(to, bytes.data, static_cast<size_t>(bytes.size)); };
  auto constant = Constant::decoded(type, copy, bytes);
  constant->set_stored(type.dtype);
  return constant;
}

std::shared_ptr<Constant> constant_of_halves(DType from, const Shape& shape, FileBytes bytes) {
  const auto widen = [bytes, from, n = shape.count()](void* to) {
    std::vector<uint16_t> aligned;
    const void* source = bytes.data;
    if (reinterpret_cast<uintptr_t>(source) % 2 != 0) {
      aligned.resize(static_cast<size_t>(n));
      std::memcpy(aligned.data(), source, aligned.size() * 2);
      source = aligned.data();
    }
    convert_elements(from, source, DType::kF32, to, n);
  };
  auto constant = Constant::decoded({DType::kF32, Layout::kPlain, shape}, widen, bytes);
  constant->set_stored(from);
  return constant;
}

Status to_dtype(wire::DataType type, DType* out) {
  static const std::map<wire::DataType, DType> kTypes = {
      {wire::DataType::DT_FLOAT, DType::kF32}, {wire::DataType::DT_DOUBLE, DType::kF64},
      {wire::DataType::DT_HALF, DType::kF16},  {wire::DataType::DT_BFLOAT16, DType::kBF16},
      {wire::DataType::DT_INT8, DType::kI8},   {wire::DataType::DT_QINT8, DType::kI8},
      {wire::DataType::DT_UINT8, DType::kU8},  {wire::DataType::DT_QUINT8, DType::kU8},
      {wire::DataType::DT_INT16, DType::kI16}, {wire::DataType::DT_UINT16, DType::kU16},
      {wire::DataType::DT_INT32, DType::kI32}, {wire::DataType::DT_QINT32, DType::kI32},
      {wire::DataType::DT_INT64, DType::kI64}, {wire::DataType::DT_BOOL, DType::kBool},
  };
  const auto it = kTypes.find(type);
  if (it == kTypes.end()) {
    const char* name = enumerator_name(wire::kDataTypeNames, static_cast<int>(type));
    return Status(Code::kUnsupported,
                  "data of type " + (*name != '\0' ? name : std::to_string(static_cast<int>(type))));
  }
  *out = it->second;
  return ok();
}

}  // namespace minnow
