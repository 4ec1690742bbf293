#include "kernels/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "kernels/relax.h"

namespace minnow {
namespace {

// Kernels of one inference follow each other within microseconds: a worker waits about that long before it parks. Most
// of the time it lets others have the core in between: should the caller be among them, because fewer cores are free
// than there are threads, it waits for nothing.
constexpr int kSpinsBeforeYield = 200;
constexpr int kWaitsBeforePark = 400;
// The caller waits for parts that are being worked on. It yields later: on a busy machine it would lose its turn.
constexpr int kCallerSpinsBeforeYield = 1000;

void wait_a_little(int waits, int spins) {
  if (waits < spins) {
    relax();
  } else {
    std::this_thread::yield();
  }
}

}  // namespace

// Work is handed out by one word, `ticket` = (job number << 32 | next block). A worker gets blocks by compare and swap
// on it, which fails when the job is over, so a worker that wakes late does no harm and the caller never waits for it.
struct ThreadPool::State {
  std::atomic<uint64_t> ticket{0};
  std::atomic<int64_t> blocks{0};  // of the present job, as the next three
  std::atomic<int64_t> n{0};
  std::atomic<int64_t> grain{1};
  std::atomic<FunctionRef<void(int64_t, int64_t, int)>*> body{nullptr};
  std::atomic<int64_t> done{0};
  std::atomic<bool> busy{false};
  std::atomic<bool> stop{false};
  std::atomic<int> parked{0};
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::thread> workers;

  static constexpr uint64_t kBlockMask = 0xffffffffu;

  bool has_work(uint64_t t) const {
    return static_cast<int64_t>(t & kBlockMask) < blocks.load(std::memory_order_acquire);
  }
  void work(int worker, int threads);
  void serve(int worker, int threads);
};

namespace {
// The pool whose work this thread is doing now, and as which worker.
thread_local const void* current_pool = nullptr;
thread_local int current_worker = 0;
}  // namespace

void ThreadPool::State::work(int worker, int threads) {
  const void* outer_pool = current_pool;
  const int outer_worker = current_worker;
  current_pool = this;
  current_worker = worker;
  uint64_t t = ticket.load(std::memory_order_acquire);
  while (has_work(t)) {
    const int64_t first = static_cast<int64_t>(t & kBlockMask);
    const int64_t total = blocks.load(std::memory_order_relaxed);
    // Large pieces first, for locality; small ones at the end, so that all threads finish together.
    const int64_t take = std::max<int64_t>(1, (total - first) / (2 * threads));
    if (!ticket.compare_exchange_weak(t, t + static_cast<uint64_t>(take), std::memory_order_acq_rel)) continue;
    const int64_t g = grain.load(std::memory_order_relaxed);
    const int64_t end = std::min((first + take) * g, n.load(std::memory_order_relaxed));
    (*body.load(std::memory_order_relaxed))(first * g, end, worker);
    done.fetch_add(take, std::memory_order_acq_rel);
    t = ticket.load(std::memory_order_acquire);
  }
  current_pool = outer_pool;
  current_worker = outer_worker;
}

void ThreadPool::State::serve(int worker, int threads) {
  int waits = 0;
  while (!stop.load(std::memory_order_relaxed)) {
    if (has_work(ticket.load(std::memory_order_acquire))) {
      work(worker, threads);
      waits = 0;
    } else if (++waits < kWaitsBeforePark) {
      wait_a_little(waits, kSpinsBeforeYield);
    } else {
      std::unique_lock<std::mutex> lock(mutex);
      parked.fetch_add(1);
      wake.wait(lock, [&] { return stop.load() || has_work(ticket.load()); });
      parked.fetch_sub(1);
      waits = 0;
    }
  }
}

ThreadPool::ThreadPool(int threads) : threads_(std::max(1, threads)), state_(std::make_unique<State>()) {
  for (int i = 1; i < threads_; ++i) {
    try {
      state_->workers.emplace_back([this, i] { state_->serve(i, threads_); });
    } catch (const std::system_error&) {
      break;  // The system gives no more threads: those that run do the work.
    }
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    state_->stop.store(true);
  }
  state_->wake.notify_all();
  for (std::thread& worker : state_->workers) worker.join();
}

void ThreadPool::parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t, int)> body) {
  if (n <= 0) return;
  grain = std::max<int64_t>({1, grain, n / (1LL << 31) + 1});
  const int64_t blocks = (n + grain - 1) / grain;
  State& s = *state_;
  if (current_pool == &s) return body(0, n, current_worker);  // nested
  if (blocks == 1 || s.workers.empty() || s.busy.exchange(true, std::memory_order_acquire)) return body(0, n, 0);

  s.n.store(n, std::memory_order_relaxed);
  s.grain.store(grain, std::memory_order_relaxed);
  s.body.store(&body, std::memory_order_relaxed);
  s.done.store(0, std::memory_order_relaxed);
  const uint64_t job = (s.ticket.load(std::memory_order_relaxed) >> 32) + 1;
  s.ticket.store((job << 32) | State::kBlockMask, std::memory_order_release);  // nothing to take while it is written
  s.blocks.store(blocks, std::memory_order_release);
  s.ticket.store(((job + 1) << 32), std::memory_order_seq_cst);
  if (s.parked.load(std::memory_order_seq_cst) > 0) {
    { std::lock_guard<std::mutex> lock(s.mutex); }
    s.wake.notify_all();
  }
  s.work(0, threads_);
  for (int waits = 0; s.done.load(std::memory_order_acquire) != blocks; ++waits)
    wait_a_little(waits, kCallerSpinsBeforeYield);
  s.busy.store(false, std::memory_order_release);
}

}  // namespace minnow
