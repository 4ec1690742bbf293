// The cheapest way to divide nodes between two sides (Dinic's algorithm).
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <queue>
#include <vector>

namespace minnow {

class MinimumCut {
 public:
  static constexpr double kNever = 1e30;

  // Node 0 is on the first side, node 1 on the second.
  static constexpr size_t kFirst = 0, kSecond = 1;
  MinimumCut() : edges_(2) {}

  size_t add_node() {
    edges_.emplace_back();
    return edges_.size() - 1;
  }
  // What it costs if `from` is on the first side and `to` on the second; kNever: it is not to be.
  void add(size_t from, size_t to, double cost) {
    if (cost <= 0) return;
    edges_[from].push_back({to, edges_[to].size(), cost});
    edges_[to].push_back({from, edges_[from].size() - 1, 0});
  }
  // Of each node, whether it is on the second side. Where both sides cost the same, it is the second.
  std::vector<bool> solve() {
    while (find_levels()) {
      next_.assign(edges_.size(), 0);
      while (push(kFirst, kNever) > 0) {
      }
    }
    std::vector<bool> second(edges_.size());
    for (size_t i = 0; i < second.size(); ++i) second[i] = level_[i] < 0;
    return second;
  }

 private:
  struct Edge {
    size_t to, back;  // `back`: the place of the opposite edge among those of `to`
    double left;
  };
  // Costs are seconds, mostly microseconds: less is rounding.
  static constexpr double kNothing = 1e-15;

  bool find_levels() {
    level_.assign(edges_.size(), -1);
    level_[kFirst] = 0;
    std::queue<size_t> open;
    for (open.push(kFirst); !open.empty(); open.pop()) {
      for (const Edge& edge : edges_[open.front()]) {
        if (edge.left <= kNothing || level_[edge.to] >= 0) continue;
        level_[edge.to] = level_[open.front()] + 1;
        open.push(edge.to);
      }
    }
    return level_[kSecond] >= 0;
  }

  // One path, without recursion: graphs are as deep as models.
  double push(size_t from, double most) {
    std::vector<size_t> path;  // nodes, each with the edge at next_
    size_t at = from;
    while (at != kSecond) {
      size_t& k = next_[at];
      while (k < edges_[at].size() && (edges_[at][k].left <= kNothing || level_[edges_[at][k].to] != level_[at] + 1))
        ++k;
      if (k < edges_[at].size()) {
        path.push_back(at);
        at = edges_[at][k].to;
      } else if (path.empty()) {
        return 0;
      } else {
        at = path.back();
        path.pop_back();
        ++next_[at];
      }
    }
    for (size_t node : path) most = std::min(most, edges_[node][next_[node]].left);
    for (size_t node : path) {
      Edge& edge = edges_[node][next_[node]];
      edge.left -= most;
      edges_[edge.to][edge.back].left += most;
    }
    return most;
  }

  std::vector<std::vector<Edge>> edges_;
  std::vector<int> level_;
  std::vector<size_t> next_;
};

}  // namespace minnow
