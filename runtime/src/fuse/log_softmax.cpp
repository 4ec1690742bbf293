// LogSoftmax, which files spell out as x - max - log(sum(exp(x - max))), in one node again.
#include "runtime/src/fuse/pipeline.h"

namespace minnow {
namespace {

// Whether it reduces one axis, and keeps it as one of size 1.
bool reduces_one_axis(const PlanGraph& graph, int reduce, int64_t* axis) {
  const PlanNode& node = graph.node(reduce);
  const int rank = graph.shape(node.in[0]).rank();
  const std::vector<int64_t> axes = node.attrs->ints("axes");
  if (axes.size() != 1 || (node.in.size() > 1 && node.in[1] >= 0)) return false;
  *axis = axes[0] < 0 ? axes[0] + rank : axes[0];
  return graph.shape(node.out[0]).rank() == rank;
}

}  // namespace

void fuse_log_softmax(PlanGraph& graph) {
  // Operand i of a node is made by this op, for so many readers: the node that makes it, or -1.
  const auto made_by = [&](int of, size_t i, std::string_view op, size_t uses) {
    const int v = of < 0 ? -1 : graph.node(of).in[i];
    const int maker = graph.maker(v);
    return graph.is(maker, op) && graph.readers(v).size() == uses ? maker : -1;
  };
  for (int i = 0; i < graph.size(); ++i) {
    if (!graph.is(i, "Sub")) continue;
    const int log = made_by(i, 1, "Log", 1), sum = made_by(log, 0, "ReduceSum", 1), exp = made_by(sum, 0, "Exp", 1);
    if (exp < 0 || graph.node(exp).in[0] != graph.node(i).in[0]) continue;
    const int shift = made_by(i, 0, "Sub", 2), max = made_by(shift, 1, "ReduceMax", 1);
    if (max < 0) continue;
    const int x = graph.node(shift).in[0];
    int64_t axis = 0, max_axis = 0;
    if (graph.node(max).in[0] != x || !reduces_one_axis(graph, sum, &axis)) continue;
    if (!reduces_one_axis(graph, max, &max_axis) || axis != max_axis) continue;
    auto attrs = std::make_shared<Attrs>();
    attrs->set("axis", axis);
    graph.become(i, "LogSoftmax", {x}, std::move(attrs));
  }
}

}  // namespace minnow
