// How a product of bytes is shared out among threads.
#pragma once

#include <algorithm>
#include <cstdint>

namespace minnow {

struct ByteUnit;

// The columns are cut into panels, and these into parts, whose panels a thread makes; the rows of weights into shares.
// A task is a part and a share. Columns are counted in vectors.
struct ByteCut {
  int64_t vectors = 1, panels = 1, at_once = 1, parts = 1;  // at_once: panels of a part
  int64_t rows = 1, shares = 1;                             // rows of a share, whole blocks of any unit

  int64_t part_vectors = 1;  // of a part, but the last one

  // Where panel i begins. The panels of a part share its vectors evenly.
  int64_t bound(int64_t i) const {
    const int64_t part = i / at_once, first = std::min(part * part_vectors, vectors);
    const int64_t own = std::min(part_vectors, vectors - first), count = std::min(at_once, panels - part * at_once);
    return i >= panels ? vectors : first + own * (i % at_once) / count;
  }
};

struct ByteWork {
  int64_t products = 1, rows = 1, vectors = 1, steps = 1;
  int64_t most_panels = 1;  // that stay in the cache
  // Vectors whose results fill a line of the cache, where the rows of results begin with lines, else 1: parts that
  // begin with lines are written by one thread.
  int64_t line = 1;
  int threads = 1;
};

// The cut that is estimated to take the least time: a thread reads the weights of its rows from memory that all share,
// makes the panels of its columns, and multiplies; lines of results that two threads write go from one to the other;
// few tasks leave threads without any, and the last ones to wait for.
ByteCut cut_product(const ByteUnit& unit, const ByteWork& work);

}  // namespace minnow
