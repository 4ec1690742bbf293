// Reads and checks the bytes of a file, and builds a Model.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <set>

#include "runtime/src/decode/decode.h"
#include "runtime/src/run/evaluate.h"
#include "runtime/src/model/json.h"
#include "kernels/core/status_guard.h"

namespace minnow {
namespace {

using Strings = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;
using Ops = Decoder::Ops;

void add_values(const Strings& names, Graph* graph) {
  for (const auto* name : names) graph->values.emplace_back().name = name->str();
}

// Dims as in an Input op. An empty list means a scalar, or an unknown shape.
void read_dims(const wire::Input* input, bool scalar, TensorInfo* info) {
  const auto* dims = input == nullptr ? nullptr : input->dims();
  info->has_rank = (dims != nullptr && dims->size() > 0) || scalar;
  if (dims == nullptr) return;
  for (int32_t d : *dims) info->dims.push_back({d < 0 ? -1 : d, ""});
}

// The metadata of the source model: pairs of key and text.
std::map<std::string, std::string> read_metadata(const wire::Net& net) {
  std::map<std::string, std::string> pairs;
  if (net.extraInfo() == nullptr || net.extraInfo()->buffer() == nullptr) return pairs;
  const auto* bytes = net.extraInfo()->buffer();
  if (bytes->size() == 0) return pairs;
  // A nested FlatBuffer; it may be unaligned in the file, so it is copied to aligned memory.
  std::vector<uint64_t> copy((bytes->size() + 7) / 8);
  std::memcpy(copy.data(), bytes->data(), bytes->size());
  const auto* data = reinterpret_cast<const uint8_t*>(copy.data());
  flatbuffers::Verifier verifier(data, bytes->size());
  if (!verifier.VerifyBuffer<wire::Extra>(nullptr)) return pairs;
  const auto* extra = flatbuffers::GetRoot<wire::Extra>(data);
  if (extra->attr() == nullptr) return pairs;
  for (const wire::Attribute* a : *extra->attr())
    if (a->s() != nullptr) pairs[a->key()->str()] = a->s()->str();
  return pairs;
}

// `[{"name", "dtype", "shape"}...]`; false if the text has another form.
bool read_infos(const std::string& text, std::vector<TensorInfo>* infos) {
  Json json;
  if (!parse_json(text, &json) || json.kind != Json::kArray) return false;
  for (const Json& row : json.items) {
    TensorInfo info;
    const Json *name = row.find("name"), *dtype = row.find("dtype"), *shape = row.find("shape");
    if (name == nullptr || name->kind != Json::kString || dtype == nullptr || !dtype_of_name(dtype->text, &info.dtype))
      return false;
    info.name = name->text;
    if (const Json* container = row.find("container"); container != nullptr) {
      info.container = container->text;
      if (info.container != "sequence" && info.container != "optional" && info.container != "optional(sequence)")
        return false;
    }
    info.has_rank = shape != nullptr && shape->kind == Json::kArray;
    if (info.has_rank) {
      for (const Json& dim : shape->items) {
        if (dim.kind == Json::kNumber && dim.number >= 0 && dim.number < 1e15) {
          info.dims.push_back({static_cast<int64_t>(dim.number), ""});
        } else {
          info.dims.push_back({-1, dim.text == "?" ? "" : dim.text});
        }
      }
    }
    infos->push_back(std::move(info));
  }
  return true;
}

// `{"name": "dtype"...}`; false if the text has another form.
bool read_types(const std::string& text, std::map<std::string, DType>* types) {
  Json json;
  if (!parse_json(text, &json) || json.kind != Json::kObject) return false;
  for (const auto& [name, dtype] : json.members)
    if (!dtype_of_name(dtype.text, &(*types)[name])) return false;
  return true;
}

// Two hexadecimal digits per byte; false if the text has another form.
bool read_bytes(const std::string& text, std::string* bytes) {
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  if (text.size() % 2 != 0) return false;
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = digit(text[i]), low = digit(text[i + 1]);
    if (high < 0 || low < 0) return false;
    bytes->push_back(static_cast<char>(high * 16 + low));
  }
  return true;
}

// The element becomes the last one.
template <typename T>
void move_to_end(std::vector<T>* list, size_t i) {
  std::rotate(list->begin() + static_cast<std::ptrdiff_t>(i), list->begin() + static_cast<std::ptrdiff_t>(i) + 1,
              list->end());
}

class Loader {
 public:
  Loader(const uint8_t* data, int64_t size, Model* model, FileAccess access)
      : data_(data), size_(size), model_(*model), access_(access), side_files_(model->path, access) {}

