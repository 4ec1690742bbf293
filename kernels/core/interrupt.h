// Ends long work before it is done: a run that was cancelled, or whose time has passed.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/core/status.h"

namespace minnow {

// A clock that is accurate to a few milliseconds, and several times faster to read than the exact one.
int64_t coarse_nanoseconds();

// Asked by the threads of a run while a node takes long.
class Interrupt {
 public:
  // Whether the work is to end. What it has computed is not used then.
  virtual bool is_due() noexcept = 0;
  // The same as an error that says why.
  virtual Status go_on() = 0;
  // An error where the run may not take so many bytes more.
  virtual Status fits(int64_t bytes) = 0;
  // The same; otherwise they count until they are given back.
  virtual Status take(int64_t bytes) = 0;
  virtual void give_back(int64_t bytes) noexcept = 0;

  // That of the work that the calling thread does now; null: its work cannot be ended.
  static Interrupt* current() noexcept;

 protected:
  ~Interrupt() = default;
};

// Asked before a kernel, or an inference from contents, takes memory of its own that grows with its tensors: an error
// if the run of the calling thread may not take that many bytes.
inline Status room_for(int64_t bytes) {
  Interrupt* interrupt = Interrupt::current();
  return interrupt == nullptr ? ok() : interrupt->fits(bytes);
}

// An error if the work of the calling thread is to end: what its loops have made may be half of it then.
inline Status is_whole() {
  Interrupt* interrupt = Interrupt::current();
  return interrupt == nullptr || !interrupt->is_due() ? ok() : interrupt->go_on();
}

// Memory that a kernel keeps from run to run beside its tensors and workspace, such as tables: it counts for the run of
// the thread that keeps it, as long as this object exists, which the interrupt outlives.
class KeptMemory {
 public:
  KeptMemory() = default;
  ~KeptMemory() { clear(); }
  KeptMemory(KeptMemory&& other) noexcept
      : interrupt_(std::exchange(other.interrupt_, nullptr)), bytes_(other.bytes_) {}
  KeptMemory& operator=(KeptMemory&&) = delete;

  // So many bytes in place of those before.
  Status keep(int64_t bytes) {
    clear();
    Interrupt* interrupt = Interrupt::current();
    if (interrupt == nullptr) return ok();
    MINNOW_RETURN_IF_ERROR(interrupt->take(bytes));
    interrupt_ = interrupt;
    bytes_ = bytes;
    return ok();
  }
  void clear() {
    if (interrupt_ != nullptr) interrupt_->give_back(bytes_);
    interrupt_ = nullptr;
  }

 private:
  Interrupt* interrupt_ = nullptr;
  int64_t bytes_ = 0;
};

// The interrupt of what the calling thread does while this object exists.
class InterruptScope {
 public:
  explicit InterruptScope(Interrupt* interrupt) noexcept;
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  Interrupt* outer_;
};

// How many blocks of a long loop to take at once, so that each piece takes some milliseconds, and the interrupt is
// asked between them.
class Pace {
 public:
  // Of a loop over so many blocks. Without an interrupt all are taken at once, and no clock is read.
  Pace(Interrupt* interrupt, int64_t blocks) : interrupt_(interrupt), most_(blocks / 64 > 0 ? blocks / 64 : 1) {}

  // At most so many blocks; 0: the work is to end.
  int64_t take(int64_t wanted) { return interrupt_ == nullptr ? wanted : look(wanted); }

 private:
  int64_t look(int64_t wanted);

  Interrupt* interrupt_;
  int64_t most_, taken_ = 0, last_ = 0;
};

// For a loop in a kernel that is not split among threads, or whose blocks can take long:
//
//   for (LongLoop loop; i < n && loop.goes_on(); ++i) ...
class LongLoop {
 public:
  // False once the work is to end. `steps`: how much it has done since the last call, in steps of some nanoseconds.
  bool goes_on(int64_t steps = 1) {
    if (interrupt_ == nullptr || (left_ -= steps) > 0) return true;
    left_ = interrupt_->is_due() ? 0 : kSteps;  // once it is due it stays so, also for a loop around this one
    return left_ > 0;
  }

 private:
  static constexpr int64_t kSteps = 1 << 20;
  Interrupt* const interrupt_ = Interrupt::current();
  int64_t left_ = 0;  // asks at once: loops within loops may be short
};

}  // namespace minnow
