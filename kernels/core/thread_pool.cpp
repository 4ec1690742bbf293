#include "kernels/core/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "kernels/core/interrupt.h"
#include "kernels/core/relax.h"
#include "kernels/core/worker_placement.h"

namespace minnow {
namespace {

// A worker that yields may lose its core to another process for milliseconds: it spins for some tens of microseconds
// first, which is longer than the pauses between kernels. It sleeps only after a time that is longer than the pauses
// between consecutive inferences: a sleeping worker wakes up slowly, and on a core with a lowered clock.
constexpr int kSpinsBeforeYield = 1500;
constexpr int kYieldsBeforePark = 500;
// The calling thread waits for the parts that workers have begun.
constexpr int kCallerSpinsBeforeYield = 1000;
constexpr uint64_t kTurnNanoseconds = 100000;

// A job in one word: its number, and its blocks. A range of its blocks, too: the lower bits of the number, first block,
// end. A range of a finished job never compares equal to one of the current job, so a worker that wakes up late does no
// harm, and the caller never waits for it.
struct Job {
  static constexpr int kBits = 20;
  static constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1, kNumbers = uint64_t{1} << (64 - 2 * kBits);
  static constexpr int64_t kMostBlocks = static_cast<int64_t>(kMask);
  // After so many jobs what is left of older ones is written anew: their numbers come again. That is soon after the
  // first one, so that it happens in every process.
  static constexpr uint64_t kRenewal = kNumbers / 16, kFirst = kNumbers - 1000;

  explicit Job(uint64_t word) : number(word >> kBits), blocks(static_cast<int64_t>(word & kMask)) {}
  uint64_t pack() const { return number << kBits | static_cast<uint64_t>(blocks); }
  uint64_t pack(int64_t begin, int64_t end) const {
    return number << (2 * kBits) | static_cast<uint64_t>(begin) << kBits | static_cast<uint64_t>(end);
  }

  uint64_t number;
  int64_t blocks;
};

struct BlockRange {
  int64_t begin = 0, end = 0;
};

// Linux 6.12 and later give a thread that asks for short turns on a core its turn soon after it wakes, also where
// another never rests; and one that lets others go first waits for a short time, not for milliseconds. Its share of the
// core stays the same. Older ones ignore it.
void take_short_turns() {
#ifdef SYS_sched_setattr
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } turns = {};
  if (syscall(SYS_sched_getattr, 0, &turns, sizeof turns, 0) != 0 || turns.policy != SCHED_OTHER) return;
  turns.size = sizeof turns;
  turns.runtime = kTurnNanoseconds;
  syscall(SYS_sched_setattr, 0, &turns, 0);
#endif
}

// Where no core is idle, the system wakes a thread on the core of who wakes it, who mostly goes to sleep then. The
// caller does not: the two would take turns. So the calling thread, which may run anywhere, goes elsewhere.
void leave_core(int core) {
  cpu_set_t all;
  if (core < 0 || core >= CPU_SETSIZE || sched_getcpu() != core || sched_getaffinity(0, sizeof all, &all) != 0) return;
  cpu_set_t others = all;
  CPU_CLR(core, &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return;
  sched_setaffinity(0, sizeof all, &all);
}

}  // namespace

// Each worker has a home range of every job, the same part of it each time: what one kernel has written into a core's
// cache, the next one finds there. A worker that is done with its own takes from the ends of the others'.
struct ThreadPool::State {
  explicit State(int threads)
      : threads(threads),
        has_core_each(threads <= static_cast<int>(std::thread::hardware_concurrency())),
        homes(static_cast<size_t>(threads)),
        taken(homes.size()) {
    renew(Job(job.load(std::memory_order_relaxed)));
  }

  // Of a job that no worker has begun here, it is still what it was for an older one: a caller writes to one line of a
  // cache only, and each worker to its own.
  struct alignas(64) Home {
    std::atomic<uint64_t> range{0};
    std::atomic<uint64_t> done{0};  // blocks that this worker has done, from wherever, in place of a range
  };
  const int threads;
  const bool has_core_each;
  // Written once per job, in one line.
  alignas(64) std::atomic<uint64_t> job{Job::kFirst << Job::kBits};
  std::atomic<int64_t> n{0};
  std::atomic<int64_t> grain{1};
  std::atomic<ThreadPool::Body*> body{nullptr};
  std::atomic<Interrupt*> interrupt{nullptr};  // of the present job
  std::atomic<int> core{-1};                   // on which the caller was
  std::atomic<bool> closing{false};
  std::atomic<int> seated{0};  // shared workers that wait for this pool's jobs
  alignas(64) std::atomic<bool> busy{false};
  std::vector<Home> homes;
  std::vector<bool> taken;  // by worker; guarded by the lock of Workers

