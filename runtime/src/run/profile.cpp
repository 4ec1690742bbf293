// What an executor tells of its runs.
#include <algorithm>
#include <numeric>

#include "runtime/src/run/control.h"
#include "runtime/src/run/executor.h"

namespace minnow {
namespace {

// The sum over the executors of the bodies of control flow.
template <typename Controls>
int64_t of_bodies(const Controls& controls, int64_t (Executor::*bytes_of)() const) {
  int64_t bytes = 0;
  for (const auto& [node, control] : controls) {
    std::vector<Executor*> executors;
    control->executors(&executors);
    for (const Executor* executor : executors) bytes += (executor->*bytes_of)();
  }
  return bytes;
}

}  // namespace

void Executor::start_profile() {
  profiling_ = true;
  for (Stage* stage : active_)
    for (Step& step : stage->steps) {
      step.ms = 0;
      step.runs = 0;
    }
  for (const auto& [node, control] : controls_) {
    std::vector<Executor*> executors;
    control->executors(&executors);
    for (Executor* executor : executors) executor->start_profile();
  }
}

void Executor::end_profile(int runs, const std::string& prefix, std::vector<ProfileRow>* rows) {
  profiling_ = false;
  for (Stage* stage : active_) {
    for (size_t i = 0; i < stage->steps.size(); ++i) {
      const Step& step = stage->steps[i];
      if (step.runs == 0) continue;  // a branch that was not taken
      ProfileRow row;
      for (size_t k = 0; k < stage->groups.size(); ++k) {
        const std::vector<size_t>& ends = stage->groups[k].ends;
        if (i < ends.front() || i >= ends.back()) continue;
        row.group = static_cast<int64_t>(k) + 1;
        row.chain = std::upper_bound(ends.begin(), ends.end(), i) - ends.begin();
      }
      static_cast<Placement&>(row) = place_of(step, prefix);
      static_cast<Profile&>(row) = step.entry->kernel->profile();
      row.ms = step.ms / runs;
      for (const auto* slots : {&step.in, &step.out})
        for (const Slot* slot : *slots) row.bytes += slot == nullptr ? 0 : slot->tensor.type.bytes();
      for (const auto& constant : step.constants) row.bytes += constant == nullptr ? 0 : constant->type().bytes();
      if (step.is_transfer) row.copied = step.out[0]->tensor.type.bytes();
      for (const Slot* slot : step.out)
        if (slot != nullptr && row.shape.empty()) row.shape = slot->tensor.shape().str();
      rows->push_back(std::move(row));
    }
  }
  for (const auto& [node, control] : controls_) {
    std::vector<Executor*> executors;
    control->executors(&executors);
    for (Executor* executor : executors) executor->end_profile(runs, prefix + node->name + "/", rows);
  }
}

Placement Executor::place_of(const Step& step, const std::string& prefix) const {
  const std::string measured = environment_.trials == nullptr ? "" : environment_.trials->summary();
  const std::string why = step.why + (step.why.empty() || measured.empty() ? "" : "; ") + measured;
  return {prefix + step.name, step.op, backend(step.device).name(), why};
}

uint64_t Executor::placement_hash() const {
  const Stage& root = *plans_.front().second;
  if (!root.pending.empty() || !controls_.empty()) return 0;
  uint64_t hash = 14695981039346656037u;
  for (const Step& step : root.steps) hash = (hash ^ static_cast<uint64_t>(step.device + 1)) * 1099511628211u;
  return hash | 1;
}

void Executor::placement(const std::string& prefix, std::vector<Placement>* rows) const {
  for (const Stage* stage : active_)
    for (const Step& step : stage->steps) rows->push_back(place_of(step, prefix));
  for (const auto& [node, control] : controls_) {
    std::vector<Executor*> executors;
    control->executors(&executors);
    for (const Executor* executor : executors) executor->placement(prefix + node->name + "/", rows);
  }
}

int64_t Executor::arena_bytes() const {
  int64_t bytes = 0;
  for (const auto& arenas : arenas_)
    for (const auto& arena : arenas) bytes += arena == nullptr ? 0 : arena->bytes();
  return bytes + of_bodies(controls_, &Executor::arena_bytes);
}

int64_t Executor::least_bytes() const {
  return std::accumulate(least_.begin(), least_.end(), of_bodies(controls_, &Executor::least_bytes));
}

}  // namespace minnow
