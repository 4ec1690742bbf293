// What an executor tells of its runs.
#include "runtime/src/control.h"
#include "runtime/src/executor.h"

namespace minnow {

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
    for (const Step& step : stage->steps) {
      if (step.runs == 0) continue;  // a branch that was not taken
      ProfileRow row;
      row.name = prefix + step.name;
      row.op = step.op;
      row.scheme = step.entry->kernel->scheme();
      row.macs = step.entry->kernel->macs();
      row.ms = step.ms / runs;
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

int64_t Executor::arena_bytes() const {
  int64_t bytes = 0;
  for (const Buffer& arena : arenas_) bytes += arena.size();
  for (const auto& [node, control] : controls_) {
    std::vector<Executor*> executors;
    control->executors(&executors);
    for (const Executor* executor : executors) bytes += executor->arena_bytes();
  }
  return bytes;
}

}  // namespace minnow
