// The weights of products with one row are read as they are stored, where they are few: to pack them costs more than
// hundreds of runs gain by it. Where all of a model's weights are of this kind, they come from memory in each run, and
// faster from the large pages of packed ones.
#include "runtime/src/fuse/pipeline.h"

namespace minnow {

void keep_stored_weights(PlanGraph& graph) {
  constexpr int64_t kMostBytes = 16 << 20;
  const auto is_row = [&](int id) {
    if (!graph.is(id, "Linear")) return false;
    const Shape& x = graph.shape(graph.node(id).in[0]);
    return graph.is_constant(graph.node(id).in[1]) && x.count(0, x.rank() - 1) == 1;
  };
  int64_t bytes = 0;
  for (int i = 0; i < graph.size(); ++i)
    if (is_row(i)) bytes += graph.type(graph.node(i).in[1]).bytes();
  if (bytes > kMostBytes) return;
  for (int i = 0; i < graph.size(); ++i) {
    if (!is_row(i)) continue;
    auto attrs = std::make_shared<Attrs>(*graph.node(i).attrs);
    attrs->set("stored", true);
    graph.set_attrs(i, std::move(attrs));
  }
}

}  // namespace minnow
