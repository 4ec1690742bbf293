// Sorting where speed does not matter: each instantiation of std::sort adds a kilobyte to the library, and each one of
// std::stable_sort two.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/core/thread_pool.h"

namespace minnow {

// The numbers below n in order, where before(a, b) tells whether a is to stand before b. Equal ones stay as they are:
// ascending.
std::vector<int64_t> order_of(int64_t n, FunctionRef<bool(int64_t, int64_t)> before);

}  // namespace minnow
