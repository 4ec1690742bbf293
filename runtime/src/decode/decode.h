// From the ops of the file to nodes: one function per op type, in <family>.cpp, each with a row beside it.
//
//   MINNOW_DECODE(Softmax, decode_softmax);
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mnn_generated.h"
#include "runtime/src/decode/rounding.h"
#include "runtime/src/model/graph.h"
#include "runtime/src/lower/lowering.h"
#include "runtime/src/model/side_file.h"

namespace minnow {

using Format = wire::MNN_DATA_FORMAT;

// What a decoder knows of the file as a whole.
struct DecodeContext {
  const wire::Net* net = nullptr;
  Model* model = nullptr;
  SideFiles* side_files = nullptr;
  std::map<std::string, int> graph_by_name;
  std::map<int, std::map<std::string, int>> made_by_name;  // see Decoder
  bool is_ours = false;                                    // written by Minnow: no forms but those that it writes
  int64_t copied = 0;                                      // nodes and values of the bodies of Fused
  int64_t places = 0;                                      // constant places of a file with fixed shapes
  std::map<int, const wire::TensorDescribe*> described;    // what such a file says of the tensors of the main graph
  // By the name of the tensor: the types of inputs and constants for which the format has no code.
  std::map<std::string, DType> types;

  // The type of an input or constant of which the file says `stored`: that, or one of the same bytes in `types`.
  Status true_type(const std::string& tensor, DType stored, DType* out) const;
};

// Whether all tensor indices of the ops are below the number of tensors. Called before anything else reads the ops.
Status check_indices(const flatbuffers::Vector<flatbuffers::Offset<wire::Op>>& ops, size_t tensors);

// Decodes one graph, op by op. The functions below are for the decoders of ops.
class Decoder {
 public:
  using Ops = flatbuffers::Vector<flatbuffers::Offset<wire::Op>>;

  Decoder(DecodeContext& file, Graph* graph) : file_(file), graph_(*graph) {}

  // Decodes all ops, which check_indices() has let through. What is not supported is added to `unsupported`, one line
  // each; other defects are errors.
  Status decode(const Ops& ops, std::vector<std::string>* unsupported);

  const wire::Op& op() const { return *op_; }
  // The op's parameters; null when it has none or they are of another kind.
  template <typename Table>
  const Table* main() const {
    return op_->main_as<Table>();
  }
  const wire::Net& net() const { return *file_.net; }
  bool has_fixed_shapes() const { return net().usage() == wire::Usage::INFERENCE_STATIC; }
  Graph& graph() { return graph_; }
  const DecodeContext& file() const { return file_; }
  Model& model() { return *file_.model; }
  // The file of the model; null when it was loaded from memory.
  std::shared_ptr<const MappedFile> main_file() const {
    return file_.model->files.empty() ? nullptr : file_.model->files[0];
  }
  // The values of a decoded graph by name: inputs, constants and results of nodes. The first one where names are equal.
  const std::map<std::string, int>& made_by_name(int graph);
  // An error when inlined bodies come to many more nodes and values than a file of this size can need.
  Status count_copies(int64_t copies);
  // An error when the constant places of a file with fixed shapes come to more than `most`.
  Status count_places(int64_t places, int64_t most);
  // Whether an op of the file makes this value.
  bool is_made(int value) const { return made_[static_cast<size_t>(value)]; }

  // What the ops of this graph say of 8-bit tensors; see rounding.h.
  Status read_roundings(const flatbuffers::Vector<flatbuffers::Offset<wire::TensorDescribe>>* describes);

  int num_inputs() const { return static_cast<int>(in_.size()); }
  int num_outputs() const { return static_cast<int>(out_.size()); }
  bool has(int i) const { return in(i) >= 0; }
  int in(int i) const { return i < num_inputs() ? in_[static_cast<size_t>(i)] : -1; }  // -1 where it is missing
  int out(int i) const { return out_[static_cast<size_t>(i)]; }
  const std::vector<int>& inputs() const { return in_; }
  // An error unless there are at least this many inputs, none of them missing.
  Status need_inputs(int n) const;
  Status need_outputs(int n) const;
  Status missing_parameters() const { return fail(Code::kFormat, "the parameters are missing"); }
  Status unsupported(const std::string& what) const { return Status(Code::kUnsupported, what); }

  // Constant contents of an input, when it is a constant: integers.
  bool constant_ints(int i, std::vector<int64_t>* values) const;
  const Constant* constant(int i) const;

