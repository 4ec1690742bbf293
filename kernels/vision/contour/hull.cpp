// The convex hull of points in the plane: two monotone chains over the points in order of x.
#include <algorithm>
#include <numeric>

#include "kernels/vision/contour/contour.h"

namespace minnow::contour {
namespace {

struct Place {
  double x, y;
  int32_t index;  // the first of equal points
};

std::vector<Place> places_of(const double* points, size_t count) {
  const auto at = [&](int32_t i) { return points + 2 * static_cast<size_t>(i); };
  std::vector<int32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const double *p = at(a), *q = at(b);
    return p[0] != q[0] ? p[0] < q[0] : p[1] != q[1] ? p[1] < q[1] : a < b;
  });
  std::vector<Place> places;
  for (const int32_t i : order) {
    const double* p = at(i);
    if (places.empty() || places.back().x != p[0] || places.back().y != p[1]) places.push_back({p[0], p[1], i});
  }
  return places;
}

// From the first place to the last, along the side of larger y where `sign` is 1, of smaller y where it is -1.
std::vector<const Place*> chain_of(const std::vector<Place>& places, double sign) {
  std::vector<const Place*> chain;
  for (const Place& p : places) {
    while (chain.size() > 1) {
      const Place &a = *chain[chain.size() - 2], &b = *chain.back();
      if (sign * ((b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x)) < 0) break;
      chain.pop_back();
    }
    chain.push_back(&p);
  }
  return chain;
}

// Where the indices rise or fall all around but once, the hull begins there.
void begin_where_monotone(std::vector<int32_t>* hull) {
  const size_t n = hull->size();
  if (n < 3) return;
  size_t rises = 0, rise = 0, fall = 0;  // where the last rise and the last fall are
  for (size_t i = 0; i < n; ++i) {
    const bool up = (*hull)[i] < (*hull)[(i + 1) % n];
    rises += up ? 1 : 0;
    (up ? rise : fall) = i;
  }
  if (rises == n - 1) {
    std::rotate(hull->begin(), hull->begin() + static_cast<std::ptrdiff_t>((fall + 1) % n), hull->end());
  } else if (rises == 1) {
    std::rotate(hull->begin(), hull->begin() + static_cast<std::ptrdiff_t>((rise + 1) % n), hull->end());
  }
}

}  // namespace

std::vector<int32_t> convex_hull(const double* points, size_t count, bool clockwise) {
  const std::vector<Place> places = places_of(points, count);
  if (places.empty()) return {};
  if (places.size() == 1) return {places[0].index};
  // Their ends are the same. `below` is the side of larger y.
  const std::vector<const Place*> below = chain_of(places, 1), above = chain_of(places, -1);
  std::vector<int32_t> hull;
  for (const Place* p : below) hull.push_back(p->index);
  if (clockwise) {
    for (size_t i = above.size() - 1; i-- > 1;) hull.push_back(above[i]->index);
  } else {
    std::reverse(hull.begin(), hull.end());
    for (size_t i = 1; i + 1 < above.size(); ++i) hull.push_back(above[i]->index);
  }
  begin_where_monotone(&hull);
  return hull;
}

}  // namespace minnow::contour