  Status load() {
    MINNOW_RETURN_IF_ERROR(verify());
    const wire::Net& net = *wire::GetNet(data_);
    file_.net = &net;
    file_.model = &model_;
    file_.side_files = &side_files_;
    model_.declared = count_declared(net);
    metadata_ = read_metadata(net);
    // A file of MNN's converter that was optimized again still has some of its forms.
    file_.is_ours = metadata_.count("minnow.inputs") != 0 && metadata_.count("minnow.forms") == 0;
    const auto types = metadata_.find("minnow.types");
    if (types != metadata_.end() && !read_types(types->second, &file_.types))
      return fail(Code::kFormat, "its metadata 'minnow.types' is damaged");
    const auto scanned = metadata_.find("minnow.scanned");
    if (scanned != metadata_.end() && !read_infos(scanned->second, &scanned_))
      return fail(Code::kFormat, "its metadata 'minnow.scanned' is damaged");
    if (net.subgraphs() != nullptr) {
      model_.graphs.reserve(net.subgraphs()->size());
      for (const wire::SubGraphProto* sub : *net.subgraphs()) MINNOW_RETURN_IF_ERROR(load_subgraph(*sub));
    }
    MINNOW_RETURN_IF_ERROR(load_main(net));
    if (!unsupported_.empty()) return unsupported();
    std::vector<int> calls(model_.graphs.size());
    const auto finish = [&](Graph& g) { drop_unread_outputs(&g), keep_weights_packed(&g), count_calls(g, &calls); };
    finish(model_.main);
    for (Graph& graph : model_.graphs) finish(graph);
    hand_down_constants(model_.main, calls);
    // Callers come after the subgraphs that they call.
    for (size_t i = model_.graphs.size(); i-- > 0;) hand_down_constants(model_.graphs[i], calls);
    number_constants();
    model_.file_bytes = size_;
    for (const auto& [name, file] : side_files_.opened()) {
      model_.files.push_back(file);
      model_.file_bytes += file->size();
    }
    model_.store = std::make_unique<WeightStore>(model_.memory.get());
    if (!model_.path.empty()) model_.store->use(PackedFile::open(model_.packed_path, model_.files, access_));
    return ok();
  }

 private:
  Status verify() const {
    if (size_ >= static_cast<int64_t>(FLATBUFFERS_MAX_BUFFER_SIZE))
      return fail(Code::kFormat, "it is larger than 2 GiB");
    flatbuffers::Verifier verifier(data_, static_cast<size_t>(size_), 64, 4000000);
    if (size_ < 8 || !wire::VerifyNetBuffer(verifier))
      return fail(Code::kFormat, "it is not a .mnn file, or it is damaged or cut off");
    const wire::Net& net = *wire::GetNet(data_);
    if (net.oplists() == nullptr || net.tensorName() == nullptr) return fail(Code::kFormat, "it holds no graph");
    const wire::SubGraphProto* own = own_graph(net);
    if (own != nullptr && (own->nodes() == nullptr || own->tensors() == nullptr))
      return fail(Code::kFormat, "its graph for Minnow is empty");
    return ok();
  }

  // Of two graphs that compute the same, the one in ops that only this engine has; null if there is only one.
  static const wire::SubGraphProto* own_graph(const wire::Net& net) {
    return net.extraInfo() == nullptr ? nullptr : net.extraInfo()->minnow();
  }
  static const Decoder::Ops& main_ops(const wire::Net& net) {
    return own_graph(net) == nullptr ? *net.oplists() : *own_graph(net)->nodes();
  }
  using Names = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;
  static const Names& main_names(const wire::Net& net) {
    return own_graph(net) == nullptr ? *net.tensorName() : *own_graph(net)->tensors();
  }

  using Describes = flatbuffers::Vector<flatbuffers::Offset<wire::TensorDescribe>>;
  static Status read_roundings(Decoder& decoder, const Describes* describes) {
    if constexpr (is_kept("decode 8-bit tensors")) {
      return decoder.read_roundings(describes);
    } else {
      for (flatbuffers::uoffset_t i = 0; describes != nullptr && i < describes->size(); ++i)
        if (describes->Get(i)->quantInfo() != nullptr)
          return Status(Code::kUnsupported, MINNOW_THIS_BUILD " has no tensors of 8 bits");
      return ok();
    }
  }

