// Places tensors in one arena: a pure function from lifetimes to offsets.
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

// The most bytes that are needed at the same step: a lower bound for the arena.
int64_t least_memory(const std::vector<Lifetime>& pieces);

// Offsets, multiples of 64, such that no two pieces that are needed at the same time overlap. Returns the size of the
// arena. Pieces are placed one after the other, each into the smallest gap that is large enough (best fit). Several
// orders are tried, among them largest first; the one with the smallest arena is used.
int64_t plan_memory(const std::vector<Lifetime>& pieces, std::vector<int64_t>* offsets);

}  // namespace minnow
