#include "runtime/src/plan/arena.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "kernels/core/interrupt.h"
#include "kernels/core/sort.h"
#include "runtime/src/model/buffer.h"

namespace minnow {
namespace {

// How often an order is changed to find a smaller arena; less often for many pieces, since pairs of them are compared.
constexpr int64_t kAttempts = 64;
constexpr int64_t kPairs = 1 << 23;
// In a long plan the pieces are grouped by so many steps (a power of two), so that only few are compared.
constexpr int kWindow = 7;
// The search for a long plan ends when each piece has been compared with so many others on average.
constexpr int64_t kLooks = 512;

using Order = std::vector<size_t>;

bool live_together(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

// Bytes that are needed at each step at which a lifetime begins.
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

// More than any machine has. Sums of the pieces stay below it, or nothing is placed: files can hold so many that sums
// of their sizes overflow.
constexpr int64_t kTooMuch = int64_t{1} << 55;

bool is_too_much(const std::vector<Lifetime>& pieces) {
  int64_t all = 0;
  for (const Lifetime& piece : pieces) {
    if (piece.bytes >= kTooMuch - all) return true;
    all += align_up(piece.bytes);
  }
  return false;
}

bool is_long(const std::vector<Lifetime>& pieces) {
  const auto n = static_cast<int64_t>(pieces.size());
  return n * n > 8 * kPairs;
}

// The pieces sorted by ascending keys; a stable sort.
Order sorted(const Order& order, const std::vector<int64_t>& keys) {
  const auto key = [&](int64_t i) { return keys[order[static_cast<size_t>(i)]]; };
  Order result;
  for (int64_t i : order_of(static_cast<int64_t>(order.size()), [&](int64_t a, int64_t b) { return key(a) < key(b); }))
    result.push_back(order[static_cast<size_t>(i)]);
  return result;
}

// Places the pieces in this order. Returns the size of the arena; `top` is the piece that ends there.
int64_t place(const std::vector<Lifetime>& pieces, const Order& order, std::vector<int64_t>* offsets, size_t* top) {
  struct Placed {
    int64_t begin, end;
    int first, last;
    bool operator<(const Placed& other) const { return begin < other.begin; }
  };
  const int width = is_long(pieces) ? kWindow : 30;
  std::vector<std::vector<Placed>> blocks;  // one for each group of steps, sorted by begin
  std::vector<Placed> several;
  int64_t looks = kLooks * static_cast<int64_t>(pieces.size());
  offsets->assign(pieces.size(), 0);
  int64_t arena = 0;
  LongLoop loop;
  for (size_t i : order) {
    const Lifetime& piece = pieces[i];
    if (!loop.goes_on(kLooks)) return std::numeric_limits<int64_t>::max();
    const int64_t bytes = align_up(piece.bytes);
    if (bytes == 0) continue;
    const auto from = static_cast<size_t>(piece.first >> width), to = static_cast<size_t>(piece.last >> width);
    if (to >= blocks.size()) blocks.resize(to + 1);
    const std::vector<Placed>* placed = &blocks[from];
    if (from < to) {
      several.clear();
      for (size_t k = from; k <= to; ++k) several.insert(several.end(), blocks[k].begin(), blocks[k].end());
      std::sort(several.begin(), several.end());
      placed = &several;
    }
    looks -= static_cast<int64_t>(placed->size() + to - from);
    if (looks < 0 && width == kWindow) return std::numeric_limits<int64_t>::max();
    int64_t best = -1, best_gap = 0, free_from = 0;
    for (const Placed& p : *placed) {
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
    for (size_t k = from; k <= to; ++k)
      blocks[k].insert(std::upper_bound(blocks[k].begin(), blocks[k].end(), now), now);
  }
  return arena;
}

// Places the pieces in the given order, each at the place of a finished one that was not much larger, or at the end.
int64_t follow(const std::vector<Lifetime>& pieces, const Order& by_time, std::vector<int64_t>* offsets) {
  std::vector<int64_t> ends;
  for (const Lifetime& piece : pieces) ends.push_back(piece.last);
  const Order by_end = sorted(by_time, ends);
  std::map<int64_t, std::vector<int64_t>> left;  // free places by size
  offsets->assign(pieces.size(), 0);
  int64_t arena = 0;
  size_t over = 0;
  for (size_t i : by_time) {
    for (; pieces[by_end[over]].last < pieces[i].first; ++over)
      left[align_up(pieces[by_end[over]].bytes)].push_back((*offsets)[by_end[over]]);
    const int64_t bytes = align_up(pieces[i].bytes);
    const auto found = left.lower_bound(bytes);
    if (found == left.end() || found->first > 2 * bytes) {
      (*offsets)[i] = arena;
      arena += bytes;
    } else {
      (*offsets)[i] = found->second.back();
      found->second.pop_back();
      if (found->second.empty()) left.erase(found);
    }
  }
  return arena;
}

// Pieces of the steps that need the most first; among those of a step, the largest first.
Order by_need(const std::vector<Lifetime>& pieces, const Order& by_size) {
  const std::map<int, int64_t> need = needs(pieces);
  std::vector<int64_t> most(pieces.size(), 0);
  for (size_t i = 0; i < pieces.size(); ++i)
    for (auto it = need.lower_bound(pieces[i].first); it != need.end() && it->first <= pieces[i].last; ++it)
      most[i] = std::min(most[i], -it->second);
  return sorted(by_size, most);
}

}  // namespace

int64_t least_memory(const std::vector<Lifetime>& pieces) {
  if (is_too_much(pieces)) return kTooMuch;
  int64_t most = 0;
  for (const auto& [step, bytes] : needs(pieces)) most = std::max(most, bytes);
  return most;
}

int64_t plan_memory(const std::vector<Lifetime>& pieces, std::vector<int64_t>* offsets) {
  offsets->assign(pieces.size(), 0);
  if (is_too_much(pieces)) return kTooMuch;
  const int64_t least = least_memory(pieces);
  Order by_size(pieces.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::vector<int64_t> sizes, begins;
  for (const Lifetime& piece : pieces) {
    sizes.push_back(-piece.bytes);
    begins.push_back(piece.first);
  }
  const Order by_time = sorted(by_size, begins);
  by_size = sorted(by_size, sizes);

  size_t top = 0;
  std::vector<int64_t> other;
  if (is_long(pieces)) {
    // Too many pairs of pieces to compare, unless few are alive at the same time and only shortly.
    const int64_t arena = follow(pieces, by_time, offsets);
    const int64_t size = arena > least ? place(pieces, by_size, &other, &top) : arena;
    if (size < arena) offsets->swap(other);
    return std::min(size, arena);
  }
  int64_t arena = place(pieces, by_size, offsets, &top);
  const int64_t n = static_cast<int64_t>(pieces.size());
  const int64_t attempts = std::min(kAttempts, kPairs / std::max<int64_t>(1, n * n));
  if (arena == least || attempts == 0) return arena;
  for (const Order& start : {by_size, by_need(pieces, by_size), by_time}) {
    // The piece at the top of the arena moves to the front of the order; before it, the piece below it.
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
