// Filled polygons, row by row: convex ones between two edges, others by the even-odd rule.
#include <algorithm>
#include <cstdlib>

#include "kernels/vision/drawing/canvas.h"

namespace minnow::drawing {
namespace {

// One side of a convex polygon on its way down.
struct Side {
  size_t vertex = 0;
  int64_t end = 0;  // the row of the next vertex
  int64_t x = -kOne, step = 0;
};

}  // namespace

void fill_convex(const Canvas& canvas, const std::vector<Point>& points, const Color& color, LineKind kind, int shift) {
  const size_t n = points.size();
  if (n == 0) return;
  const auto fixed = [&](const Point& p) { return Point{p.x * (kOne >> shift), p.y * (kOne >> shift)}; };
  const int64_t half = (int64_t{1} << shift) >> 1;
  const auto row_of = [&](const Point& p) { return (p.y + half) >> shift; };
  // Borders with fractions are the same for both kinds of sequences of pixels: OpenCV draws them so.
  const LineKind border = shift > 0 && kind == LineKind::kCorners ? LineKind::kSides : kind;
  for (size_t i = 0; i < n; ++i)
    draw_thin(canvas, fixed(points[i == 0 ? n - 1 : i - 1]), fixed(points[i]), color, border, shift == 0);
  if (n < 3) return;
  size_t top = 0;
  int64_t low = points[0].y, left = points[0].x, right = left;
  for (size_t i = 0; i < n; ++i) {
    if (points[i].y < points[top].y) top = i;
    low = std::max(low, points[i].y);
    left = std::min(left, points[i].x);
    right = std::max(right, points[i].x);
  }
  const auto rounded = [&](int64_t v) { return (v + half) >> shift; };
  int64_t y = rounded(points[top].y);
  const int64_t first = y;
  if (rounded(right) < 0 || rounded(low) < 0 || rounded(left) >= canvas.width || y >= canvas.height) return;
  const int64_t bottom = std::min(rounded(low), canvas.height - 1);
  const bool smooth = kind == LineKind::kSmooth;
  const int64_t round_left = smooth ? kOne - 1 : kOne / 2, round_right = smooth ? 0 : kOne / 2;
  Side sides[2];
  for (Side& side : sides) {
    side.vertex = top;
    side.end = y;
  }
  auto edges_left = static_cast<int64_t>(n);
  while (y <= bottom) {
    if (!smooth || y < bottom || y == first) {
      for (int s = 0; s < 2; ++s) {
        Side& side = sides[s];
        if (y < side.end) continue;
        const size_t stride = s == 0 ? 1 : n - 1;
        size_t from = side.vertex, to = (from + stride) % n;
        for (; edges_left-- > 0; from = to, to = (to + stride) % n) {
          const int64_t end = row_of(points[to]);
          if (end <= y) continue;
          const int64_t x0 = fixed(points[from]).x, x1 = fixed(points[to]).x, rows = end - y;
          side = {to, end, x0, ((x1 - x0) * 2 + rows) / (2 * rows)};
          break;
        }
      }
      if (edges_left < 0) break;
    }
    if (y < 0) {  // several rows above the picture at once
      int64_t rows = std::min(-y, bottom - y + 1);
      for (const Side& side : sides) rows = std::min(rows, std::max<int64_t>(side.end - y, 1));
      for (Side& side : sides) side.x += side.step * rows;
      y += rows;
      continue;
    }
    const auto [l, r] = std::minmax(sides[0].x, sides[1].x);
    canvas.span(y, (l + round_left) >> kFraction, (r + round_right) >> kFraction, color);
    for (Side& side : sides) side.x += side.step;
    ++y;
  }
}

void PolygonFill::add(const std::vector<Point>& points, int shift, Point offset) {
  if (points.empty()) return;
  const int64_t half = (int64_t{1} << shift) >> 1;
  // x in fixed point, y as a row
  const auto moved = [&](const Point& p) {
    return Point{(p.x + offset.x) * (kOne >> shift), (p.y + offset.y + half) >> shift};
  };
  const auto inside = [&](const Point& p, int64_t unit) {
    return p.x >= 0 && p.x < canvas_.width * unit && p.y >= 0 && p.y < canvas_.height * unit;
  };
  Point before = moved(points.back());
  for (const Point& point : points) {
    const Point p0 = before, p1 = moved(point);
    before = p1;
    Point a = p0, b = p1;  // what the edge is made of
    // What is left of it in the picture. Where that is within one row, the edge becomes a vertical one.
    const auto cut = [&](const Point& from, const Point& to) {
      a.x = from.x;
      b.x = to.x;
      if (from.y == to.y) return;
      a.y = from.y;
      b.y = to.y;
    };
    if (kind_ == LineKind::kSmooth) {
      Point s0{p0.x, p0.y * kOne}, s1{p1.x, p1.y * kOne};
      draw_thin(canvas_, s0, s1, color_, kind_, false);
    } else {
      Point s0{(p0.x + kOne / 2) >> kFraction, p0.y}, s1{(p1.x + kOne / 2) >> kFraction, p1.y};
      draw_pixels(canvas_, s0, s1, color_, kind_);
      if (!inside(s0, 1) || !inside(s1, 1)) clip_segment(canvas_.width, canvas_.height, &s0, &s1);
      cut({s0.x * kOne, s0.y}, {s1.x * kOne, s1.y});
    }
    if (p0.y == p1.y || a.y == b.y) continue;
    const int64_t step = (b.x - a.x) / (b.y - a.y);
    const bool down = p0.y < p1.y;
    const Point& start = down ? a : b;
    const int64_t top = down ? p0.y : p1.y;
    edges_.push_back({top, down ? p1.y : p0.y, start.x + (top - start.y) * step, step});
  }
}

void PolygonFill::fill() {
  if (edges_.size() < 2) return;
  int64_t left = INT64_MAX, right = INT64_MIN;
  for (const Edge& e : edges_) {
    const int64_t end = e.x + (e.bottom - e.top) * e.step;
    left = std::min({left, e.x, end});
    right = std::max({right, e.x, end});
  }
  if (right < 0 || left >= canvas_.width * kOne) {
    edges_.clear();
    return;
  }
  std::stable_sort(edges_.begin(), edges_.end(), [](const Edge& p, const Edge& q) {
    return p.top != q.top ? p.top < q.top : p.x != q.x ? p.x < q.x : p.step < q.step;
  });
  std::vector<Edge> active;
  size_t next = 0;
  const auto by_x = [](const Edge& p, const Edge& q) { return p.x < q.x; };
  for (int64_t y = std::max<int64_t>(edges_[0].top, 0); y < canvas_.height; ++y) {
    if (active.empty()) {
      if (next == edges_.size()) break;
      y = std::max(y, edges_[next].top);
      if (y >= canvas_.height) break;
    }
    active.erase(std::remove_if(active.begin(), active.end(), [&](const Edge& e) { return e.bottom <= y; }),
                 active.end());
    const auto before = static_cast<std::ptrdiff_t>(active.size());
    for (; next < edges_.size() && edges_[next].top <= y; ++next) {
      Edge edge = edges_[next];
      if (edge.bottom <= y) continue;
      edge.x += (y - edge.top) * edge.step;
      active.push_back(edge);
    }
    std::stable_sort(active.begin() + before, active.end(), by_x);
    std::inplace_merge(active.begin(), active.begin() + before, active.end(), by_x);
    for (size_t i = 0; i + 1 < active.size(); i += 2) {
      const auto [l, r] = std::minmax(active[i].x, active[i + 1].x);
      canvas_.span(y, (l + kOne - 1) >> kFraction, r >> kFraction, color_);
    }
    for (Edge& edge : active) edge.x += edge.step;
    std::stable_sort(active.begin(), active.end(), by_x);
  }
  edges_.clear();
}

}  // namespace minnow::drawing
