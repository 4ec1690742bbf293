// What this processor can do at most at this moment: the two limits that a kernel runs against.
#pragma once

#include "kernels/core/thread_pool.h"

namespace minnow {

struct Peak {
  double flops = 0;  // per second, in f32, a multiply-add counts as two: the inner loop on numbers in the nearest
                     // cache, by one thread, times the threads
  double bytes = 0;  // per second, read from memory
};

// Takes a fraction of a second.
Peak measure_peak(ThreadPool& pool);

}  // namespace minnow