  int64_t homes_of(const Job& of) const { return std::min<int64_t>(threads, of.blocks); }
  BlockRange left_of(const Job& of, int64_t home, uint64_t word) const;
  bool has_blocks() const;
  bool is_done(const Job& of) const;
  void renew(const Job& last);
  void work(const Job& present, int worker);
  void serve(int worker);
};

namespace {
// The pool whose work this thread is doing now, and as which worker.
thread_local const void* current_pool = nullptr;
thread_local int current_worker = 0;
}  // namespace

// What is left of a home's blocks, whose range is this word.
BlockRange ThreadPool::State::left_of(const Job& of, int64_t home, uint64_t word) const {
  const uint64_t ahead = ((word >> (2 * Job::kBits)) - of.number) % Job::kNumbers;
  if (ahead == 0)
    return {static_cast<int64_t>(word >> Job::kBits & Job::kMask), static_cast<int64_t>(word & Job::kMask)};
  if (ahead < Job::kNumbers / 2) return {};  // the job is done, and another one has begun
  const int64_t homes = homes_of(of);
  return {home * of.blocks / homes, (home + 1) * of.blocks / homes};
}

bool ThreadPool::State::has_blocks() const {
  const Job present(job.load(std::memory_order_seq_cst));
  for (int64_t i = 0; i < homes_of(present); ++i) {
    const BlockRange left = left_of(present, i, homes[static_cast<size_t>(i)].range.load(std::memory_order_relaxed));
    if (left.begin < left.end) return true;
  }
  return false;
}

bool ThreadPool::State::is_done(const Job& of) const {
  int64_t done = 0;
  for (const Home& home : homes) {
    const uint64_t word = home.done.load(std::memory_order_acquire);
    if ((word >> (2 * Job::kBits)) == of.number % Job::kNumbers) done += static_cast<int64_t>(word & Job::kMask);
  }
  return done == of.blocks;
}

void ThreadPool::State::renew(const Job& last) {
  for (Home& home : homes) {
    home.range.store(last.pack(0, 0), std::memory_order_relaxed);
    home.done.store(last.pack(0, 0), std::memory_order_relaxed);
  }
}

void ThreadPool::State::work(const Job& present, int worker) {
  const void* outer_pool = current_pool;
  const int outer_worker = current_worker;
  current_pool = this;
  current_worker = worker;
  std::optional<Pace> pace;
  int64_t done = 0;
  const auto tell = [&] {
    if (done > 0) homes[static_cast<size_t>(worker)].done.store(present.pack(0, done), std::memory_order_release);
  };
  const int64_t homes_used = homes_of(present);
  for (int i = 0; i < threads; ++i) {
    const int64_t home = (worker + i) % threads;
    if (home >= homes_used) continue;
    std::atomic<uint64_t>& range = homes[static_cast<size_t>(home)].range;
    uint64_t word = range.load(std::memory_order_acquire);
    for (BlockRange left; left = left_of(present, home, word), left.begin < left.end;) {
      Interrupt* const own = interrupt.load(std::memory_order_relaxed);
      const int64_t g = grain.load(std::memory_order_relaxed), all = n.load(std::memory_order_relaxed);
      if (!pace) pace.emplace(own, present.blocks / threads);
      // Large pieces first; small ones at the end, so that all threads finish together.
      const int64_t part = pace->take(std::max<int64_t>(1, (left.end - left.begin) / 4));
      const int64_t take = part > 0 ? part : left.end - left.begin;
      const int64_t first = i == 0 ? left.begin : left.end - take;
      const uint64_t rest =
          i == 0 ? present.pack(left.begin + take, left.end) : present.pack(left.begin, left.end - take);
      if (!range.compare_exchange_weak(word, rest, std::memory_order_acq_rel)) continue;
      if (part > 0) {
        const InterruptScope scope(own);
        (*body.load(std::memory_order_relaxed))(first * g, std::min((first + take) * g, all), worker);
      }
      done += take;
      if (i > 0) tell();
      word = range.load(std::memory_order_acquire);
    }
    if (i == 0) tell();  // of its own blocks together: until then the job cannot end
  }
  current_pool = outer_pool;
  current_worker = outer_worker;
}

// Kernels of one inference follow each other within microseconds: a worker waits about that long for the next one, for
// coming back from sleep takes longer. Then it lets others have the core, should the caller be among them because fewer
// cores are free than there are threads; and goes.
void ThreadPool::State::serve(int worker) {
  uint64_t seen = 0;  // the last job of which this worker has done what there was to do
  for (int waits = 0; !closing.load(std::memory_order_relaxed) && waits < kSpinsBeforeYield + kYieldsBeforePark;) {
    const uint64_t now = job.load(std::memory_order_acquire);
    if (now != seen) {
      if (has_core_each) leave_core(core.load(std::memory_order_relaxed));
      work(Job(now), worker);
      seen = now;
      waits = 0;
    } else if (waits++ < kSpinsBeforeYield) {
      relax();
    } else {
      std::this_thread::yield();
    }
  }
}

// The threads that all pools of the process share. A worker takes a seat at a pool that has work, and leaves when it
// has had none for a while. Callers never wait for a worker to come, nor take a lock: the locks are between workers,
// and those who make and end pools.
class ThreadPool::Workers {
 public:
  static Workers& instance() {
    static Workers* const workers = [] {
      pthread_atfork([] { instance().before_fork(); }, [] { instance().after_fork(); },
                     [] { instance().after_fork_in_child(); });
      return new Workers;  // never destroyed: it may be asked for by what ends later
    }();
    return *workers;
  }

