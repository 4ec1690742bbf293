// The limits of a session on time, memory and loop iterations: files are untrusted, and must neither block the caller
// nor exhaust the machine's memory.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "kernels/core/interrupt.h"
#include "kernels/core/status.h"
#include "runtime/src/model/buffer.h"

namespace minnow {

// Nesting of subgraphs that call subgraphs: each level takes some kB of the stack of the calling thread.
constexpr int kMostNesting = 64;

// How many nodes may come from copies of subgraphs (the body of a Fused, the branches of an If) in a file that declares
// so many ops and tensors. Ordinary models have a separate subgraph for each node that calls one, and need no copies.
constexpr int64_t most_copies(int64_t declared) { return 200000 + 16 * declared; }

// How many nodes may come from nodes that a plan replaces by others, such as grouped layers by a node for each group.
constexpr int64_t most_replacements(int64_t declared) { return 50000 + 16 * declared; }

// How many times a run may plan what follows from sizes that it has just computed, each time for what is left.
constexpr int kMostStages = 512;

// Memory that is counted by an account as long as this exists, and allocated elsewhere.
class Charge {
 public:
  Charge() = default;
  ~Charge() {
    if (account_ != nullptr) account_->give_back(bytes_);
  }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  // Once. An error if that exceeds the limit of the account.
  Status take(MemoryAccount* account, int64_t bytes) {
    MINNOW_RETURN_IF_ERROR(account->take(bytes));
    account_ = account;
    bytes_ = bytes;
    return ok();
  }

 private:
  MemoryAccount* account_ = nullptr;
  int64_t bytes_ = 0;
};

struct Limits {
  double seconds = 0;  // to create the session, and for each run; 0: no limit
  int64_t memory = 0;  // bytes for tensors, states, results and packed weights; 0: default_memory()
  int64_t rounds = 0;  // iterations of loops, and branches taken, in one run; 0: kRounds

  // Far more iterations than ordinary models need, and less than ten seconds of the shortest ones.
  static constexpr int64_t kRounds = 5000000;
};

// The default memory limit in bytes: 512 MiB plus 256 times the bytes of the model and its inputs, but at most the
// machine's memory.
int64_t default_memory(int64_t given_bytes);
// What of that a session may take beside packed weights: at most three quarters of the machine's memory.
int64_t default_own_memory(int64_t given_bytes);

// Checks the limits between the nodes of a run, within long ones, in loops and during planning. One run at a time; any
// thread may cancel it.
class Watch final : public Interrupt {
 public:
  // Whether to stop; called about every tenth of a second, in the thread that has called begin().
  using Poll = bool (*)();

  // Starts the clock. 0 seconds: no limit. `poll` may be null.
  void begin(double seconds, int64_t rounds, Poll poll);
  // Async-signal-safe. The current run ends with an error; later runs are not affected.
  void cancel() { alert_.fetch_or(kCancelled, std::memory_order_relaxed); }

  // An error if the run is to stop.
  Status go_on() override { return alert_.load(std::memory_order_relaxed) == 0 ? ok() : look(); }
  // The same, from within a node, in any thread of the run.
  bool is_due() noexcept override;
  Status fits(int64_t bytes) override { return memory.fits(bytes); }
  Status take(int64_t bytes) override { return memory.take(bytes); }
  void give_back(int64_t bytes) noexcept override { memory.give_back(bytes); }
  // The same; also counts an iteration of a loop, or a branch taken.
  Status next_round();
  int64_t most_rounds() const { return most_rounds_; }

  MemoryAccount memory;
  // Nodes of all subgraphs that have executors.
  std::atomic<int64_t> copies{0};

 private:
  static constexpr int kWatched = 1, kCancelled = 2;
  Status look();
  void poll(int64_t time);

  std::atomic<int> alert_{0};
  // A worker that wakes up late may ask for the run before: the limits that it reads are atomic.
  std::atomic<int64_t> deadline_{0};  // in nanoseconds of the clock
  int64_t next_poll_ = 0;             // by the owner
  double seconds_ = 0;
  int64_t rounds_ = 0, most_rounds_ = Limits::kRounds;
  Poll poll_ = nullptr;
  std::atomic<pthread_t> owner_{};
};

}  // namespace minnow
