// Where the threads behind all pools run, and at what priority.
#pragma once

#include <vector>

#include "kernels/core/status.h"

namespace minnow {

// For all of them, from their next work on. Nothing is changed if it is not possible for a thread of this process.
// `cpus`: numbers of processors; none: all that the calling thread may use. `nice`: of setpriority, relative to the
// process.
Status place_workers(const std::vector<int>& cpus, int nice);

// For the present worker: does what place_workers was last called with, unless it has.
void take_place();

}  // namespace minnow
