#include "runtime/src/api/part.h"

#include <algorithm>
#include <numeric>

namespace minnow {
namespace {

constexpr size_t kMostParts = 4;
constexpr size_t kMostNames = 5;        // of those that are like an unknown one
constexpr size_t kLongestName = 256;    // that is compared with others
constexpr size_t kMostPairs = 1 << 26;  // of characters that are compared: a file may have any number of names

// The nodes that make these values, from the inputs of the graph.
Graph part_of(const Graph& whole, const std::vector<int>& values) {
  Graph part = whole;
  part.nodes.clear();
  part.outputs = values;
  std::vector<bool> needed(whole.values.size());
  for (int v : values) needed[static_cast<size_t>(v)] = true;
  for (auto node = whole.nodes.rbegin(); node != whole.nodes.rend(); ++node) {
    const auto is_needed = [&](int v) { return v >= 0 && needed[static_cast<size_t>(v)]; };
    if (std::none_of(node->out.begin(), node->out.end(), is_needed)) continue;
    for (int v : node->in)
      if (v >= 0) needed[static_cast<size_t>(v)] = true;
    part.nodes.push_back(*node);
  }
  std::reverse(part.nodes.begin(), part.nodes.end());
  return part;
}

// How many characters have to be added, left out or replaced to get from one to the other.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t k = 0; k < b.size(); ++k) {
      const size_t replaced = diagonal + (a[i] == b[k] ? 0 : 1);
      diagonal = row[k + 1];
      row[k + 1] = std::min({row[k] + 1, diagonal + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

Status Parts::find_value(const std::string& name, int* value) {
  if (values_.empty()) {
    const Graph& graph = model_.main;
    const auto add = [&](const std::string& known, int v) {
      if (!known.empty()) values_.emplace(known, v);  // the first of a name
    };
    for (size_t i = 0; i < model_.outputs.size(); ++i) add(model_.outputs[i].name, graph.outputs[i]);
    for (size_t i = 0; i < model_.inputs.size(); ++i) add(model_.inputs[i].name, graph.inputs[i]);
    for (size_t i = 0; i < model_.states.size(); ++i)
      add(model_.states[i].info.name, graph.inputs[model_.inputs.size() + i]);
    for (const Node& node : graph.nodes)
      for (int v : node.out)
        if (v >= 0) add(graph.values[static_cast<size_t>(v)].name, v);
    for (size_t v = 0; v < graph.values.size(); ++v)
      if (graph.values[v].constant != nullptr) add(graph.values[v].name, static_cast<int>(v));
  }
  const auto it = values_.find(name);
  if (it != values_.end()) {
    *value = it->second;
    return ok();
  }
  std::vector<std::pair<size_t, const std::string*>> like;
  const size_t farthest = std::max<size_t>(1, name.size() / 3);
  size_t pairs = 0;
  for (const auto& [known, v] : values_) {
    if (name.empty() || name.size() > kLongestName || known.size() > kLongestName) continue;
    const bool contains = known.find(name) != std::string::npos || name.find(known) != std::string::npos;
    const size_t longer = std::max(name.size(), known.size()) - std::min(name.size(), known.size());
    if (!contains && longer > farthest) continue;
    if (!contains) pairs += name.size() * known.size();
    if (pairs > kMostPairs) break;
    const size_t far = contains ? 1 : distance(name, known);
    if (far <= farthest) like.emplace_back(far, &known);
  }
  std::stable_sort(like.begin(), like.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string names;
  for (size_t i = 0; i < std::min(like.size(), kMostNames); ++i)
    names += (i == 0 ? "'" : ", '") + *like[i].second + "'";
  return Status(Code::kUsage, "the graph has no value '" + name + "'" +
                                  (names.empty() ? "" : "; similar names are " + names) +
                                  ". Values that were fused away, and those in subgraphs, cannot be fetched");
}

Status Parts::find(const std::vector<std::string>& names, const Environment& environment, Executor** out) {
  std::vector<int> values(names.size());
  for (size_t i = 0; i < names.size(); ++i) MINNOW_RETURN_IF_ERROR(find_value(names[i], &values[i]));
  auto it = std::find_if(parts_.begin(), parts_.end(), [&](const Part& part) { return part.values == values; });
  if (it != parts_.end()) {
    parts_.splice(parts_.begin(), parts_, it);
  } else {
    if (parts_.size() >= kMostParts) parts_.pop_back();
    Graph graph = part_of(model_.main, values);
    while (!parts_.empty() && !Executor::may_make(model_, graph, environment).ok()) parts_.pop_back();
    MINNOW_RETURN_IF_ERROR(Executor::may_make(model_, graph, environment));
    Part& part = parts_.emplace_front();
    part.values = std::move(values);
    part.graph = std::move(graph);
    part.executor = std::make_unique<Executor>(model_, part.graph, environment);
  }
  *out = parts_.front().executor.get();
  return ok();
}

int64_t Parts::arena_bytes() const {
  int64_t bytes = 0;
  for (const Part& part : parts_) bytes += part.executor->arena_bytes();
  return bytes;
}

}  // namespace minnow
