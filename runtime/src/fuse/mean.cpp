// The mean of each channel, without axes of one element: the pooling that works on packed tensors, and a view.
#include "runtime/src/lower/lowering.h"
#include "runtime/src/plan/planner.h"

namespace minnow {
namespace {

// The axes are all of those behind the channels.
bool is_spatial(const std::vector<int64_t>& axes, int rank) {
  uint32_t found = 0;
  for (int64_t axis : axes) found |= uint32_t{1} << (axis < 0 ? axis + rank : axis);
  return rank > 2 && found == (uint32_t{1} << rank) - 4;
}

}  // namespace

void Planner::pool_means() {
  const Op *pool = find_op("GlobalAveragePool"), *squeeze = find_op("Squeeze");
  if (pool == nullptr || squeeze == nullptr) return;
  std::vector<PlanNode> nodes;
  nodes.reserve(nodes_.size());
  for (PlanNode& node : nodes_) {
    const bool is_mean = node.op != nullptr && std::string_view(node.op->name) == "ReduceMean";
    const TensorType x = is_mean ? stage_.values[static_cast<size_t>(node.in[0])].type : TensorType();
    const std::vector<int64_t> axes = is_mean ? node.attrs->ints("axes") : std::vector<int64_t>();
    // A mean of nothing is none of the pooling's.
    if (is_spatial(axes, x.shape.rank()) && x.dtype == DType::kF32 && x.shape.count() > 0 &&
        !node.attrs->b("keepdims", true)) {
      PlanValue mean = stage_.values[static_cast<size_t>(node.out[0])];
      mean.type.shape = x.shape;
      for (int i = 2; i < x.shape.rank(); ++i) mean.type.shape[i] = 1;
      stage_.values.push_back(mean);
      PlanNode pooled = node;
      pooled.op = pool;
      pooled.attrs = std::make_shared<const Attrs>();
      pooled.part = node.part * (1 << 16) + (1 << 14);
      pooled.out = node.in = {static_cast<int>(stage_.values.size()) - 1};
      nodes.push_back(std::move(pooled));
      node.op = squeeze;
      node.attrs = std::make_shared<const Attrs>(make_attrs({{"axes", axes}}));
    }
    nodes.push_back(std::move(node));
  }
  nodes_ = std::move(nodes);
}

}  // namespace minnow
