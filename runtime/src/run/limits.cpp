#include "runtime/src/run/limits.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace minnow {
namespace {

constexpr int64_t kPollNanoseconds = 100000000;
constexpr int64_t kLeastMemory = int64_t{512} << 20, kMemoryPerByte = 256;

}  // namespace

int64_t default_own_memory(int64_t given_bytes) {
  return std::min(physical_memory() / 4 * 3, default_memory(given_bytes));
}

int64_t default_memory(int64_t given_bytes) {
  const int64_t most = physical_memory();
  if (given_bytes >= most / kMemoryPerByte) return most;
  return std::min(most, kLeastMemory + kMemoryPerByte * given_bytes);
}

void Watch::begin(double seconds, int64_t rounds, Poll poll) {
  // More than a century is no limit.
  const bool timed = seconds > 0 && seconds < 3e9;
  const int64_t start = coarse_nanoseconds();
  deadline_ = timed ? start + static_cast<int64_t>(std::ceil(seconds * 1e9)) : std::numeric_limits<int64_t>::max();
  seconds_ = seconds;
  poll_ = poll;
  next_poll_ = start + kPollNanoseconds;
  rounds_ = 0;
  most_rounds_ = rounds > 0 ? rounds : Limits::kRounds;
  owner_ = pthread_self();
  alert_.store(timed || poll != nullptr ? kWatched : 0, std::memory_order_relaxed);
}

Status Watch::look() {
  if ((alert_.load(std::memory_order_relaxed) & kCancelled) != 0)
    return fail(Code::kCancelled, "stopped: it was cancelled");
  const int64_t time = coarse_nanoseconds();
  if (time >= deadline_) return fail(Code::kStopped, "stopped: it has taken longer than %g seconds", seconds_);
  poll(time);
  return (alert_.load(std::memory_order_relaxed) & kCancelled) == 0 ? ok() : look();
}

bool Watch::is_due() noexcept {
  const int alert = alert_.load(std::memory_order_relaxed);
  if (alert == 0 || (alert & kCancelled) != 0) return alert != 0;
  const int64_t time = coarse_nanoseconds();
  if (time >= deadline_) return true;
  poll(time);
  return (alert_.load(std::memory_order_relaxed) & kCancelled) != 0;
}

void Watch::poll(int64_t time) {
  if (pthread_equal(owner_, pthread_self()) == 0 || poll_ == nullptr || time < next_poll_) return;
  next_poll_ = time + kPollNanoseconds;
  if (poll_()) cancel();
}

Status Watch::next_round() {
  if (++rounds_ > most_rounds_)
    return fail(Code::kUnsupported, "more than %lld iterations of loops in one run, the limit set by max_rounds",
                static_cast<long long>(most_rounds_));
  return go_on();
}

}  // namespace minnow
