// LogSoftmax, which files spell out as x - max - log(sum(exp(x - max))), in one node again.
#include "runtime/src/plan/planner.h"

namespace minnow {

void Planner::fuse_log_softmax() {
  const std::vector<std::vector<int>> readers = this->readers();
  const std::vector<int> producer = producers();
  // The node that makes `v` for so many readers, if it is of this op.
  const auto made_by = [&](int v, std::string_view op, size_t uses) -> const PlanNode* {
    const int i = v < 0 ? -1 : producer[static_cast<size_t>(v)];
    if (i < 0 || readers[static_cast<size_t>(v)].size() != uses) return nullptr;
    const PlanNode& node = nodes_[static_cast<size_t>(i)];
    return node.op != nullptr && node.op->name == op ? &node : nullptr;
  };
  const auto axis_of = [&](const PlanNode& reduce, int64_t* axis) {
    const Shape& x = stage_.values[static_cast<size_t>(reduce.in[0])].type.shape;
    const std::vector<int64_t> axes = reduce.attrs->ints("axes");
    if (axes.size() != 1 || (reduce.in.size() > 1 && reduce.in[1] >= 0)) return false;
    *axis = axes[0] < 0 ? axes[0] + x.rank() : axes[0];
    return stage_.values[static_cast<size_t>(reduce.out[0])].type.shape.rank() == x.rank();  // its dim is kept
  };
  for (PlanNode& node : nodes_) {
    if (node.op == nullptr || std::string_view(node.op->name) != "Sub") continue;
    const PlanNode* log = made_by(node.in[1], "Log", 1);
    const PlanNode* sum = log == nullptr ? nullptr : made_by(log->in[0], "ReduceSum", 1);
    const PlanNode* exp = sum == nullptr ? nullptr : made_by(sum->in[0], "Exp", 1);
    if (exp == nullptr || exp->in[0] != node.in[0]) continue;
    const PlanNode* shift = made_by(node.in[0], "Sub", 2);
    const PlanNode* max = shift == nullptr ? nullptr : made_by(shift->in[1], "ReduceMax", 1);
    int64_t axis = 0, max_axis = 0;
    if (max == nullptr || max->in[0] != shift->in[0] || !axis_of(*sum, &axis) || !axis_of(*max, &max_axis)) continue;
    if (axis != max_axis) continue;
    auto attrs = std::make_shared<Attrs>();
    attrs->set("axis", axis);
    node.op = find_op("LogSoftmax");
    node.attrs = std::move(attrs);
    node.in = {shift->in[0]};
  }
}

}  // namespace minnow
