#include "runtime/src/model/graph.h"

#include <algorithm>
#include <map>

namespace minnow {

std::vector<int> output_sources(const Graph& graph) {
  std::map<int, int> source;
  for (const Node& node : graph.nodes)
    if (node.op == "Identity" && node.in.size() == 1 && node.out.size() == 1) source[node.out[0]] = node.in[0];
  std::vector<int> values = graph.outputs;
  for (int& v : values)
    for (auto it = source.find(v); it != source.end(); it = source.find(v)) v = it->second;
  return values;
}

TensorType State::type() const {
  TensorType type{info.dtype, Layout::kPlain, Shape()};
  for (const Dim& dim : info.dims) type.shape.push_back(std::max<int64_t>(dim.size, 0));
  return type;
}

}  // namespace minnow