  static int64_t count_declared(const wire::Net& net) {
    int64_t n = int64_t{main_ops(net).size()} + main_names(net).size();
    if (net.subgraphs() == nullptr) return n;
    for (const wire::SubGraphProto* sub : *net.subgraphs())
      for (const int64_t size : {sub->nodes() == nullptr ? 0 : int64_t{sub->nodes()->size()},
                                 sub->tensors() == nullptr ? 0 : int64_t{sub->tensors()->size()}})
        n += size;
    return n;
  }

  Status unsupported() const {
    std::string text = "the engine cannot run " + std::to_string(unsupported_.size()) + " of its ops";
    for (const std::string& line : unsupported_) text += "\n  - " + line;
    return Status(Code::kUnsupported, text);
  }

  Status load_subgraph(const wire::SubGraphProto& sub) {
    Graph& graph = model_.graphs.emplace_back();
    graph.name = sub.name() == nullptr ? "" : sub.name()->str();
    const std::string place = "subgraph '" + graph.name + "'";
    if (sub.nodes() == nullptr || sub.tensors() == nullptr) return fail(Code::kFormat, "it is empty").at(place);
    add_values(*sub.tensors(), &graph);
    MINNOW_RETURN_IF_ERROR(check_indices(*sub.nodes(), graph.values.size()).at(place));
    const auto n = static_cast<int64_t>(graph.values.size());
    graph.inputs = list(sub.inputs());
    graph.outputs = list(sub.outputs());
    for (const std::vector<int>* values : {&graph.inputs, &graph.outputs})
      for (int v : *values)
        if (v < 0 || v >= n) return fail(Code::kFormat, "there is no tensor %d", v).at(place);
    std::map<int, DType> types;
    std::map<int, int> ranks;
    // Declared types of the inputs of a subgraph are meaningful only in our own files.
    const bool ours = metadata_.count("minnow.inputs") != 0;
    for (const wire::Op* op : *sub.nodes()) {
      if (op->type() != wire::OpType::Input || op->outputIndexes() == nullptr || op->outputIndexes()->size() != 1)
        continue;
      DType dtype = DType::kI32;
      if (op->main_as_Input() != nullptr)
        MINNOW_RETURN_IF_ERROR(to_dtype(op->main_as_Input()->dtype(), &dtype).at(place));
      types[op->outputIndexes()->Get(0)] = dtype;
      const auto* dims = op->main_as_Input() == nullptr ? nullptr : op->main_as_Input()->dims();
      ranks[op->outputIndexes()->Get(0)] = ours && dims != nullptr && dims->size() == 1 ? 1 : 0;
    }
    for (int v : graph.inputs) {
      const auto it = types.find(v);
      if (it == types.end()) return fail(Code::kFormat, "its input %d is not an Input", v).at(place);
      DType dtype = it->second;
      MINNOW_RETURN_IF_ERROR(file_.true_type(graph.values[static_cast<size_t>(v)].name, dtype, &dtype).at(place));
      graph.input_types.push_back(dtype);
      graph.input_ranks.push_back(ranks[v]);
    }
    if (types.size() != graph.inputs.size() ||
        std::set<int>(graph.inputs.begin(), graph.inputs.end()).size() != types.size())
      return fail(Code::kFormat, "its inputs are not those it lists").at(place);
    Decoder decoder(file_, &graph);
    MINNOW_RETURN_IF_ERROR(read_roundings(decoder, sub.extraTensorDescribe()).at(place));
    MINNOW_RETURN_IF_ERROR(decoder.decode(*sub.nodes(), &unsupported_).at(place));
    MINNOW_RETURN_IF_ERROR(check_made(graph, decoder).at(place));
    MINNOW_RETURN_IF_ERROR(declare_scanned(&graph).at(place));
    file_.graph_by_name.emplace(graph.name, static_cast<int>(model_.graphs.size()) - 1);
    return ok();
  }