  // The layout that the dims of a value are meant in.
  Format format(int value) const { return value < 0 ? Format::NCHW : formats_[static_cast<size_t>(value)]; }
  void set_format(int value, Format format) { formats_[static_cast<size_t>(value)] = format; }
  // The value with channels at axis 1.
  int channels_first(int value);

  int new_value();
  int add_constant(std::shared_ptr<Constant> constant);
  void set_constant(int value, std::shared_ptr<Constant> constant);
  Status floats(const std::vector<float>& values, const Shape& shape, int* value);
  Status ints(const std::vector<int64_t>& values, int* value);  // i64, rank 1

  Node& add_node(const char* op, Values inputs, Values outputs, Attrs attrs);
  // Adds a node, returns its output.
  int add(const char* op, Values inputs, AttrList attrs = {});
  // Adds a node whose outputs are those of the op in the file.
  Node& finish(const char* op, Values inputs, AttrList attrs = {});
  Node& finish(const char* op, Values inputs, Attrs attrs);

  // Floats in the file or, when there are none, part number `part` of what `external` (offset, bytes...) names.
  Status weights(const flatbuffers::Vector<float>* values, const flatbuffers::Vector<int64_t>* external, size_t part,
                 const Shape& shape, int* value);
  Status external_bytes(const flatbuffers::Vector<int64_t>& external, size_t part, const char** data, int64_t* bytes,
                        std::shared_ptr<const MappedFile>* file);

  // Users of the model see input i with this type; it is cast to the type in the file.
  void cast_input(size_t i, DType from);
  // What users of the model get for a value of the graph. `attrs` may have the type `to`.
  int finish_output(int value, Attrs attrs);
  // The value with channels at its last axis, for what users get.
  int channels_last(int value);

 private:
  friend class QuantizedOp;
  Status decode_op(const wire::Op& op);
  Format format_of_inputs() const;

  DecodeContext& file_;
  Graph& graph_;
  const wire::Op* op_ = nullptr;
  std::vector<int> in_, out_;  // of the op: the values of the file, or those that take their place for this op
  Roundings roundings_;
  std::vector<Format> formats_;  // per value
  std::vector<bool> made_;       // per value of the file
};

using DecodeFunction = Status (*)(Decoder&);
struct DecodeRegistrar {
  DecodeRegistrar(wire::OpType type, DecodeFunction function);
};
DecodeFunction find_decoder(wire::OpType type);

// Among the rows of a slim build, that of Softmax is "decode Softmax".
#define MINNOW_DECODE(type, function)                                                              \
  MINNOW_REGISTER_AS("decode " #type, ::minnow::DecodeRegistrar, MINNOW_UNIQUE(decode_registrar_), \
                     ::minnow::wire::OpType::type, function)

// The name of an enumerator in a list of names.h; empty where there is none.
const char* enumerator_name(const char* names, int code);
// The op of the op table for an operation of BinaryOp and UnaryOp; null for those that need more than a name.
const char* binary_op_name(int code);
const char* unary_op_name(int code);
// The shape that a file with fixed shapes says a tensor has.
Status static_shape(Decoder& d, int value, std::vector<int64_t>* dims);
// The loop of a file with fixed shapes, which stands for an op on strided elements.
Status decode_static_loop(Decoder& d, const wire::LoopParam& main);
// A loop that asks a graph of its own whether to go on, before each round.
Status decode_conditional_loop(Decoder& d, const wire::WhileParam& main);
// The subgraph of this name, as an index in Model::graphs.
Status find_graph(const Decoder& d, const flatbuffers::String* name, int* index);
// Notes that the graph that is decoded calls that one; an error where calls are nested too deeply.
Status add_call(Decoder& d, const Graph& callee);
// The element type that a DataType stands for; an error for strings, complex numbers and the like.
Status to_dtype(wire::DataType type, DType* out);
// The bytes in the file, or a copy where they are not aligned. `type.bytes()` bytes must be there.
std::shared_ptr<Constant> constant_of_bytes(const TensorType& type, FileBytes bytes);
// 16-bit floats, as f32.
std::shared_ptr<Constant> constant_of_halves(DType from, const Shape& shape, FileBytes bytes);
// Weights that nodes of the graph expand from packed bytes become constants that stay packed.
void keep_weights_packed(Graph* graph);
// A Blob as a constant. 16-bit floats become f32. `tensor`: what it is called, for its true type.
Status decode_blob(Decoder& d, const wire::Blob& blob, std::shared_ptr<Constant>* out, const std::string& tensor = "");

template <typename T>
std::vector<int64_t> to_ints(const flatbuffers::Vector<T>* values) {
  return values == nullptr ? std::vector<int64_t>() : std::vector<int64_t>(values->begin(), values->end());
}

}  // namespace minnow
