// A loaded model: lists of values and nodes, decoded from the file and checked.
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
  std::shared_ptr<Constant> constant;  // null unless the value is constant
};

// A call of a subgraph by a control flow node.
struct Call {
  int graph = -1;                    // index in Model::graphs
  std::vector<int> inputs, outputs;  // per input (output) of the graph, resp. per output of the node: which one
};

struct Node {
  std::string op;    // a name of the op table, of an op that is lowered (lower/lowering.h), or "If" or "Loop"
  std::string name;  // as in the file, for messages
  Attrs attrs;
  std::vector<int> in, out;  // values; -1 is a missing optional input or an unused output
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
  int depth = 0;           // nesting of calls: 0 if it calls no other graph
  bool is_closed = false;  // others refer to its outputs by number: none may be added
};

// The values of the outputs, looking through Identity nodes.
std::vector<int> output_sources(const Graph& graph);

// A dim of an input or output of the source model: a size, or the name of a dynamic dimension, or neither.
struct Dim {
  int64_t size = -1;
  std::string symbol;
};

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  bool has_rank = false;
  std::vector<Dim> dims;
  // "" for a tensor; else "sequence", "optional" or "optional(sequence)" of tensors of that type, which the engine
  // handles as a vector of bytes.
  std::string container;
  bool is_narrowed = false;  // declared as i64, stored as i32: values must fit
};

// A state, kept from run to run: one of the last inputs of the main graph, and the output with its next value.
struct State {
  TensorInfo info;        // of the input; all dimensions are numbers, or all but the first, by which the state grows
  std::string initial;    // the bytes of its initial value; "": zeros
  bool in_place = false;  // a node writes the next value where the present one is, and nothing else reads that

  bool grows() const { return !info.dims.empty() && info.dims[0].size < 0; }
  TensorType type() const;  // at the beginning: what grows is empty
};

struct Model {
  std::string path;         // "" when loaded from memory
  std::string packed_path;  // of the file with packed weights, which need not be there
  // What all sessions share: packed weights, and the numbers of constants that the file has in another form.
  std::shared_ptr<MemoryAccount> memory = std::make_shared<MemoryAccount>();
  Graph main;
  std::vector<Graph> graphs;
  std::vector<TensorInfo> inputs, outputs;  // without states
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

// Loads a model from a file or from memory. A companion weights file must be in the folder of `path`. `packed`: the
// file with packed weights; "": the one beside the model.
Status load_model(const std::string& path, std::shared_ptr<const Model>* out, FileAccess access = FileAccess::kMapped,
                  const std::string& packed = "");
Status load_model(const void* bytes, size_t size, std::shared_ptr<const Model>* out);

}  // namespace minnow
