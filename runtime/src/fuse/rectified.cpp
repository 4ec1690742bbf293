// Sums and the like before a Relu: one pass over memory instead of two.
#include <algorithm>

#include "runtime/src/fuse/pipeline.h"
#include "runtime/src/lower/lowering.h"

namespace minnow {

void fuse_rectified(PlanGraph& graph) {
  constexpr std::string_view kOps[] = {"Add", "Sub", "Mul", "Div", "Max", "Min"};
  for (int i = 0; i < graph.size(); ++i) {
    const PlanNode& node = graph.node(i);
    if (node.op == nullptr || std::find(std::begin(kOps), std::end(kOps), node.op->name) == std::end(kOps)) continue;
    const int relu = graph.only_reader(node.out[0]);
    if (!graph.is(relu, "Relu") || !is_float(graph.type(node.out[0]).dtype)) continue;
    auto attrs = std::make_shared<const Attrs>(make_attrs({{"op", node.op->name}}));
    std::vector<int> in = node.in;
    graph.drop(i);
    graph.become(relu, "BinaryRelu", std::move(in), std::move(attrs));
  }
}

}  // namespace minnow
