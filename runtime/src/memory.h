// Where tensors live in one arena: a pure function from lifetimes to offsets.
#pragma once

#include <cstdint>
#include <vector>

namespace minnow {

// A piece of memory that is needed from step `first` to step `last`, both included.
struct Lifetime {
  int first = 0;
  int last = 0;
  int64_t bytes = 0;
};

// Offsets, multiples of 64, such that no two pieces that are needed at the same time overlap. Returns the size of the
// arena. The largest piece is placed first, each into the smallest gap that holds it (greedy by size, best fit).
int64_t plan_memory(const std::vector<Lifetime>& pieces, std::vector<int64_t>* offsets);

}  // namespace minnow
