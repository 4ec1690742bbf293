#include "kernels/core/interrupt.h"

#include <algorithm>
#include <ctime>

namespace minnow {
namespace {

// A piece of a loop is made as long as that.
constexpr int64_t kAimNanoseconds = 16000000;
thread_local Interrupt* current_interrupt = nullptr;

}  // namespace

int64_t coarse_nanoseconds() {
  timespec time{};
#ifdef CLOCK_MONOTONIC_COARSE
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
#else
  clock_gettime(CLOCK_MONOTONIC, &time);
#endif
  return int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
}

Interrupt* Interrupt::current() noexcept { return current_interrupt; }

InterruptScope::InterruptScope(Interrupt* interrupt) noexcept : outer_(current_interrupt) {
  current_interrupt = interrupt;
}
InterruptScope::~InterruptScope() { current_interrupt = outer_; }

int64_t Pace::look(int64_t wanted) {
  const int64_t now = coarse_nanoseconds(), elapsed = now - last_;
  if ((taken_ == 0 || elapsed > 0) && interrupt_->is_due()) return 0;
  if (taken_ == 0) {
    // The first piece tells how long the others take.
  } else if (elapsed < kAimNanoseconds / 2) {
    most_ = std::max(most_, 4 * taken_);
  } else if (elapsed > kAimNanoseconds * 2) {
    most_ = std::max<int64_t>(1, std::min(most_, taken_ * (kAimNanoseconds >> 10) / (elapsed >> 10)));
  }
  last_ = now;
  return taken_ = std::min(wanted, most_);
}

}  // namespace minnow