  void add(State* pool) {
    std::lock_guard<std::mutex> lifecycle(lifecycle_);
    size_t sum = 0, most = 0;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      pools_.push_back(pool);
      for (const State* each : pools_) {
        const auto helpers = static_cast<size_t>(each->threads - 1);
        sum += helpers;
        most = std::max(most, helpers);
      }
    }
    const size_t cores = std::max(1u, std::thread::hardware_concurrency());
    for (const size_t wanted = std::min(sum, std::max(cores - 1, most)); workers_->size() < wanted;) {
      try {
        const int name = static_cast<int>(workers_->size()) + 1;
        workers_->emplace_back([this, name] { live(name); });
      } catch (const std::exception&) {
        return;  // No more threads, or no memory for them: those that run do the work. The pool is on the list by now.
      }
    }
  }

  void remove(State* pool) {
    std::lock_guard<std::mutex> lifecycle(lifecycle_);
    bool last = false;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      pools_.erase(std::find(pools_.begin(), pools_.end(), pool));
      last = pools_.empty();
      stop_ = last;
    }
    pool->closing.store(true, std::memory_order_relaxed);
    while (pool->seated.load(std::memory_order_acquire) > 0) std::this_thread::yield();
    if (!last) return;
    wake(static_cast<int>(workers_->size()));
    for (std::thread& worker : *workers_) worker.join();
    workers_->clear();
    stop_ = false;
  }

  // Tells of a job with work for so many workers more.
  void call(int workers) {
    if (sleepers_.load(std::memory_order_seq_cst) > 0) wake(workers);
  }

 private:
  void wake(int workers) {
    bell_.fetch_add(1, std::memory_order_seq_cst);
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&bell_), FUTEX_WAKE_PRIVATE, workers, nullptr, nullptr, 0);
  }

  void live(int name) {
    take_short_turns();
    for (;;) {
      const uint32_t rung = bell_.load(std::memory_order_seq_cst);
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      State* pool = nullptr;
      int seat = 0;
      const bool stays = take_seat(name, &pool, &seat);
      if (stays && pool == nullptr)
        syscall(SYS_futex, reinterpret_cast<uint32_t*>(&bell_), FUTEX_WAIT_PRIVATE, rung, nullptr, nullptr, 0);
      sleepers_.fetch_sub(1, std::memory_order_seq_cst);
      if (!stays) return;
      if (pool == nullptr) continue;
      take_place();
      pool->serve(seat);
      std::lock_guard<std::mutex> lock(mutex_);
      pool->taken[static_cast<size_t>(seat)] = false;
      pool->seated.fetch_sub(1, std::memory_order_seq_cst);
    }
  }

  // False when the workers are to end.
  bool take_seat(int name, State** pool, int* seat) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 0; i < pools_.size() && *pool == nullptr; ++i) {
      State* each = pools_[(i + static_cast<size_t>(name)) % pools_.size()];
      if (!each->has_blocks()) continue;
      for (int k = 0; k < each->threads - 1 && *pool == nullptr; ++k) {
        *seat = 1 + (name - 1 + k) % (each->threads - 1);  // the same worker at the same seat, if possible
        if (!each->taken[static_cast<size_t>(*seat)]) *pool = each;
      }
    }
    if (*pool != nullptr) {
      (*pool)->taken[static_cast<size_t>(*seat)] = true;
      (*pool)->seated.fetch_add(1, std::memory_order_seq_cst);
    }
    return !stop_;
  }

  void before_fork() {
    lifecycle_.lock();
    mutex_.lock();
  }
  void after_fork() {
    mutex_.unlock();
    lifecycle_.unlock();
  }
  // Threads do not come along. Pools work without them, and with those of pools made later. What other threads were
  // about to do lies on stacks that the system uses again: none of it may be begun.
  void after_fork_in_child() {
    workers_ = new std::vector<std::thread>;  // the old ones can be neither joined nor destroyed
    sleepers_.store(0);
    for (State* pool : pools_) {
      pool->taken.assign(pool->taken.size(), false);
      pool->seated.store(0);
      Job next(pool->job.load());
      ++next.number;
      next.blocks = 0;
      pool->job.store(next.pack());
      pool->busy.store(false);
    }
    after_fork();
  }

  alignas(64) std::atomic<uint32_t> bell_{0};
  std::atomic<int> sleepers_{0};
  std::mutex lifecycle_;  // pools are made and ended one after the other
  std::vector<std::thread>* workers_ = new std::vector<std::thread>;
  std::mutex mutex_;  // for what follows, and who sits where
  std::vector<State*> pools_;
  bool stop_ = false;
};

