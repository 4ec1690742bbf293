// Sorting for whatever need not be quick: each type and order that std::sort is used with takes a kilobyte of the
// library, and std::stable_sort two.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/thread_pool.h"

namespace minnow {

// Of two numbers, whether the first is to stand before the second.
using Before = FunctionRef<bool(int64_t, int64_t)>;

// Sorts numbers by an order in which no two are equal.
void sort_numbers(int64_t* numbers, int64_t n, Before before);

// The numbers below n in order. Equal ones stay as they are: ascending.
std::vector<int64_t> order_of(int64_t n, Before before);

}  // namespace minnow
