// Runs one graph: the model's, or a body of control flow.
#pragma once

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/src/run/limits.h"
#include "runtime/src/run/trials.h"
#include "runtime/src/backend/devices.h"
#include "runtime/src/plan/plan.h"

namespace minnow {

// What is known of a graph's outputs when it gets inputs of these types, as it is the same in each of its executors.
struct GraphTypes {
  bool known = false;  // before the run
  std::vector<TensorType> types;
};
using KnownTypes = std::map<const Graph*, std::map<std::vector<TensorType>, GraphTypes, BeforeTypes>>;

// A node as an observer of a run sees it.
struct NodeEvent {
  const std::string& name;  // with those of the control flow nodes around it in front: "loop/add"
  const std::string& op;
  // In the host's memory and in plain layout; valid during the call. Those without data are missing.
  const std::vector<Tensor>& inputs;
  const std::vector<Tensor>* outputs;  // null before the node runs
};

// Sees the nodes of a run, one after the other, in the thread of the run.
class Observer {
 public:
  virtual ~Observer() = default;
  // Before and after each node. An error ends the run.
  virtual Status see(const NodeEvent& event) = 0;
};

struct Observation {
  Observer* observer = nullptr;           // of the present run; null: none
  std::string prefix;                     // of the names of the nodes that run now
  std::atomic<std::thread::id> thread{};  // in which the observer is being called
};

// Held by the session that runs, where several of them take turns.
struct Turn {
  std::mutex mutex;
  Observation observation;
};

class SharedArena;

// What all executors of a session share.
struct Environment {
  const Devices* devices = nullptr;
  ThreadPool* pool = nullptr;
  Precision precision = Precision::kHigh;
  Watch* watch = nullptr;
  KnownTypes* types = nullptr;  // of the branches that were asked for
  Observation* observation = nullptr;
  const Trials* trials = nullptr;
  SharedArena* arena = nullptr;  // null: each executor has its own

  // For the bodies of control flow: they run while the graph around them does, whose arena is in use.
  Environment for_bodies() const {
    Environment copy = *this;
    copy.arena = nullptr;
    return copy;
  }
};

// Where outputs go. Asked once per run and output, as soon as the type is known.
class OutputSink {
 public:
  virtual ~OutputSink() = default;
  // Memory of type.bytes() bytes that lives until the run is over; null when there is none.
  virtual void* memory(int index, const TensorType& type) = 0;
  // The device in whose memory it gives them.
  virtual int device(int index) const {
    (void)index;
    return 0;
  }
  // Whether the memory that it gives on a device has been allocated since the run began.
  virtual bool is_new(int index) const {
    (void)index;
    return true;
  }
  // Whether the output is used. If not, memory() is not called for it.
  virtual bool wants(int index) const {
    (void)index;
    return true;
  }
};

// Where a node runs.
struct Placement {
  std::string name, op, device;
  std::string why;  // there, where there was a choice
};

struct ProfileRow : Profile, Placement {
  std::string shape;
  double ms = 0;                 // of one run, on average
  int64_t bytes = 0;             // of all operands and results, as tensors
  int64_t copied = 0;            // between the host and a device
  int64_t group = 0, chain = 0;  // which of them ran side by side; 0: alone
};

class Control;

class Executor {
 public:
  Executor(const Model& model, const Graph& graph, const Environment& environment);
  ~Executor();

  // Makes the plan for these input types, or finds the one made before. run() wants the same types.
  Status prepare(const std::vector<TensorType>& inputs);
  // The types of all outputs, if the plan needs no answers from the run; then run() cannot fail but by what kernels
  // report.
  bool output_types(std::vector<TensorType>* types) const;
  bool is_prepared() const { return !active_.empty(); }
  // The device whose memory the latest plan takes an input from, and puts an output to, without the host; 0: none.
  int device_between(int input, int output) const;
  // What the plan knows of an output of the graph.
  const PlanValue& planned_output(int i) const;

  // `inputs` as in the graph; only contiguous, plain memory. Null is allowed for inputs of no bytes. `places`: the
  // devices in whose memory they lie; null: in the host's.
  Status run(const std::vector<const void*>& inputs, OutputSink& sink, const std::vector<int>* places = nullptr);

  void start_profile();
  void end_profile(int runs, const std::string& prefix, std::vector<ProfileRow>* rows);
  // Of the nodes of the latest plan, as far as it is made, and of the bodies of control flow.
  void placement(const std::string& prefix, std::vector<Placement>* rows) const;
  int64_t arena_bytes() const;
  int64_t least_bytes() const;  // that the arenas had needed at least, however tensors are placed