ThreadPool::ThreadPool(int threads) : threads_(std::max(1, threads)), state_(std::make_unique<State>(threads_)) {
  if (threads_ > 1) Workers::instance().add(state_.get());
}

ThreadPool::~ThreadPool() {
  if (threads_ > 1) Workers::instance().remove(state_.get());
}

void ThreadPool::parallel_for(int64_t n, int64_t grain, Body body) noexcept {
  if (n <= 0) return;
  grain = std::max<int64_t>({1, grain, n / Job::kMostBlocks + 1});
  const int64_t blocks = (n + grain - 1) / grain;
  State& s = *state_;
  Interrupt* const interrupt = Interrupt::current();
  const bool nested = current_pool == &s;
  if (nested || blocks == 1 || threads_ == 1 || s.busy.exchange(true, std::memory_order_acquire)) {
    Pace pace(interrupt, blocks);
    for (int64_t i = 0, take = 0; i < blocks && (take = pace.take(blocks - i)) > 0; i += take)
      body(i * grain, std::min((i + take) * grain, n), nested ? current_worker : 0);
    return;
  }

  s.n.store(n, std::memory_order_relaxed);
  s.grain.store(grain, std::memory_order_relaxed);
  s.body.store(&body, std::memory_order_relaxed);
  s.interrupt.store(interrupt, std::memory_order_relaxed);
  s.core.store(sched_getcpu(), std::memory_order_relaxed);
  Job job(s.job.load(std::memory_order_relaxed));
  if (job.number % Job::kRenewal == 0) s.renew(job);
  ++job.number;
  job.blocks = blocks;
  s.job.store(job.pack(), std::memory_order_seq_cst);
  const int missing = static_cast<int>(s.homes_of(job)) - 1 - s.seated.load(std::memory_order_seq_cst);
  if (missing > 0) Workers::instance().call(missing);
  s.work(job, 0);
  for (int waits = 0; !s.is_done(job); ++waits) {
    if (waits < kCallerSpinsBeforeYield) {
      relax();
    } else {
      std::this_thread::yield();
    }
  }
  s.busy.store(false, std::memory_order_release);
}

}  // namespace minnow
