// A small pool of threads for splitting one kernel's work. The calling thread takes part.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace minnow {

// A non-owning reference to a callable, cheaper than std::function: nothing is allocated. With `noexcept` in the
// signature an exception that would leave the callable ends the program.
template <typename Signature>
class FunctionRef;
template <typename R, typename... Args, bool kNoexcept>
class FunctionRef<R(Args...) noexcept(kNoexcept)> {
 public:
  template <typename F, typename = std::enable_if_t<!std::is_same_v<std::decay_t<F>, FunctionRef>>>
  FunctionRef(F&& f)  // NOLINT: implicit on purpose, lambdas are passed directly
      : object_(const_cast<void*>(static_cast<const void*>(&f))),
        call_([](void* object, Args... args) noexcept(kNoexcept) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(args...);
        }) {}
  R operator()(Args... args) const noexcept(kNoexcept) { return call_(object_, args...); }

 private:
  void* object_;
  R (*call_)(void*, Args...) noexcept(kNoexcept);
};

// What one session's work is split by. The threads behind all pools of the process are the same.
class ThreadPool {
 public:
  // `threads` counts the caller: 1 needs no other.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls body(begin, end, worker) for consecutive ranges that cover [0, n), each a multiple of `grain` long but the
  // last one. `worker` is in [0, threads()) and no two ranges with the same worker run at the same time, so it may
  // index scratch memory. Returns when all are done. Of T threads, the first begins with the first T-th of n, and so
  // on, and takes from the others' parts when done: what is near in n is likely to be done by one thread, and what is
  // at the same place in the loops of two kernels too. Keep n / grain at several per thread when the work is uneven.
  using Body = FunctionRef<void(int64_t, int64_t, int) noexcept>;  // exceptions cannot cross threads
  void parallel_for(int64_t n, int64_t grain, Body body) noexcept;

 private:
  struct State;
  class Workers;
  int threads_;
  std::unique_ptr<State> state_;
};

}  // namespace minnow
