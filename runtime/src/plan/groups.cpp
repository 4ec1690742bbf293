// Steps too small to be divided well among threads, which do not depend on each other, run side by side instead.
#include <algorithm>
#include <numeric>

#include "kernels/core/sort.h"
#include "runtime/src/plan/planner.h"

namespace minnow {
namespace {

// What handing work to other threads and waiting for them takes, and what a kernel takes beside its work.
constexpr double kHandOver = 2.5e-6, kStart = 0.2e-6;
// Parts of one kernel together take a little longer than the whole.
constexpr double kDivided = 1.02;
// Estimates are not exact, and a group is divided into few pieces.
constexpr double kWorthIt = 0.9;
constexpr size_t kMostSteps = 128;  // of a group
constexpr double kLarge = 20;       // so many times as long as to hand it over: gains nothing worth looking for
// Chains of a group, for each thread: one that comes late leaves the others to those that are there. More would need
// more memory, as each has its own.
constexpr size_t kChains = 2;  // arrange() deals two to a thread

// Which steps lead to each other, and how long all of these take together.
class Components {
 public:
  explicit Components(size_t n) : parent_(n), seconds_(n) {}
  void add(size_t step, double seconds) {
    parent_[step] = step;
    seconds_[step] = seconds;
  }
  // By one of its steps.
  size_t find(size_t step) {
    while (parent_[step] != step) step = parent_[step] = parent_[parent_[step]];
    return step;
  }
  // Whether they were two.
  bool unite(size_t a, size_t b) {
    a = find(a);
    b = find(b);
    if (a == b) return false;
    parent_[a] = b;
    seconds_[b] += seconds_[a];
    return true;
  }
  double seconds(size_t name) const { return seconds_[name]; }

 private:
  std::vector<size_t> parent_;
  std::vector<double> seconds_;
};

class Grouping {
 public:
  Grouping(const Stage& stage, int threads)
      : n_(stage.steps.size()), threads_(threads), seconds_(n_), makers_(n_), readers_(n_), components_(n_) {
    for (size_t i = 0; i < n_; ++i) {
      const Step& step = stage.steps[i];
      // Other devices run theirs in order; a step that waits for them holds up a whole group.
      seconds_[i] = step.device == 0 ? step.entry->kernel->seconds() : 0;
      if (seconds_[i] > kLarge * kHandOver * threads) seconds_[i] = 0;
      if (seconds_[i] > 0) seconds_[i] += kStart;
      for (const Slot* slot : step.in) {
        if (slot == nullptr || !is_made(*slot->storage, stage)) continue;
        const auto maker = static_cast<size_t>(slot->storage->first);  // it begins with the step that makes it
        makers_[i].push_back(maker);
        ++readers_[maker];
      }
    }
  }

  // Of all ways to cut the plan into groups, each of steps that follow each other, the one that is estimated to save
  // the most time: begin and end of each group, the last group first.
  std::vector<std::pair<size_t, size_t>> cut() {
    std::vector<double> saved(n_ + 1);  // among the first steps
    std::vector<size_t> from(n_ + 1);   // where the last of their groups begins; the end itself: the step is alone
    std::iota(from.begin(), from.end(), size_t{0});
    for (size_t begin = 0; begin <= n_; ++begin) {
      if (begin > 0 && saved[begin - 1] > saved[begin]) {
        saved[begin] = saved[begin - 1];
        from[begin] = begin;
      }
      if (begin < n_ && !continues_chain(begin)) extend(begin, &saved, &from);
    }
    std::vector<std::pair<size_t, size_t>> groups;
    for (size_t end = n_; end > 0;) {
      if (from[end] < end) groups.emplace_back(from[end], end);
      end = std::min(end - 1, from[end]);
    }
    return groups;
  }

