// Elementwise nodes that read each other become one, whose kernel goes over memory once.
#include <algorithm>
#include <numeric>

#include "kernels/core/program.h"
#include "runtime/src/fuse/pipeline.h"

namespace minnow {
namespace {

// One node of several, in their order. `number`: of each value in the program; -1 before and after.
PlanNode join(const PlanGraph& graph, const std::vector<int>& members, std::vector<int>* number) {
  const auto node = [&](int i) -> const PlanNode& { return graph.node(i); };
  const auto number_of = [&](int v) -> int& { return (*number)[static_cast<size_t>(v)]; };
  const auto leaves = [&](int v) {  // whether others read it
    for (int r : graph.readers(v))
      if (!std::binary_search(members.begin(), members.end(), r)) return true;
    return false;
  };
  PlanNode fused = node(members.back());
  const int last = fused.out[0];
  fused.op = find_op("Fused");
  fused.in.clear();
  auto program = std::make_shared<Program>();
  for (int m : members) number_of(node(m).out[0]) = 0;
  for (int m : members)
    for (int v : node(m).in)
      if (number_of(v) < 0) {
        number_of(v) = 0;
        fused.in.push_back(v);
      }
  // The first operand may give its memory to the first result.
  for (int& v : fused.in) {
    const TensorType& type = graph.value(v).type;
    if (type.shape != graph.value(last).type.shape || type.bytes() != graph.value(last).type.bytes() || leaves(v))
      continue;
    if (graph.value(v).constant == nullptr) std::swap(v, fused.in[0]);
  }
  for (int v : fused.in) number_of(v) = program->operands++;
  for (int m : members) {
    const int made = node(m).out[0];
    Program::Step step{node(m).op, node(m).attrs, {}, graph.value(made).type.dtype};
    for (int v : node(m).in) step.in.push_back(number_of(v));
    number_of(made) = program->operands + static_cast<int>(program->steps.size());
    program->steps.push_back(std::move(step));
    if (made != last && leaves(made)) fused.out.push_back(made);
  }
  for (int v : fused.out) program->results.push_back(number_of(v));
  for (int v : fused.in) number_of(v) = -1;
  for (int m : members) number_of(node(m).out[0]) = -1;
  program->seal();
  fused.attrs = std::move(program);
  return fused;
}

}  // namespace

// A path between two nodes of a group must not lead over others: they could run neither before nor after it. So each
// node has a level, which no edge leads down, and which only edges within a group lead to from the same level.
void fuse_elementwise(PlanGraph& graph) {
  const int n = graph.size();
  const auto node = [&](int i) -> const PlanNode& { return graph.node(i); };
  const auto value = [&](int v) -> const PlanValue& { return graph.value(v); };
  const auto maker = [&](int v) { return graph.maker(v); };
  std::vector<bool> fit(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) {
    const PlanNode& p = node(i);
    fit[static_cast<size_t>(i)] = p.op != nullptr && p.op->has(kElementwise) && graph.is_looked_at(i) &&
                                  p.out.size() == 1 && p.out[0] >= 0 && !graph.is_view(i) &&
                                  std::all_of(p.in.begin(), p.in.end(), [](int v) { return v >= 0; });
  }
  const auto joins = [&](int a, int b) {  // a makes what b reads
    return fit[static_cast<size_t>(a)] && fit[static_cast<size_t>(b)] &&
           value(node(a).out[0]).type.shape == value(node(b).out[0]).type.shape;
  };

  std::vector<int> level(static_cast<size_t>(n));
  const auto level_of = [&](int i) -> int& { return level[static_cast<size_t>(i)]; };
  for (int i = 0; i < n; ++i)
    for (int v : node(i).in)
      if (const int a = maker(v); a >= 0) level_of(i) = std::max(level_of(i), level_of(a) + !joins(a, i));
  // What is made of one tensor is made where it is needed: to keep one or the other takes the same memory.
  for (int i = n - 1; i >= 0; --i) {
    if (!fit[static_cast<size_t>(i)]) continue;
    int latest = INT32_MAX, full = -1;
    bool many = false;
    for (int b : graph.readers(node(i).out[0])) latest = std::min(latest, b < 0 ? -1 : level_of(b) - !joins(i, b));
    for (int v : node(i).in) {
      if (value(v).constant != nullptr || value(v).type.bytes() * 8 < value(node(i).out[0]).type.bytes()) continue;
      many = many || (full >= 0 && full != v) || value(v).type.bytes() > value(node(i).out[0]).type.bytes();
      full = v;
    }
    if (!many && latest != INT32_MAX) level_of(i) = std::max(level_of(i), latest);
  }

  std::vector<int> group(static_cast<size_t>(n));
  std::iota(group.begin(), group.end(), 0);
  const auto find = [&](int i) {
    for (auto u = static_cast<size_t>(i); group[u] != i; u = static_cast<size_t>(i))
      i = group[u] = group[static_cast<size_t>(group[u])];
    return i;
  };
  for (int i = 0; i < n; ++i)
    for (int v : node(i).in)
      if (const int a = maker(v); a >= 0 && level_of(a) == level_of(i) && joins(a, i)) {
        const int other = find(a);
        group[static_cast<size_t>(other)] = find(i);
      }
  std::vector<std::vector<int>> members(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) members[static_cast<size_t>(find(i))].push_back(i);

  // In an order in which each follows what it reads, as near to the one before as can be.
  std::vector<PlanNode> ordered;
  std::vector<int> number(static_cast<size_t>(graph.num_values()), -1);
  std::vector<bool> done(static_cast<size_t>(n));
  std::vector<int> stack;
  for (int i = 0; i < n; ++i) {
    if (members[static_cast<size_t>(find(i))].back() != i) continue;
    stack.push_back(find(i));
    while (!stack.empty()) {
      const int name = stack.back();
      const std::vector<int>& all = members[static_cast<size_t>(name)];
      const size_t before = stack.size();
      for (int m : all)
        for (int v : node(m).in)
          if (const int a = maker(v); a >= 0 && find(a) != name && !done[static_cast<size_t>(find(a))])
            stack.push_back(find(a));
      if (stack.size() > before) continue;
      stack.pop_back();
      if (done[static_cast<size_t>(name)]) continue;
      done[static_cast<size_t>(name)] = true;
      ordered.push_back(all.size() == 1 ? node(name) : join(graph, all, &number));
    }
  }
  graph.reset(std::move(ordered));
}

}  // namespace minnow
