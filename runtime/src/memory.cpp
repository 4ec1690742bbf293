#include "runtime/src/memory.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "runtime/src/storage.h"

namespace minnow {
namespace {

// How often an order is changed in the hope for a smaller arena; less often for many pieces, which are compared in
// pairs.
constexpr int64_t kAttempts = 64;
constexpr int64_t kPairs = 1 << 23;

using Order = std::vector<size_t>;

bool live_together(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

// Bytes that are needed at each step at which something begins.
std::map<int, int64_t> needs(const std::vector<Lifetime>& pieces) {
  std::map<int, int64_t> change;
  for (const Lifetime& piece : pieces) {
    change[piece.first] += align_up(piece.bytes);
    change[piece.last + 1] -= align_up(piece.bytes);
  }
  int64_t now = 0;
  for (auto& [step, bytes] : change) bytes = now += bytes;
  return change;
}

// Places the pieces in this order. Returns the size of the arena; `top` is the piece that ends there.
int64_t place(const std::vector<Lifetime>& pieces, const Order& order, std::vector<int64_t>* offsets, size_t* top) {
  struct Placed {
    int64_t begin, end;
    int first, last;
  };
  std::vector<Placed> placed;  // by ascending begin
  placed.reserve(pieces.size());
  offsets->assign(pieces.size(), 0);
  int64_t arena = 0;
  for (size_t i : order) {
    const Lifetime& piece = pieces[i];
    const int64_t bytes = align_up(piece.bytes);
    if (bytes == 0) continue;
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
    if (begin + bytes > arena) {
      arena = begin + bytes;
      *top = i;
    }
    const Placed now{begin, begin + bytes, piece.first, piece.last};
    placed.insert(std::upper_bound(placed.begin(), placed.end(), now,
                                   [](const Placed& a, const Placed& b) { return a.begin < b.begin; }),
                  now);
  }
  return arena;
}

// Pieces of the steps that need the most first; among those of a step, the largest first.
Order by_need(const std::vector<Lifetime>& pieces, const Order& by_size) {
  const std::map<int, int64_t> need = needs(pieces);
  std::vector<int64_t> most(pieces.size(), 0);
  for (size_t i = 0; i < pieces.size(); ++i)
    for (auto it = need.lower_bound(pieces[i].first); it != need.end() && it->first <= pieces[i].last; ++it)
      most[i] = std::max(most[i], it->second);
  Order order = by_size;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return most[a] > most[b]; });
  return order;
}

}  // namespace

int64_t least_memory(const std::vector<Lifetime>& pieces) {
  int64_t most = 0;
  for (const auto& [step, bytes] : needs(pieces)) most = std::max(most, bytes);
  return most;
}

int64_t plan_memory(const std::vector<Lifetime>& pieces, std::vector<int64_t>* offsets) {
  const int64_t least = least_memory(pieces);
  Order by_size(pieces.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  Order by_time = by_size;
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return pieces[a].bytes > pieces[b].bytes; });
  std::stable_sort(by_time.begin(), by_time.end(),
                   [&](size_t a, size_t b) { return pieces[a].first < pieces[b].first; });

  size_t top = 0;
  int64_t arena = place(pieces, by_size, offsets, &top);
  std::vector<int64_t> other;
  const int64_t n = static_cast<int64_t>(pieces.size());
  const int64_t attempts = std::min(kAttempts, kPairs / std::max<int64_t>(1, n * n));
  for (const Order& start : {by_size, by_need(pieces, by_size), by_time}) {
    // What had to go on top of everything goes to the front, where it can still choose; before that, what it lay on.
    Order order = start;
    for (int64_t i = 0; i < attempts && arena > least; ++i) {
      const int64_t size = place(pieces, order, &other, &top);
      if (size < arena) {
        arena = size;
        offsets->swap(other);
      }
      const auto at = std::find(order.begin(), order.end(), top);
      const auto blocker =
          std::find_if(order.begin(), at, [&](size_t p) { return live_together(pieces[p], pieces[top]); });
      if (blocker == at) break;  // it is placed first already
      std::rotate(blocker, at, at + 1);
    }
  }
  return arena;
}

}  // namespace minnow
