// The mean of each channel, without axes of one element: the pooling that works on packed tensors, and a view.
#include <algorithm>
#include <numeric>

#include "runtime/src/late.h"
#include "runtime/src/planner.h"

namespace minnow {

void Planner::pool_means() {
  const Op *pool = find_op("GlobalAveragePool"), *squeeze = find_op("Squeeze");
  if (pool == nullptr || squeeze == nullptr) return;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].op == nullptr || std::string_view(nodes_[i].op->name) != "ReduceMean") continue;
    const TensorType x = stage_.values[static_cast<size_t>(nodes_[i].in[0])].type;
    std::vector<int64_t> axes = nodes_[i].attrs->ints("axes"),
                         spatial(static_cast<size_t>(std::max(x.shape.rank() - 2, 0)));
    for (int64_t& axis : axes) axis += axis < 0 ? x.shape.rank() : 0;
    std::sort(axes.begin(), axes.end());
    std::iota(spatial.begin(), spatial.end(), 2);
    // A mean of nothing is none of the pooling's.
    if (axes.empty() || axes != spatial || x.dtype != DType::kF32 || x.shape.count() == 0) continue;
    if (nodes_[i].attrs->b("keepdims", true)) continue;
    PlanValue mean = stage_.values[static_cast<size_t>(nodes_[i].out[0])];
    mean.type.shape = x.shape;
    for (int64_t axis : axes) mean.type.shape[static_cast<int>(axis)] = 1;
    PlanNode view = nodes_[i];
    stage_.values.push_back(mean);
    nodes_[i].op = pool;
    nodes_[i].attrs = std::make_shared<const Attrs>();
    nodes_[i].part = view.part * (1 << 16) + (1 << 14);
    nodes_[i].out = view.in = {static_cast<int>(stage_.values.size()) - 1};
    view.op = squeeze;
    view.attrs = std::make_shared<const Attrs>(make_attrs({{"axes", axes}}));
    nodes_.insert(nodes_.begin() + static_cast<std::ptrdiff_t>(i) + 1, std::move(view));
  }
}

}  // namespace minnow