  // A loop without iterations needs the types of its stacked outputs.
  Status declare_scanned(Graph* graph) const {
    for (int v : graph->outputs) {
      for (const TensorInfo& info : scanned_) {
        if (info.name != graph->values[static_cast<size_t>(v)].name || info.dims.size() > kMaxRank) continue;
        TensorType type{info.dtype, Layout::kPlain, Shape()};
        for (const Dim& dim : info.dims) type.shape.push_back(std::max<int64_t>(dim.size, 0));
        MINNOW_RETURN_IF_ERROR(check_type(type).at("what stacks '" + info.name + "'"));
        graph->scanned[v] = type;
      }
    }
    return ok();
  }

  static std::vector<int> list(const flatbuffers::Vector<int32_t>* values) {
    return values == nullptr ? std::vector<int>() : std::vector<int>(values->begin(), values->end());
  }

  static Status check_made(const Graph& graph, const Decoder& decoder) {
    for (int v : graph.outputs)
      if (!decoder.is_made(v))
        return fail(Code::kFormat, "nothing makes the output '%s'", graph.values[static_cast<size_t>(v)].name.c_str());
    return ok();
  }

  Status load_main(const wire::Net& net) {
    Graph& graph = model_.main;
    add_values(main_names(net), &graph);
    const Decoder::Ops& ops = main_ops(net);
    MINNOW_RETURN_IF_ERROR(check_indices(ops, graph.values.size()));
    if (own_graph(net) == nullptr && net.usage() == wire::Usage::INFERENCE_STATIC &&
        net.extraTensorDescribe() != nullptr)
      for (const wire::TensorDescribe* tensor : *net.extraTensorDescribe())
        file_.described.emplace(tensor->index(), tensor);
    Decoder decoder(file_, &graph);
    if (own_graph(net) == nullptr) MINNOW_RETURN_IF_ERROR(read_roundings(decoder, net.extraTensorDescribe()));
    MINNOW_RETURN_IF_ERROR(decoder.decode(ops, &unsupported_));
    channels_last_ = net.sourceType() == wire::NetSource::TENSORFLOW || net.sourceType() == wire::NetSource::TFLITE;
    const bool torch = net.sourceType() == wire::NetSource::TORCH;
    for (const wire::Op* op : ops) {
      if (op->type() != wire::OpType::Input) continue;
      TensorInfo info;
      const int v = op->outputIndexes()->Get(0);
      info.name = graph.values[static_cast<size_t>(v)].name;
      if (op->main_as_Input() != nullptr)
        MINNOW_RETURN_IF_ERROR(to_dtype(op->main_as_Input()->dtype(), &info.dtype).at("Input '" + info.name + "'"));
      MINNOW_RETURN_IF_ERROR(file_.true_type(info.name, info.dtype, &info.dtype).at("Input '" + info.name + "'"));
      // Without dims: a scalar in our own files; in others nothing is known.
      read_dims(op->main_as_Input(), file_.is_ours && !torch, &info);
      // MNN's converter writes 1 for an open batch: a size that is only the usual one is marked as such.
      const bool fixed = file_.is_ours || net.usage() == wire::Usage::INFERENCE_STATIC;
      if (!fixed) open_dims(net, &info);
      graph.inputs.push_back(v);
      graph.input_types.push_back(info.dtype);
      model_.inputs.push_back(std::move(info));
    }
    MINNOW_RETURN_IF_ERROR(find_outputs(net, decoder));
    return apply_metadata(decoder);
  }

  // Marks the sizes of an input that are only the usual ones. MNN's converter writes 1 for a batch of any size, and for
  // all dynamic dimensions of TFLite's models. Of several inputs of Caffe's, each gets the sizes of all of them.
  static void open_dims(const wire::Net& net, TensorInfo* info) {
    const wire::NetSource source = net.sourceType();
    constexpr size_t kImage = 4;
    if (source == wire::NetSource::CAFFE && info->dims.size() > kImage && info->dims.size() % kImage == 0) {
      info->dims.clear();
      info->has_rank = false;
      return;
    }
    for (size_t i = 0; i < info->dims.size(); ++i)
      if (info->dims[i].size == 1 && (i == 0 || source == wire::NetSource::TFLITE)) info->dims[i].symbol = "?";
  }

