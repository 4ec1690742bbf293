// Numbers per channel behind a normalization of channels or of groups of them, which the file has apart, in one node:
// the one that works on packed tensors.
#include <algorithm>

#include "runtime/src/plan/planner.h"

namespace minnow {

// The norms that become needless are left for drop_dead().
void Planner::fuse_norms() {
  const std::vector<std::vector<int>> readers = this->readers();
  const std::vector<int> producer = producers();
  // The node that makes `v` for only one reader.
  const auto made_by = [&](int v) -> const PlanNode* {
    const int i = v < 0 ? -1 : producer[static_cast<size_t>(v)];
    if (i < 0 || readers[static_cast<size_t>(v)].size() != 1) return nullptr;
    return nodes_[static_cast<size_t>(i)].op == nullptr ? nullptr : &nodes_[static_cast<size_t>(i)];
  };
  for (PlanNode& node : nodes_) {
    if (node.op == nullptr || std::string_view(node.op->name) != "Scale") continue;
    int x = node.in[0];
    const PlanNode* maker = made_by(x);
    // The file converts between layouts here.
    for (; maker != nullptr && std::string_view(maker->op->name) == "Identity"; maker = made_by(x)) x = maker->in[0];
    if (maker == nullptr) continue;
    const PlanNode& norm = *maker;
    const int64_t rank = stage_.values[static_cast<size_t>(x)].type.shape.rank();
    const std::string_view op = norm.op->name;
    auto attrs = std::make_shared<Attrs>();
    attrs->set("epsilon", norm.attrs->f("epsilon", 1e-5));
    const char* whole = "GroupNorm";
    if (op == "GroupNorm") {
      attrs->set("num_groups", norm.attrs->i("num_groups"));
    } else if (op == "LayerNorm" && rank > 2) {
      const int64_t axis = norm.attrs->i("axis", -1), first = axis < 0 ? axis + rank : axis;
      if (first == 2)
        whole = "InstanceNorm";
      else if (first == 1)
        attrs->set("num_groups", int64_t{1});
      else
        continue;
    } else {
      continue;
    }
    if (std::any_of(norm.in.begin() + 1, norm.in.end(), [](int v) { return v >= 0; })) continue;
    node.op = find_op(whole);
    node.attrs = std::move(attrs);
    node.in[0] = norm.in[0];
  }
}

}  // namespace minnow
