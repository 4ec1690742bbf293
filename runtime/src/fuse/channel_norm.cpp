// A normalization of channels, or of groups of them, and the scale and bias per channel behind it become one node,
// which works on packed tensors.
#include <algorithm>

#include "runtime/src/fuse/pipeline.h"

namespace minnow {

// The norms that are no longer read are left for drop_unread.
void fuse_channel_norms(PlanGraph& graph) {
  for (int i = 0; i < graph.size(); ++i) {
    if (!graph.is(i, "Scale")) continue;
    // What makes a value for only one reader.
    const auto made_for_one = [&](int v) { return v >= 0 && graph.readers(v).size() == 1 ? graph.maker(v) : -1; };
    int x = graph.node(i).in[0], maker = made_for_one(x);
    for (; graph.is(maker, "Identity"); maker = made_for_one(x)) x = graph.node(maker).in[0];  // a layout conversion
    const bool groups = graph.is(maker, "GroupNorm");
    if (!groups && !graph.is(maker, "LayerNorm")) continue;
    const PlanNode& norm = graph.node(maker);
    const int64_t rank = graph.shape(x).rank(), axis = norm.attrs->i("axis", -1), first = axis < 0 ? axis + rank : axis;
    if (!groups && (rank <= 2 || (first != 1 && first != 2))) continue;
    if (std::any_of(norm.in.begin() + 1, norm.in.end(), [](int v) { return v >= 0; })) continue;
    auto attrs = std::make_shared<Attrs>();
    attrs->set("epsilon", norm.attrs->f("epsilon", 1e-5));
    const bool channels = !groups && first == 2;
    constexpr bool kHasInstance = is_kept("InstanceNorm"), kHasGroup = is_kept("GroupNorm");
    if (channels ? !kHasInstance : !kHasGroup) continue;
    if (!channels) attrs->set("num_groups", groups ? norm.attrs->i("num_groups") : int64_t{1});
    std::vector<int> in = graph.node(i).in;
    in[0] = norm.in[0];
    graph.become(i, channels ? "InstanceNorm" : "GroupNorm", std::move(in), std::move(attrs));
  }
}

}  // namespace minnow
