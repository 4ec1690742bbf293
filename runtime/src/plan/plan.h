// What is decided before a run, for one set of input types: which kernels run in which order on which memory.
//
// A plan is a chain of stages. Most models need one. Where a shape depends on contents that only the run computes (the
// target of a Reshape, what NonMaxSuppression leaves over, the end of a loop), the stage ends; at run time the shapes
// are settled, and the rest is planned as another stage, which is kept for the next run that comes to the same shapes.
#pragma once

#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/core/kernel_table.h"
#include "runtime/src/backend/backend.h"
#include "runtime/src/model/graph.h"
#include "runtime/src/run/limits.h"

namespace minnow {

struct Lowering;  // lower/lowering.h

// A node on its way to a kernel. Made from a Node of the graph, by lowering it, or by fusing others.
struct PlanNode {
  const OpSpec* op = nullptr;  // null for ops to be lowered and control flow
  const Lowering* lowering = nullptr;
  std::shared_ptr<const Attrs> attrs;
  const Node* source = nullptr;
  int64_t part = 0;               // distinguishes the nodes that one source is expanded to
  std::vector<int> in, out;       // values of the stage
  std::vector<TensorType> types;  // of the outputs, when they were settled at run time
  int device = 0;                 // where it runs: a number of the session's devices
  std::string why;                // it runs there, where there was a choice

  // The number of its own part k, of at most kMostParts. There are parts of parts, as long as 64 bits can tell them
  // from each other: what is computed for one must never be taken for another.
  static constexpr int64_t kMostParts = 1 << 16;
  bool has_parts() const { return part < std::numeric_limits<int64_t>::max() / kMostParts; }
  int64_t part_number(int64_t k) const { return part * kMostParts + k; }

  std::string place() const;  // "Conv '/layer1/Conv_3'", for messages
};

// What is known of a value.
struct PlanValue {
  bool known = false;      // its type is
  bool is_static = false;  // constant for the life of the model, not only for this plan
  TensorType type;
  std::shared_ptr<Constant> constant;  // the contents, when they are known
};

// Whether the node's result is the same memory as its first input, under another shape. `values` are the stage's.
bool is_view(const PlanNode& node, const std::vector<PlanValue>& values);

struct Stage;

// In which form a value is there: its layout, and the device in whose memory it lies; 0 is the host's.
struct Form {
  Layout layout = Layout::kPlain;
  uint8_t device = 0;

  bool operator<(const Form& o) const { return device != o.device ? device < o.device : layout < o.layout; }
};

struct Storage {
  enum Kind : uint8_t { kArena, kInput, kOutput, kDynamic };
  Kind kind = kArena;
  const Stage* stage = nullptr;  // whose it is
  int device = 0;                // in whose memory it lies
  int index = -1;                // of the graph's input or output
  int given_on = 0;              // the device in whose memory the caller has it in the present run
  int first = 0, last = 0;       // steps
  int64_t bytes = 0;
  int64_t offset = 0;
  char* data = nullptr;
  Storage* merged = nullptr;  // shares the memory of that one
  int64_t shift = 0;          // from where that one begins

  Storage* root() {
    Storage* storage = this;
    while (storage->merged != nullptr) storage = storage->merged;
    return storage;
  }
  // Where it lies, once the root has its memory. After planning, what a storage is merged into is a root.
  char* place() const { return merged == nullptr || merged->data == nullptr ? data : merged->data + shift; }
};

// A value in one form, at its place.
struct Slot {
  Tensor tensor;
  Storage* storage = nullptr;
  bool is_passed_on = false;  // read only by the copy to another device
};

// A kernel is shared by all plans that run the same node, so that weights are packed once.
struct KernelEntry {
  const OpSpec* op = nullptr;      // null for control flow, conversions and copies
  const KernelRow* row = nullptr;  // of the table of its device
  int device = 0;
  std::shared_ptr<const Attrs> attrs;
  std::unique_ptr<Kernel> kernel;
  std::string signature;          // element types, ranks and layouts, for which it was made
  std::vector<TensorType> types;  // of the latest reshape: inputs, then outputs
  int64_t workspace = 0;
};

struct Step {
  std::string name, op;      // for messages and the profile
  int device = 0;            // on whose queue it runs
  std::string why;           // it runs there, where there was a choice
  bool is_transfer = false;  // a copy between that device and the host
  uint32_t finishes = 0;     // a bit for each device whose queue has to be done before
  uint32_t follows = 0;      // a bit for each device whose queue its own has to wait for
  std::shared_ptr<KernelEntry> entry;
  RunContext context;
  std::vector<std::shared_ptr<Constant>> constants;     // per input, null where it is not constant
  std::vector<bool> is_static;                          // per input
  std::vector<Layout> layouts;                          // in which constants are read, per input
  std::vector<std::shared_ptr<const Tensor>> contents;  // of the constants that run() reads
  std::vector<std::unique_ptr<Tensor>> types;           // stand in for constants that run() does not read
  std::vector<Slot*> in, out;                           // null where constant or missing
  Storage* workspace = nullptr;
  int scheme = -1;       // by which its kernel computes; -1: by the one that it takes by itself
  bool is_long = false;  // may take longer than some milliseconds
  bool ready = false;    // `contents` are those that the kernel reads
  Status error;          // of the present run
  double ms = 0;         // spent in all runs that are profiled
  int64_t runs = 0;

