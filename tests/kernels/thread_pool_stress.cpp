// Everything at once that the thread pool promises: prints nothing and returns 0 when every block was done exactly
// once, by workers that did not meet in the same scratch memory.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "kernels/core/thread_pool.h"

using minnow::ThreadPool;

namespace {

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void run_loop(ThreadPool& pool, int64_t n, int64_t grain) {
  std::vector<int> times(static_cast<size_t>(n), 0);
  std::vector<int64_t> done(static_cast<size_t>(pool.threads()), 0);  // not atomic: a worker has it for itself
  pool.parallel_for(n, grain, [&](int64_t begin, int64_t end, int worker) {
    expect(0 <= begin && begin < end && end <= n, "a range outside of the loop");
    expect(0 <= worker && worker < pool.threads(), "a worker that is none");
    for (int64_t i = begin; i < end; ++i) ++times[static_cast<size_t>(i)];
    done[static_cast<size_t>(worker)] += end - begin;
    std::atomic<int64_t> inside{0};
    pool.parallel_for(3, 1, [&](int64_t first, int64_t last, int) { inside += last - first; });
    expect(inside == 3, "a nested loop was not done");
  });
  int64_t sum = 0;
  for (int64_t d : done) sum += d;
  expect(sum == n, "not all was done");
  for (int t : times) expect(t == 1, "something was not done once");
}

// Sizes with one block, fewer blocks than threads, and many.
void run_loops(ThreadPool& pool, int rounds) {
  for (int i = 0; i < rounds; ++i)
    for (int64_t n : {0, 1, 2, 3, 7, 64, 1000}) run_loop(pool, n, 1 + i % 5);
}

void run_child(ThreadPool& pool) {
  const pid_t child = fork();
  if (child == 0) {
    run_loops(pool, 5);
    {
      ThreadPool other(3);
      run_loops(other, 5);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  expect(status == 0, "a child of fork could not go on");
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 100;
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    run_loops(pool, rounds);
  }
  {  // loops of more blocks than a range has room for
    ThreadPool pool(2);
    std::atomic<int64_t> sum{0};
    pool.parallel_for(int64_t{1} << 33, 1, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
    expect(sum == int64_t{1} << 33, "not all of a long loop was done");
  }
  // Sessions of different threads, each with callers of its own; pools come and go meanwhile.
  ThreadPool shared(3);
  std::vector<std::thread> callers;
  for (int k = 0; k < 4; ++k)
    callers.emplace_back([&, k] {
      if (k == 0) return run_loops(shared, rounds);
      for (int i = 0; i < rounds / 4; ++i) {
        ThreadPool own(k + 1);
        run_loops(own, 3);
      }
    });
  for (std::thread& caller : callers) caller.join();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // all workers are asleep
  run_loops(shared, rounds);
  if (argc > 2) run_child(shared);
  return 0;
}
