#include "kernels/core/lockstep.h"

#include <thread>

#include "kernels/core/interrupt.h"
#include "kernels/core/relax.h"

namespace minnow {
namespace {

constexpr int kSpinsAtStep = 1000;

}  // namespace

void Lockstep::run(int64_t phases, ThreadPool* pool, FunctionRef<void(int64_t, int)> body) {
  for (int i = 0; i < parts_; ++i) begun_[static_cast<size_t>(i)].value.store(0, std::memory_order_relaxed);
  done_.value.store(0, std::memory_order_relaxed);
  if (parts_ == 1 || pool == nullptr) return work(phases, 0, body);
  pool->parallel_for(parts_, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) work(phases, static_cast<int>(i), body);
  });
}

void Lockstep::work(int64_t phases, int own, FunctionRef<void(int64_t, int)> body) {
  // Who leaves between two phases has no part that others wait for.
  LongLoop loop;
  for (int64_t phase = 0; phase < phases && loop.goes_on(1 << 18); ++phase) {
    const int64_t all = (phase + 1) * parts_;
    // Forth and back, from the part that was done last: what it has read is the likeliest to be in the cache still.
    const int first = own, way = phase % 2 == 0 ? 1 : parts_ - 1;
    for (int i = 0; i < parts_ && done_.value.load(std::memory_order_acquire) < all; ++i) {
      const int part = (first + i * way) % parts_;
      int64_t expected = phase;
      if (!begun_[static_cast<size_t>(part)].value.compare_exchange_strong(expected, phase + 1,
                                                                           std::memory_order_acq_rel))
        continue;
      body(phase, part);
      own = part;
      done_.value.fetch_add(1, std::memory_order_acq_rel);
    }
    for (int spins = 0; done_.value.load(std::memory_order_acquire) < all;) {
      if (++spins < kSpinsAtStep) {
        relax();
      } else {
        std::this_thread::yield();
      }
    }
  }
}

}  // namespace minnow