  // The outputs by name; without names, the values that no op reads.
  Status find_outputs(const wire::Net& net, const Decoder& decoder) {
    Graph& graph = model_.main;
    std::map<std::string, int> by_name;
    for (size_t i = 0; i < main_names(net).size(); ++i)
      if (decoder.is_made(static_cast<int>(i))) by_name.emplace(graph.values[i].name, static_cast<int>(i));
    if (net.outputName() != nullptr && net.outputName()->size() > 0) {
      for (const auto* name : *net.outputName()) {
        const auto it = by_name.find(name->str());
        if (it == by_name.end()) return fail(Code::kFormat, "nothing makes the output '%s'", name->c_str());
        graph.outputs.push_back(it->second);
      }
    } else {
      std::vector<bool> read(graph.values.size());
      for (const wire::Op* op : main_ops(net))
        for (int v : list(op->inputIndexes()))
          if (v >= 0) read[static_cast<size_t>(v)] = true;
      for (const wire::Op* op : main_ops(net))
        for (int v : list(op->outputIndexes()))
          if (!read[static_cast<size_t>(v)]) graph.outputs.push_back(v);
    }
    for (int v : graph.outputs) model_.outputs.emplace_back().name = graph.values[static_cast<size_t>(v)].name;
    if (graph.outputs.empty()) return fail(Code::kFormat, "it has no outputs");
    return ok();
  }

  // With 1 for dims that only the caller knows.
  static Status check_info(const TensorInfo& info) {
    TensorType type{info.dtype, Layout::kPlain, Shape()};
    for (const Dim& dim : info.dims) type.shape.push_back(dim.size < 0 ? 1 : dim.size);
    return check_type(type);
  }

  // The types of inputs and outputs in the source model, in our own files: the format has few types, so there are
  // casts.
  Status apply_metadata(Decoder& decoder) {
    const std::map<std::string, std::string>& pairs = metadata_;
    std::map<std::string, TensorInfo> inputs, outputs;
    for (const auto& [key, target] :
         {std::make_pair("minnow.inputs", &inputs), std::make_pair("minnow.outputs", &outputs)}) {
      const auto it = pairs.find(key);
      std::vector<TensorInfo> infos;
      if (it == pairs.end()) continue;
      if (!read_infos(it->second, &infos)) return fail(Code::kFormat, "its metadata '%s' is damaged", key);
      for (TensorInfo& info : infos) (*target)[info.name] = std::move(info);
    }
    Graph& graph = model_.main;
    for (size_t i = 0; i < model_.inputs.size(); ++i) {
      const auto it = inputs.find(model_.inputs[i].name);
      if (it == inputs.end()) continue;
      if (it->second.container.empty() && it->second.dtype != model_.inputs[i].dtype)
        decoder.cast_input(i, it->second.dtype);
      const bool is_narrow = model_.inputs[i].dtype == DType::kI32;
      model_.inputs[i] = it->second;
      model_.inputs[i].is_narrowed = is_narrow && it->second.dtype == DType::kI64;
    }
    // Of files of others, users see images in the layout of the source.
    const bool last = pairs.count("minnow.outputs") == 0 && channels_last_;
    for (size_t i = 0; i < model_.outputs.size(); ++i) {
      if (last && decoder.format(graph.outputs[i]) == Format::NC4HW4)
        graph.outputs[i] = decoder.channels_last(graph.outputs[i]);
      const auto it = outputs.find(model_.outputs[i].name);
      Attrs attrs;
      if (it != outputs.end()) {
        model_.outputs[i] = it->second;
        if (it->second.container.empty()) attrs.set("to", it->second.dtype);
      }
      graph.outputs[i] = decoder.finish_output(graph.outputs[i], std::move(attrs));
    }
    for (const TensorInfo& info : model_.inputs)
      MINNOW_RETURN_IF_ERROR(check_info(info).at("input '" + info.name + "'"));
    for (const TensorInfo& info : model_.outputs)
      MINNOW_RETURN_IF_ERROR(check_info(info).at("output '" + info.name + "'"));
    const auto states = pairs.find("minnow.states");
    if (states != pairs.end() && !connect_states(states->second))
      return fail(Code::kFormat, "its metadata 'minnow.states' is damaged");
    return ok();
  }

