// The mean of each channel, without the reduced axes, becomes a global pooling, which works on packed tensors, and a
// view.
#include "runtime/src/fuse/pipeline.h"
#include "runtime/src/lower/lowering.h"

namespace minnow {
namespace {

// The axes are all of those behind the channels.
bool is_spatial(const std::vector<int64_t>& axes, int rank) {
  uint32_t found = 0;
  for (int64_t axis : axes) found |= uint32_t{1} << (axis < 0 ? axis + rank : axis);
  return rank > 2 && found == (uint32_t{1} << rank) - 4;
}

// Not of empty images, whose mean GlobalAveragePool does not define.
bool can_pool(const PlanGraph& graph, int id) {
  if (!graph.is(id, "ReduceMean") || !graph.node(id).has_parts()) return false;
  const PlanNode& node = graph.node(id);
  const TensorType& x = graph.type(node.in[0]);
  return is_spatial(node.attrs->ints("axes"), x.shape.rank()) && x.dtype == DType::kF32 && x.shape.count() > 0 &&
         !node.attrs->b("keepdims", true);
}

}  // namespace

void pool_spatial_means(PlanGraph& graph) {
  const auto *pool = find_op("GlobalAveragePool"), *squeeze = find_op("Squeeze");
  if (pool == nullptr || squeeze == nullptr) return;
  bool found = false;
  for (int i = 0; i < graph.size() && !found; ++i) found = can_pool(graph, i);
  if (!found) return;
  std::vector<PlanNode> nodes;
  for (int i = 0; i < graph.size(); ++i) {
    PlanNode node = graph.node(i);
    if (can_pool(graph, i)) {
      PlanValue mean = graph.value(node.out[0]);
      mean.type.shape = graph.shape(node.in[0]);
      for (int axis = 2; axis < mean.type.shape.rank(); ++axis) mean.type.shape[axis] = 1;
      PlanNode pooled = node;
      pooled.op = pool;
      pooled.attrs = std::make_shared<const Attrs>();
      pooled.part = node.part_number(1 << 14);
      pooled.out = {graph.add_value(std::move(mean))};
      node.in = pooled.out;
      nodes.push_back(std::move(pooled));
      const std::vector<int64_t> axes = node.attrs->ints("axes");
      node.op = squeeze;
      node.attrs = std::make_shared<const Attrs>(make_attrs({{"axes", axes}}));
    }
    nodes.push_back(std::move(node));
  }
  graph.reset(std::move(nodes));
}

}  // namespace minnow
