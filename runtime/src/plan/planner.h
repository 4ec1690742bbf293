// Plans one stage: types, constants, fusion, layouts, memory.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "runtime/src/fuse/plan_graph.h"
#include "runtime/src/run/executor.h"

namespace minnow {

class Planner {
 public:
  Planner(Executor& executor, Stage& stage) : x_(executor), stage_(stage) {}

  // Input i of the graph is of this type.
  Status add_input(int i, const TensorType& type);
  // `work` are the nodes still to be run, in order. Those that cannot be planned yet are left in stage.pending, with
  // the questions to be settled first.
  Status plan(const std::vector<PlanNode>& work);
  // The stage that follows another, given the answers to its questions.
  Status plan_after(Stage& before, const std::vector<Answer>& answers);

 private:
  // types.cpp: what is known before the run
  Status place(PlanNode node);
  Status expand(const PlanNode& node);
  Status infer(const PlanNode& node, bool* waits);
  Status fold(const PlanNode& node, bool* folded);
  void wait(const PlanNode& node, Question::Kind kind, std::vector<int> values = {});
  Status contents(int value, std::shared_ptr<const Tensor>* out);
  Status unify(PlanNode* node);  // unify.cpp
  Status cast_operand(PlanNode* node, size_t i, DType target);
  Status infer_wide(PlanNode* node, bool* waits);
  Status type_control(const PlanNode& node, bool* waits);
  bool is_read(int value) const;
  Status set_types(const PlanNode& node, const std::vector<TensorType>& types);

  // steps.cpp: kernels and layouts
  Status fuse_nodes();
  Status emit(PlanNode node);
  Status widen_channels(PlanNode* node);
  Status emit_copy(int value, Form form, Slot** out, bool is_passed_on = false);
  bool is_read_in(int value, Layout layout) const;
  Status emit_view(const PlanNode& node);
  Status operand(int value, Layout layout, Step* step);
  Slot* new_slot(int value, TensorType type, int device, Storage* storage);
  Storage* new_storage(Storage::Kind kind, int64_t bytes, int device = 0);
  Status find_kernel(const PlanNode& node, const KernelRow* row, Step* step);
  void finish_step(Step step);
  Status shape_kernels();

  // devices.cpp: which device runs what, and when one waits for another
  Status assign_devices(PlanGraph& graph);
  std::set<int> states_in_place() const;
  Status place_wherever_possible(PlanGraph& graph, int only);
  Status place_side_by_side(PlanGraph& graph);
  // What a backend may know of a node before it has a kernel. `constants`: to stand in for those of the node.
  NodeContext types_of(const PlanNode& node, std::vector<Tensor>* constants) const;
  double estimate(const PlanNode& node, size_t device, std::string* why);
  void begin_devices_early();
  void order_queues();
  void find_recordables();
  void find_recordables(bool with_copies, std::vector<Recordable>* parts) const;
  void keep_for_queues();

  void group_steps();  // groups.cpp: what runs side by side

  // memory.cpp: outputs and memory
  Status deliver_outputs();
  void find_lifetimes();
  void place_parts();
  void share_memory();
  void gather_chains();
  void assign_memory();

  Executor& x_;
  Stage& stage_;
  std::vector<PlanNode> nodes_;
};

}  // namespace minnow