  // `[{"input", "output", "value"}...]`: turns these inputs and outputs into states. False if the text has another
  // form, or does not fit the graph.
  bool connect_states(const std::string& text) {
    Json json;
    if (!parse_json(text, &json) || json.kind != Json::kArray) return false;
    Graph& graph = model_.main;
    for (const Json& row : json.items) {
      const Json *input = row.find("input"), *output = row.find("output"), *value = row.find("value");
      if (input == nullptr || output == nullptr) return false;
      const auto place = [](const std::vector<TensorInfo>& infos, const std::string& name) {
        return static_cast<size_t>(
            std::find_if(infos.begin(), infos.end(), [&](const TensorInfo& info) { return info.name == name; }) -
            infos.begin());
      };
      const size_t i = place(model_.inputs, input->text), o = place(model_.outputs, output->text);
      if (i == model_.inputs.size() || o == model_.outputs.size()) return false;
      State state{model_.inputs[i], ""};
      const auto is_open = [](const Dim& d) { return d.size < 0; };
      if (!state.info.has_rank || !state.info.container.empty() || state.info.dims.size() > kMaxRank ||
          std::any_of(state.info.dims.begin() + (state.info.dims.empty() ? 0 : 1), state.info.dims.end(), is_open) ||
          (state.grows() && (value != nullptr || state.info.dims[0].symbol.empty())))
        return false;
      if (value != nullptr && !read_bytes(value->text, &state.initial)) return false;
      const auto bytes = static_cast<int64_t>(state.initial.size());
      if (value != nullptr && bytes != state.type().bytes()) return false;
      model_.inputs.erase(model_.inputs.begin() + static_cast<std::ptrdiff_t>(i));
      model_.outputs.erase(model_.outputs.begin() + static_cast<std::ptrdiff_t>(o));
      move_to_end(&graph.inputs, i);
      move_to_end(&graph.input_types, i);
      if (!graph.input_ranks.empty()) move_to_end(&graph.input_ranks, i);
      move_to_end(&graph.outputs, o);
      model_.states.push_back(std::move(state));
    }
    for (size_t i = 0; i < model_.states.size(); ++i)
      model_.states[i].in_place = is_updated(&graph, graph.inputs[model_.inputs.size() + i], model_.outputs.size() + i);
    return true;
  }

  // Whether a node makes output `o` by writing into the input, which nothing else reads. Then it is that node's result
  // as it is, whose type is the input's.
  static bool is_updated(Graph* graph, int input, size_t o) {
    const auto count = [](const std::vector<int>& values, int v) {
      return std::count(values.begin(), values.end(), v);
    };
    const auto end = std::find_if(graph->nodes.begin(), graph->nodes.end(), [&](const Node& node) {
      return node.op == "mnn.Output" && node.out[0] == graph->outputs[o];
    });
    const int output = end == graph->nodes.end() ? graph->outputs[o] : end->in[0];
    int64_t reads = count(graph->outputs, input);
    bool made = false;
    for (const Node& node : graph->nodes) {
      reads += count(node.in, input);
      const OpSpec* op = find_op(node.op);
      for (size_t i = 1; op != nullptr && op->has(kUpdates) && i < node.out.size(); ++i)
        made = made || (node.out[i] == output && i + 2 < node.in.size() && node.in[i + 2] == input);
    }
    if (!made || reads != 1 || count(graph->outputs, graph->outputs[o]) != 1 ||
        (end != graph->nodes.end() && count(graph->outputs, output) != 0))
      return false;
    graph->outputs[o] = output;
    if (end != graph->nodes.end()) graph->nodes.erase(end);
    return true;
  }

  // Loops pass through the values that they only read; these outputs are mostly unused.
  static void drop_unread_outputs(Graph* graph) {
    std::vector<bool> read(graph->values.size());
    const auto mark = [&](const std::vector<int>& values) {
      for (int v : values)
        if (v >= 0) read[static_cast<size_t>(v)] = true;
    };
    for (const Node& node : graph->nodes) mark(node.in);
    mark(graph->outputs);
    for (Node& node : graph->nodes)
      for (int& v : node.out)
        if (v >= 0 && !node.calls.empty() && !read[static_cast<size_t>(v)]) v = -1;
  }

  void number_constants() {
    int64_t next = 0;
    const auto number = [&](const Graph& graph) {
      for (const Value& value : graph.values) {
        if (value.constant == nullptr || value.constant->id() >= 0) continue;
        value.constant->set_id(next++);
        value.constant->set_account(model_.memory);
      }
    };
    number(model_.main);
    for (const Graph& graph : model_.graphs) number(graph);
  }

  static void count_calls(const Graph& graph, std::vector<int>* calls) {
    for (const Node& node : graph.nodes)
      for (const Call& call : node.calls) ++(*calls)[static_cast<size_t>(call.graph)];
  }

