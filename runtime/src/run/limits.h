// What a session may take of time, memory and rounds, so that no file holds its caller up or takes the machine's
// memory.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "kernels/core/status.h"
#include "runtime/src/model/buffer.h"

namespace minnow {

// Subgraphs that call subgraphs: each level takes some kB of the stack of whoever runs the model.
constexpr int kMostNesting = 64;

// Of one list of declared things: what is copied by name (the body of a Fused, the branches of an If) may be copied so
// often. Models have a subgraph for each of their nodes that calls one, so that nothing is copied at all.
constexpr int64_t most_copies(int64_t declared) { return 200000 + 16 * declared; }

struct Limits {
  double seconds = 0;  // to make the session, and for each run; 0: any time
  int64_t memory = 0;  // bytes for intermediate tensors, states and results; 0: default_memory()
  int64_t rounds = 0;  // of loops, and branches taken, of one run; 0: kRounds

  // Far more than models loop, and less than ten seconds of the smallest rounds.
  static constexpr int64_t kRounds = 5000000;
};

// Without a limit set: 512 MiB, and 256 times the bytes that the model and its inputs have; but never more than three
// quarters of the machine's memory.
int64_t default_memory(int64_t given_bytes);

// Looked at between the nodes of a run, in loops and while planning. One run at a time; others may cancel it.
class Watch {
 public:
  // Whether to stop, asked every tenth of a second or so, in the thread that has called begin().
  using Poll = bool (*)();

  // Starts the clock. 0 seconds: any time. `poll` may be null.
  void begin(double seconds, int64_t rounds, Poll poll);
  // Async-signal-safe. What is under way ends with an error; what begins later does not.
  void cancel() { alert_.fetch_or(kCancelled, std::memory_order_relaxed); }

  // An error when it is time to stop.
  Status go_on() { return alert_.load(std::memory_order_relaxed) == 0 ? ok() : look(); }
  // The same; counts a round of a loop, or a branch that is taken.
  Status next_round();
  int64_t most_rounds() const { return most_rounds_; }

  MemoryAccount memory;
  // Subgraphs that are ready to run, each with its nodes.
  std::atomic<int64_t> copies{0};

 private:
  static constexpr int kWatched = 1, kCancelled = 2;
  Status look();

  std::atomic<int> alert_{0};
  int64_t deadline_ = 0, next_poll_ = 0;  // in nanoseconds of the clock; 0: none
  double seconds_ = 0;
  int64_t rounds_ = 0, most_rounds_ = Limits::kRounds;
  Poll poll_ = nullptr;
  pthread_t owner_{};
};

}  // namespace minnow
