// The nodes of a stage while fusions make fewer of them. At any time it is known who makes and who reads each value.
//
// A fusion is a function over it (pipeline.h). It walks over the nodes by their numbers, 0 to size() - 1, in an order
// in which each node follows what it reads, and puts a node in the place of another one. A node that has been dropped
// keeps its number, and is of no op.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/src/plan/plan.h"

namespace minnow {

class PlanGraph {
 public:
  static constexpr int kOutside = -1;  // a reader that is none of the nodes

  // `read_outside`: values that something else reads (outputs of the graph, nodes that are planned later), as many
  // times as it does. `values` are those of the stage, and outlive it. Once `watch` says that the run is to stop, is()
  // throws a StatusError.
  PlanGraph(std::vector<PlanNode> nodes, std::vector<PlanValue>& values, const std::vector<int>& read_outside,
            Precision precision, Watch* watch);

  int size() const { return static_cast<int>(nodes_.size()); }
  const PlanNode& node(int id) const { return nodes_[static_cast<size_t>(id)]; }
  // Whether there is such a node (no number is below 0), and it is of this op.
  bool is(int id, std::string_view op) const;
  bool is_dropped(int id) const { return node(id).source == nullptr; }
  // Whether its result is the same memory under another shape.
  bool is_view(int id) const { return minnow::is_view(node(id), values_); }
  Precision precision() const { return precision_; }  // that the session computes in
  // From now on, nodes of other devices than this one have no op: fusions leave them alone.
  void look_at(int device) { device_ = device; }
  bool is_looked_at(int id) const { return device_ < 0 || node(id).device == device_; }
  void place(int id, int device, std::string why);

  int num_values() const { return static_cast<int>(values_.size()); }
  const PlanValue& value(int v) const { return values_[static_cast<size_t>(v)]; }
  const TensorType& type(int v) const { return value(v).type; }
  const Shape& shape(int v) const { return value(v).type.shape; }
  bool is_constant(int v) const { return value(v).constant != nullptr; }
  // What a constant holds; null where it is none, or cannot be had.
  std::shared_ptr<const Tensor> contents(int v) const;
  // The only element of a constant; nothing where there are more, or it cannot be had.
  std::optional<double> number(int v) const;
  // A new value of the stage, like this one; a node is to be added that makes it.
  int add_value(PlanValue value);
  // For a value that nodes of the stage make and read.
  void set_dtype(int v, DType dtype) { values_[static_cast<size_t>(v)].type.dtype = dtype; }

  // The nodes that read a value, each once for every operand in which it does so; kOutside for all others.
  const std::vector<int>& readers(int v) const { return readers_[static_cast<size_t>(v)]; }
  // The only one, or -1: none, more, or something outside.
  int only_reader(int v) const;
  // The node that makes a value, or -1: none of these does, or there is no such value (v < 0).
  int maker(int v) const { return v < 0 ? -1 : makers_[static_cast<size_t>(v)]; }

  // Puts a node in the place of another one.
  void replace(int id, PlanNode node);
  // The same outputs are made by this op, of these inputs.
  void become(int id, const char* op, std::vector<int> in, std::shared_ptr<const Attrs> attrs);
  void set_attrs(int id, std::shared_ptr<const Attrs> attrs);
  void set_inputs(int id, std::vector<int> in);
  void drop(int id);
  // Drops the nodes with unused results.
  void drop_unread();
  // These nodes take the place of all there were: they are numbered anew.
  void reset(std::vector<PlanNode> nodes);
  // The nodes that are left, in order. Nothing is left here.
  std::vector<PlanNode> take();

 private:
  void link(int id);
  void unlink(int id);
  void go_on() const;

  std::vector<PlanNode> nodes_;
  std::vector<PlanValue>& values_;
  std::vector<int> read_outside_;
  Precision precision_;
  Watch* watch_;
  mutable int left_ = 0;  // calls of is() before the next look at the watch
  int device_ = -1;       // all
  std::vector<std::vector<int>> readers_;
  std::vector<int> makers_;
};

}  // namespace minnow