  std::string place() const { return name.empty() ? op : op + " '" + name + "'"; }
};

// Steps of a stage that run side by side: chains, each of steps that run one after the other. A chain reads nothing
// that another chain of the group makes.
struct Group {
  std::vector<size_t> ends;  // where the first chain begins, and where each ends
};

// Steps of a device which follow each other, and which nothing else comes between: its queue may record them.
struct Recordable {
  // Holds for the addresses in the memory of the caller which the steps have read and written.
  struct Recorded {
    std::vector<const void*> addresses;
    std::unique_ptr<Recording> recording;
  };
  int device = 0;
  size_t begin = 0, end = 0;       // steps
  std::vector<const Slot*> given;  // inputs and outputs of the graph which its copies read and write
  int64_t runs = 0;                // without a recording, since the memory was bound
  std::vector<Recorded> recorded;
};

// An output of the graph that is not computed in place: an input, a constant, or another output once more.
struct Delivery {
  int output = -1;
  const Slot* slot = nullptr;
  std::shared_ptr<const Tensor> constant;
};

// What is to be settled when a stage has run, before the next can be planned.
struct Question {
  enum Kind : uint8_t { kContents, kTypes, kControl };
  Kind kind = kContents;
  int pending = -1;         // index in Stage::pending
  std::vector<int> values;  // kContents: those whose contents make the answer
};

struct Answer {
  std::vector<TensorType> types;  // kTypes, kControl: of the node's outputs
  std::vector<Tensor> outputs;    // kControl: the outputs, in memory that lives until the node is asked again
};

struct Stage {
  Stage* parent = nullptr;
  int depth = 0;
  int placing = -1;  // of a root: see Trials
  std::vector<PlanValue> values;
  Charge charge;  // for the values, of which each of many stages has its own
  std::vector<PlanNode> pending;
  int64_t replacements = 0;  // nodes that others were replaced by, in this stage and those before
  std::vector<Question> questions;
  std::vector<bool> delivered;  // which outputs of the graph, by this stage or those before

  std::deque<Storage> storages;
  std::deque<Slot> slots;
  std::map<std::pair<int, Form>, Slot*> placed;
  std::vector<Step> steps;
  uint32_t devices = 0;                 // a bit for each device but the host's that has steps
  std::vector<Group> groups;            // in order; the other steps run one after the other
  std::vector<Recordable> recordables;  // in order; only kernels
  // In order; also with the copies of inputs and outputs around them, which can be recorded where the caller has these
  // in the memory of the device.
  std::vector<Recordable> with_copies;
  std::vector<Delivery> deliveries;
  std::vector<Slot*> bound;          // slots outside this stage's arena: their memory may change with each run
  std::vector<Storage*> outputs;     // kOutput
  std::vector<Storage*> answers;     // kDynamic, in the order of the questions that made them
  std::vector<int64_t> arena_bytes;  // by device
  int64_t least_bytes = 0;           // that any arenas need for this stage
  bool is_tuned = false;             // the schemes of its steps are chosen
  std::vector<const char*> bases;    // of the arenas, when the slots were bound to them

  std::map<std::string, std::unique_ptr<Stage>> next;  // by the answers

  Slot* find(int value, Form form) const {
    for (const Stage* stage = this; stage != nullptr; stage = stage->parent) {
      const auto it = stage->placed.find({value, form});
      if (it != stage->placed.end()) return it->second;
    }
    return nullptr;
  }
};

bool same_type(const TensorType& a, const TensorType& b);
bool same_types(const std::vector<TensorType>& a, const std::vector<TensorType>& b);

}  // namespace minnow
