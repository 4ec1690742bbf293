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

// A part of the blocks of a job, in one word so that it changes at once: whose number, first block, end. A range of a
// job that is over never compares equal to one of the present job, so a worker that wakes late does no harm, and the
// caller never waits for it.
struct BlockRange {
  static constexpr int kBits = 20;
  static constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1;
  static constexpr int64_t kMost = static_cast<int64_t>(kMask);

  static uint64_t pack(uint64_t job, int64_t begin, int64_t end) {
    return job << (2 * kBits) | static_cast<uint64_t>(begin) << kBits | static_cast<uint64_t>(end);
  }
  explicit BlockRange(uint64_t word)
      : job(word >> (2 * kBits)),
        begin(static_cast<int64_t>(word >> kBits & kMask)),
        end(static_cast<int64_t>(word & kMask)) {}
  uint64_t job;
  int64_t begin, end;
};

// Each worker has a home range of every job, the same part of it each time: what one kernel has written into a core's
// cache, the next one finds there. A worker that is done with its own takes from the ends of the others'.
struct ThreadPool::State {
  explicit State(int threads) : homes(std::make_unique<Home[]>(static_cast<size_t>(threads))) {}

  struct alignas(64) Home {
    std::atomic<uint64_t> range{0};
  };
  // Written once per job.
  alignas(64) std::atomic<uint64_t> job{0};
  std::atomic<int64_t> n{0};
  std::atomic<int64_t> grain{1};
  std::atomic<FunctionRef<void(int64_t, int64_t, int)>*> body{nullptr};
  std::atomic<bool> stop{false};
  std::atomic<int> parked{0};
  alignas(64) std::atomic<int64_t> done{0};  // blocks of the present job
  alignas(64) std::atomic<bool> busy{false};
  std::unique_ptr<Home[]> homes;
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::thread> workers;

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
  for (int i = 0; i < threads; ++i) {
    std::atomic<uint64_t>& home = homes[static_cast<size_t>((worker + i) % threads)].range;
    uint64_t word = home.load(std::memory_order_acquire);
    for (BlockRange left(word); left.begin < left.end; left = BlockRange(word)) {
      // Large pieces first; small ones at the end, so that all threads finish together.
      const int64_t take = std::max<int64_t>(1, (left.end - left.begin) / 4);
      const int64_t first = i == 0 ? left.begin : left.end - take;
      const uint64_t rest = i == 0 ? BlockRange::pack(left.job, left.begin + take, left.end)
                                   : BlockRange::pack(left.job, left.begin, left.end - take);
      if (!home.compare_exchange_weak(word, rest, std::memory_order_acq_rel)) continue;
      const int64_t g = grain.load(std::memory_order_relaxed);
      const int64_t end = std::min((first + take) * g, n.load(std::memory_order_relaxed));
      (*body.load(std::memory_order_relaxed))(first * g, end, worker);
      done.fetch_add(take, std::memory_order_acq_rel);
      word = home.load(std::memory_order_acquire);
    }
  }
  current_pool = outer_pool;
  current_worker = outer_worker;
}

void ThreadPool::State::serve(int worker, int threads) {
  uint64_t seen = 0;  // the last job this worker has done what there was to do of
  for (int waits = 0; !stop.load(std::memory_order_relaxed);) {
    const uint64_t now = job.load(std::memory_order_acquire);
    if (now != seen) {
      work(worker, threads);
      seen = now;
      waits = 0;
    } else if (++waits < kWaitsBeforePark) {
      wait_a_little(waits, kSpinsBeforeYield);
    } else {
      std::unique_lock<std::mutex> lock(mutex);
      parked.fetch_add(1);
      wake.wait(lock, [&] { return stop.load() || job.load() != seen; });
      parked.fetch_sub(1);
      waits = 0;
    }
  }
}

ThreadPool::ThreadPool(int threads) : threads_(std::max(1, threads)), state_(std::make_unique<State>(threads_)) {
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
  grain = std::max<int64_t>({1, grain, n / BlockRange::kMost + 1});
  const int64_t blocks = (n + grain - 1) / grain;
  State& s = *state_;
  if (current_pool == &s) return body(0, n, current_worker);  // nested
  if (blocks == 1 || s.workers.empty() || s.busy.exchange(true, std::memory_order_acquire)) return body(0, n, 0);

  s.n.store(n, std::memory_order_relaxed);
  s.grain.store(grain, std::memory_order_relaxed);
  s.body.store(&body, std::memory_order_relaxed);
  s.done.store(0, std::memory_order_relaxed);
  const uint64_t job = s.job.load(std::memory_order_relaxed) + 1;
  const int64_t homes = std::min<int64_t>(threads_, blocks);  // the others are left empty, as all are after a job
  for (int64_t i = 0; i < homes; ++i)
    s.homes[static_cast<size_t>(i)].range.store(BlockRange::pack(job, i * blocks / homes, (i + 1) * blocks / homes),
                                                std::memory_order_release);
  s.job.store(job, std::memory_order_seq_cst);
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
