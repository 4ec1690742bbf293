// Several phases of work by the same threads, each split into the same parts, with a barrier between them: a phase
// starts when all parts of the one before are done.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "kernels/core/thread_pool.h"

namespace minnow {

// For loops whose steps are so short that handing each of them to the pool would take longer than its work, and whose
// parts should stay with one thread because its cache holds what they read. A thread does its own part of a phase, and
// then those that no thread has begun: a thread that the system does not run delays others by at most one part.
class Lockstep {
 public:
  void reshape(int parts) {
    if (parts == parts_) return;
    parts_ = parts;
    begun_ = std::make_unique<Counter[]>(static_cast<size_t>(parts));
  }
  int parts() const { return parts_; }

  // Calls body(phase, part) for all of them. One run at a time.
  void run(int64_t phases, ThreadPool* pool, FunctionRef<void(int64_t, int)> body);

 private:
  struct alignas(64) Counter {
    std::atomic<int64_t> value{0};
  };
  void work(int64_t phases, int own, FunctionRef<void(int64_t, int)> body);

  int parts_ = 0;
  std::unique_ptr<Counter[]> begun_;  // by part: the phases it was begun in
  Counter done_;                      // parts of all phases
};

}  // namespace minnow
