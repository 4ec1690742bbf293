// Operands and results as strided views of other values: where a kernel takes strides, the nodes between that
// transpose, split, slice, repeat or scale need not be run.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "runtime/src/fuse/plan_graph.h"
#include "runtime/src/fuse/view.h"

namespace minnow {

// Where a value is written: how it lies in another one. `last`: of the nodes that move it there, or -1.
struct Destination {
  View view;
  int value;
  int last = -1;
};

class OperandViews {
 public:
  explicit OperandViews(const PlanGraph& graph) : graph_(graph) {}

  // A value as it is.
  View base(int v) const;
  // A value as it lies in the one that it is made from, by moves and, where these are allowed, scales alone.
  View view(int v, bool scaled, int depth = 0) const;
  // An operand of a product, repeated to the product's batch. Its two matrix dims, the last ones, have one stride each.
  std::optional<View> matrix(int v, const Shape& batch, bool transposed, bool scaled) const;
  // Where the value goes: to the end of what moves it about, as long as the strides of its dims are of a form that is
  // accepted.
  Destination destination(int value, const std::function<bool(const View&)>& accepts) const;

  // A constant of one float.
  std::optional<double> number(int v) const;
  // A product with, or a quotient by a constant number.
  bool is_scaling(int id, int* of, double* factor) const;

 private:
  std::optional<std::vector<int64_t>> ints(const PlanNode& node, size_t i) const;
  bool step(int id, int v, View* view) const;

  const PlanGraph& graph_;
};

}  // namespace minnow