  // A weight passed to a control flow body is constant there, too, if the body has no other caller.
  void hand_down_constants(const Graph& graph, const std::vector<int>& calls) {
    for (const Node& node : graph.nodes) {
      for (size_t k = 0; k < node.calls.size(); ++k) {
        const Call& call = node.calls[k];
        Graph& body = model_.graphs[static_cast<size_t>(call.graph)];
        if (calls[static_cast<size_t>(call.graph)] != 1) continue;
        const std::vector<int> results = output_sources(body);
        for (size_t j = 0; j < body.inputs.size(); ++j) {
          const bool loop = call.inputs.empty();
          const size_t i = loop ? j : static_cast<size_t>(call.inputs[j]);
          if (loop && (j < 2 || results[j - 1] != body.inputs[j])) continue;  // changes between iterations
          const int outer = node.in[i];
          if (outer >= 0 && graph.values[static_cast<size_t>(outer)].constant != nullptr)
            body.values[static_cast<size_t>(body.inputs[j])].constant =
                graph.values[static_cast<size_t>(outer)].constant;
        }
      }
    }
  }

  const uint8_t* data_;
  int64_t size_;
  Model& model_;
  FileAccess access_;
  SideFiles side_files_;
  DecodeContext file_;
  std::vector<TensorInfo> scanned_;
  std::map<std::string, std::string> metadata_;
  bool channels_last_ = false;  // in the model that the file was made from
  std::vector<std::string> unsupported_;
};

// Models in use, by path: loading a file again returns the same model, with its packed weights.
class LoadedModels {
 public:
  std::shared_ptr<const Model> find(const std::string& path, const std::string& packed) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto it = models_.find({path, packed});
    std::shared_ptr<const Model> model = it == models_.end() ? nullptr : it->second.lock();
    if (model == nullptr) return nullptr;
    const auto current = [](const auto& file) { return file->is_current(); };
    return std::all_of(model->files.begin(), model->files.end(), current) ? model : nullptr;
  }
  void add(const std::shared_ptr<const Model>& model) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = models_.begin(); it != models_.end();) it = it->second.expired() ? models_.erase(it) : std::next(it);
    models_[{model->path, model->packed_path}] = model;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::weak_ptr<const Model>> models_;  // by both paths
};

LoadedModels& loaded_models() {
  // Never destroyed: another thread may load a model while the process ends.
  static LoadedModels& models = *new LoadedModels;
  return models;
}

}  // namespace

// What is copied is not shared with other models of the same file, which may be mapped.
Status load_model(const std::string& path, std::shared_ptr<const Model>* out, FileAccess access,
                  const std::string& packed) {
  const std::string packed_path = packed.empty() ? path + PackedFile::kSuffix : packed;
  if (access == FileAccess::kMapped) *out = loaded_models().find(path, packed_path);
  if (*out != nullptr) return ok();
  auto model = std::make_shared<Model>();
  model->path = path;
  model->packed_path = packed_path;
  std::shared_ptr<const MappedFile> file;
  MINNOW_RETURN_IF_ERROR(MappedFile::open(path, &file, access));
  model->files.push_back(file);
  Loader loader(reinterpret_cast<const uint8_t*>(file->data()), file->size(), model.get(), access);
  MINNOW_RETURN_IF_ERROR(guarded([&] { return loader.load(); }).at(path));
  for (const auto& read : model->files) read->release_all();  // to find the weights has made much of it resident
  if (access == FileAccess::kMapped) loaded_models().add(model);
  *out = std::move(model);
  return ok();
}

Status load_model(const void* bytes, size_t size, std::shared_ptr<const Model>* out) {
  auto model = std::make_shared<Model>();
  if (size == 0) return fail(Code::kFormat, "the model is empty");
  MINNOW_RETURN_IF_ERROR(Buffer::make(static_cast<int64_t>(size), &model->copy));
  std::memcpy(model->copy.data(), bytes, size);
  Loader loader(reinterpret_cast<const uint8_t*>(model->copy.data()), static_cast<int64_t>(size), model.get(),
                FileAccess::kCopied);
  MINNOW_RETURN_IF_ERROR(guarded([&] { return loader.load(); }).at("the model"));
  *out = std::move(model);
  return ok();
}

}  // namespace minnow
