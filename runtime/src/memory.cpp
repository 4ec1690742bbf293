#include "runtime/src/memory.h"

#include <algorithm>
#include <numeric>

#include "runtime/src/storage.h"

namespace minnow {

int64_t plan_memory(const std::vector<Lifetime>& pieces, std::vector<int64_t>* offsets) {
  offsets->assign(pieces.size(), 0);
  std::vector<size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return pieces[a].bytes > pieces[b].bytes; });

  struct Placed {
    int64_t begin, end;
    int first, last;
  };
  std::vector<Placed> placed;  // by ascending begin
  int64_t arena = 0;
  for (size_t i : order) {
    const Lifetime& piece = pieces[i];
    const int64_t bytes = align_up(piece.bytes);
    if (bytes == 0) break;  // only empty ones follow
    int64_t best = -1, best_gap = 0, free_from = 0;
    for (const Placed& p : placed) {
      if (p.last < piece.first || piece.last < p.first) continue;
      const int64_t gap = p.begin - free_from;
      if (gap >= bytes && (best < 0 || gap < best_gap)) {
        best = free_from;
        best_gap = gap;
      }
      free_from = std::max(free_from, p.end);
    }
    const int64_t begin = best < 0 ? free_from : best;
    (*offsets)[i] = begin;
    arena = std::max(arena, begin + bytes);
    const Placed now{begin, begin + bytes, piece.first, piece.last};
    placed.insert(std::upper_bound(placed.begin(), placed.end(), now,
                                   [](const Placed& a, const Placed& b) { return a.begin < b.begin; }),
                  now);
  }
  return arena;
}

}  // namespace minnow
