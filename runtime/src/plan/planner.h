// Plans one stage: types, constants, fusion, layouts, memory.
#pragma once

#include <string>
#include <vector>

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
  Status set_types(const PlanNode& node, const std::vector<TensorType>& types);

  // fuse/fuse.cpp: fewer nodes
  std::vector<std::vector<int>> readers() const;  // of each value, as indices of nodes_; -1 for others
  std::vector<int> producers() const;             // of each value; -1 where none of nodes_ makes it
  void drop(const std::vector<bool>& gone);       // of nodes_
  void fuse();
  void pair_convolutions();
  void fuse_gates();
  void fuse_rectified();
  void keep_stored_weights();
  bool is_pointwise(const PlanNode& conv) const;
  bool is_view(const PlanNode& node) const;
  void fuse_requantization();  // fuse/requantization.cpp
  void fuse_log_softmax();     // fuse/log_softmax.cpp
  void fuse_spelled();         // fuse/spelled.cpp
  void fuse_norms();           // fuse/norm.cpp
  void fuse_attention();       // fuse/attention.cpp
  void pool_means();           // fuse/mean.cpp
  void fuse_elementwise();     // fuse/elementwise.cpp
  PlanNode join(const std::vector<int>& members, const std::vector<std::vector<int>>& readers,
                std::vector<int>* number) const;
  void drop_dead();

  // steps.cpp: kernels and layouts
  Status emit(PlanNode node);
  Status widen_channels(PlanNode* node);
  Status emit_copy(int value, Layout layout, Slot** out);
  Status emit_view(const PlanNode& node);
  Status operand(int value, Layout layout, Step* step);
  Slot* new_slot(int value, const TensorType& type, Storage* storage);
  Storage* new_storage(Storage::Kind kind, int64_t bytes);
  Status find_kernel(const PlanNode& node, Step* step);
  void finish_step(Step step);
  Status shape_kernels();

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
