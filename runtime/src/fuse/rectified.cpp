// Sums and the like before a Relu: one pass over memory instead of two.
#include "runtime/src/fuse/pipeline.h"
#include "runtime/src/lower/lowering.h"

namespace minnow {
namespace {

// BinaryRelu says itself which ops it takes.
bool is_rectified(const PlanGraph& graph, const PlanNode& node, const Attrs& attrs) {
  if (node.in.size() != 2 || node.in[0] < 0 || node.in[1] < 0) return false;
  std::vector<TensorType> types(1);
  InferContext context(attrs, {&graph.type(node.in[0]), &graph.type(node.in[1])}, {nullptr, nullptr}, &types);
  const OpSpec* rectified = find_op("BinaryRelu");
  return rectified != nullptr && rectified->infer(context).ok();
}

}  // namespace

void fuse_rectified(PlanGraph& graph) {
  for (int i = 0; i < graph.size(); ++i) {
    const PlanNode& node = graph.node(i);
    if (node.op == nullptr || !graph.is_looked_at(i) || node.out.size() != 1 || node.out[0] < 0) continue;
    const int relu = graph.only_reader(node.out[0]);
    if (!graph.is(relu, "Relu")) continue;
    auto attrs = std::make_shared<const Attrs>(make_attrs({{"op", node.op->name}}));
    if (!is_rectified(graph, node, *attrs)) continue;
    std::vector<int> in = node.in;
    graph.drop(i);
    graph.become(relu, "BinaryRelu", std::move(in), std::move(attrs));
  }
}

}  // namespace minnow