  // Its components become chains, of about the same length where there are more. The steps of a chain follow each
  // other, in the order that they had.
  Group arrange(size_t begin, size_t end, std::vector<size_t>* order) {
    for (size_t i = begin; i < end; ++i) add(begin, i);
    std::vector<size_t> names;
    for (size_t i = begin; i < end; ++i)
      if (components_.find(i) == i) names.push_back(i);
    const auto longest_first = [](size_t count, auto seconds) {
      return order_of(static_cast<int64_t>(count), [&](int64_t a, int64_t b) {
        return seconds(static_cast<size_t>(a)) > seconds(static_cast<size_t>(b));
      });
    };
    const size_t threads = static_cast<size_t>(threads_), n = std::min(names.size(), kChains * threads);
    std::vector<double> length(n);
    std::vector<int64_t> chain_of(end - begin);
    // In this order, so that the last ones are short.
    for (int64_t i : longest_first(names.size(), [&](size_t i) { return components_.seconds(names[i]); })) {
      const size_t name = names[static_cast<size_t>(i)];
      const auto shortest = std::min_element(length.rbegin(), length.rend());
      *shortest += components_.seconds(name);
      chain_of[name - begin] = length.rend() - shortest - 1;
    }
    const std::vector<int64_t> chains = longest_first(n, [&](size_t k) { return length[k]; });
    Group group{{begin}};
    size_t at = begin;
    // The pool lets each thread begin with neighbors: a long chain and a short one.
    for (size_t k = 0; k < std::min(n, threads); ++k) {
      for (size_t c : {k, 2 * threads - 1 - k}) {
        if (c >= n) continue;
        for (size_t i = begin; i < end; ++i)
          if (chain_of[components_.find(i) - begin] == chains[c]) (*order)[at++] = i;
        group.ends.push_back(at);
      }
    }
    return group;
  }

 private:
  // In the middle of a chain no group begins: it would be as good, or better, if it began where the chain does.
  bool continues_chain(size_t i) const {
    return i > 0 && seconds_[i - 1] > 0 && readers_[i - 1] == 1 &&
           std::find(makers_[i].begin(), makers_[i].end(), i - 1) != makers_[i].end();
  }

  // Gives the next step to the components of the group. Returns by how many there are more of them.
  int64_t add(size_t begin, size_t i) {
    components_.add(i, seconds_[i]);
    int64_t more = 1;
    for (size_t maker : makers_[i])
      if (maker >= begin && components_.unite(maker, i)) --more;
    return more;
  }

  // All groups that begin here.
  void extend(size_t begin, std::vector<double>* saved, std::vector<size_t>* from) {
    double divided = 0, all = 0, longest = 0;
    int64_t count = 0;
    for (size_t i = begin; i < std::min(n_, begin + kMostSteps) && seconds_[i] > 0; ++i) {
      count += add(begin, i);
      all += seconds_[i];
      divided += std::min(seconds_[i], kDivided * seconds_[i] / threads_ + kHandOver);
      longest = std::max(longest, components_.seconds(components_.find(i)));
      const auto rounds = static_cast<double>((count + threads_ - 1) / threads_);
      const double beside = std::max(longest, rounds * all / static_cast<double>(count)) + kHandOver;
      const double gain = (*saved)[begin] + divided - beside;
      if (count < 2 || beside > kWorthIt * divided || gain <= (*saved)[i + 1]) continue;
      (*saved)[i + 1] = gain;
      (*from)[i + 1] = begin;
    }
  }

  static bool is_made(const Storage& storage, const Stage& stage) {
    return storage.stage == &stage && (storage.kind == Storage::kArena || storage.kind == Storage::kOutput);
  }

  const size_t n_;
  const int threads_;
  std::vector<double> seconds_;              // on one thread; 0: stays alone
  std::vector<std::vector<size_t>> makers_;  // of what a step reads
  std::vector<int> readers_;                 // of what a step makes
  Components components_;
};

}  // namespace

void Planner::group_steps() {
  const int threads = x_.environment_.pool->threads();
  if (threads == 1) return;
  Grouping grouping(stage_, threads);
  std::vector<size_t> order(stage_.steps.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (const auto& [begin, end] : grouping.cut()) stage_.groups.push_back(grouping.arrange(begin, end, &order));
  if (stage_.groups.empty()) return;
  std::reverse(stage_.groups.begin(), stage_.groups.end());
  std::vector<Step> steps;
  steps.reserve(order.size());
  for (size_t i : order) steps.push_back(std::move(stage_.steps[i]));
  stage_.steps = std::move(steps);
}

}  // namespace minnow