  const Model& model() const { return model_; }
  const Graph& graph() const { return graph_; }
  const Environment& environment() const { return environment_; }
  // How nodes are to be placed in the present run: see Trials.
  int placing() const { return environment_.trials == nullptr ? Trials::kShortest : environment_.trials->placing(); }
  // A number for which node runs where; 0 where only the run tells that of all nodes.
  uint64_t placement_hash() const;
  const Devices& devices() const { return *environment_.devices; }
  Backend& backend(int device) const { return *devices()[static_cast<size_t>(device)].backend; }
  const Backend& host() const { return backend(0); }
  // The type in which values of a type lie in the memory of a device.
  DType stored(DType type, int device) const { return backend(device).stored(type, environment_.precision); }
  // All forms that a value can have.
  std::vector<Form> forms() const;
  // What executes a node of control flow; made at first use.
  Status control(const Node& node, Control** out);
  // Whether the limits of the session admit another executor, of this graph. To be called before creating one.
  static Status may_make(const Model& model, const Graph& graph, const Environment& environment);

 private:
  friend class Planner;

  Status activate(Stage& stage);
  Status reshape(Step& step);
  // The constant in the memory of a device, as its kernels read it. `keep`: for all plans.
  Status on_device(const Constant& constant, Form form, bool keep, std::shared_ptr<const Tensor>* out);
  Status grow_arena(const Stage& stage);
  void bind_arena(Stage& stage);
  void forget_stages();
  static void forget_recordings(Stage& stage);
  Status run_stage(Stage& stage, OutputSink& sink);
  // device_memory.cpp: inputs and outputs in the memory of a device
  bool is_taken_by(const Stage& stage, const Storage& input, int device) const;
  bool is_given_by(const Stage& stage, const Storage& output, int device) const;
  Status take_input(const Stage& stage, Storage& input, const void* data, int place);
  Status place_output(const Stage& stage, Storage& output, OutputSink& sink);
  Status move_results();
  Status give(const Tensor& from, void* to, int device);
  bool run_step(Step& step);  // false when it has an error
  void run_group(Stage& stage, const Group& group);
  Status run_steps(Stage& stage);
  // Whether the caller has everything that it copies from and to in the memory of its device.
  bool can_record_copies(const Recordable& part) const;
  Status run_recorded(Stage& stage, Recordable& part);
  // tuning.cpp: chooses the schemes of the steps of the other devices. What they have written is no longer there.
  Status tune(Stage& stage, bool* has_run);
  // As run_steps(), for an observer: one step after the other, each waited for.
  Status run_observed(Stage& stage);
  Status on_host(const Tensor& tensor, int device, Buffer* memory, Tensor* out);
  Placement place_of(const Step& step, const std::string& prefix) const;
  // Waits for the queues of these devices, and tells the first error of the steps that they have run.
  Status finish(Stage& stage, uint32_t devices, size_t end);
  Status operand(const Stage& stage, int value, std::shared_ptr<const Tensor>* held, const Tensor** tensor) const;
  // Settles the questions of the stage and finds or plans the one that follows.
  Status cross(Stage& stage, Stage** next);

  const Model& model_;
  const Graph& graph_;
  Environment environment_;
  std::vector<PlanNode> nodes_;  // of the graph, before any plan

  // Most recently used first.
  std::list<std::pair<std::vector<TensorType>, std::unique_ptr<Stage>>> plans_;
  std::vector<Stage*> active_;                                // by depth: the stages whose kernels are in shape
  std::vector<std::vector<std::unique_ptr<Memory>>> arenas_;  // by depth and device
  std::vector<int64_t> least_;                                // by depth, of all stages that have used the arena
  std::map<std::pair<const Node*, int64_t>, std::vector<std::shared_ptr<KernelEntry>>> kernels_;
  std::map<std::pair<const Node*, int64_t>, std::vector<std::shared_ptr<Constant>>> folded_;  // static results
  // Static constants in other layouts.
  std::map<std::pair<const Constant*, Layout>, std::shared_ptr<Constant>> packed_;
  std::map<std::pair<const Constant*, Form>, std::shared_ptr<const Tensor>> on_devices_;  // of static constants
  std::vector<size_t> unfinished_;  // by device: the first step of the stage that its queue may not have done
  std::map<const Node*, std::unique_ptr<Control>> controls_;
  // Inputs and outputs of the present run which are used on the host, though the caller has them on a device.
  struct Moved {
    Tensor host;
    void* to = nullptr;
    int device = 0;
  };
  std::vector<Buffer> host_copies_;
  std::vector<Moved> moved_;
  size_t stages_ = 0;  // that follow others
  bool profiling_ = false;
};

}  // namespace minnow
