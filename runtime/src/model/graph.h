// A model as the engine keeps it: plain lists of values and nodes, decoded from the file and checked.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/core/attrs.h"
#include "runtime/src/model/constant.h"
#include "runtime/src/model/weight_store.h"

namespace minnow {

struct Value {
  std::string name;
  std::shared_ptr<Constant> constant;  // null unless it is constant for the life of the model
};

// How a node of control flow calls one of its graphs.
struct Call {
  int graph = -1;                    // index in Model::graphs
  std::vector<int> inputs, outputs;  // per input (output) of the graph, resp. per output of the node: which one
};

struct Node {
  std::string op;    // a name of the op table, of an op that is lowered (lower/lowering.h), or "If" or "Loop"
  std::string name;  // as in the file, for messages
  Attrs attrs;
  std::vector<int> in, out;  // values; -1 is a missing optional input or an output nobody wants
  std::vector<Call> calls;   // If: then and else; Loop: body
};

struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;  // in an order that can be executed
  std::vector<int> inputs, outputs;
  // As declared, with rank 0 or 1; values that a body of control flow captures may be of another type and rank.
  std::vector<DType> input_types;
  std::vector<int> input_ranks;
  // Outputs that a loop stacks, by value: the type of one iteration's, with 0 for dimensions known only after one.
  std::map<int, TensorType> scanned;
  int depth = 0;           // of calls: 0 when it calls no other
  bool is_closed = false;  // others refer to its outputs by number: none may be added
};

// The values of the outputs, looking through Identity nodes.
std::vector<int> output_sources(const Graph& graph);

// A dim of an input or output as the source model has it: a number, or a name, or neither.
struct Dim {
  int64_t size = -1;
  std::string symbol;
};

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  bool has_rank = false;
  std::vector<Dim> dims;
  // What it is, where it is no tensor: "sequence", "optional" or "optional(sequence)" of tensors of that type. To the
  // engine it is a vector of bytes.
  std::string container;
  bool is_narrowed = false;  // an i64 that the file holds as i32: numbers must fit
};

// What the model remembers from run to run: the last inputs and outputs of the main graph, which the session connects.
struct State {
  TensorInfo info;      // of the input; all dimensions are numbers
  std::string initial;  // the bytes it begins with; "": zeros

  TensorType type() const;
};

struct Model {
  std::string path;  // "" when loaded from memory
  Graph main;
  std::vector<Graph> graphs;
  std::vector<TensorInfo> inputs, outputs;  // without those of states
  std::vector<State> states;
  std::vector<std::shared_ptr<const MappedFile>> files;  // what constants point into
  Buffer copy;                                           // the same, when loaded from memory
  int64_t weight_bytes = 0;                              // of all constants, as tensors
  int64_t file_bytes = 0;                                // of the file, and of those with its weights
  int64_t declared = 0;                                  // ops and tensors that the file lists
  std::unique_ptr<WeightStore> store;                    // of the CPU; shared by all sessions
  // Of other devices; also shared.
  std::unique_ptr<BackendStores> stores = std::make_unique<BackendStores>();
};

// Exactly one of the two is given. `path` also tells where the side file with weights is.
Status load_model(const std::string& path, std::shared_ptr<const Model>* out);
Status load_model(const void* bytes, size_t size, std::shared_ptr<const Model>* out);

}  // namespace minnow
