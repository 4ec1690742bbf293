// The rectangle of least area around a convex polygon, by rotating calipers (G. T. Toussaint, 1983): four lines at
// right angles touch the polygon, and turn until one of them lies on the next side. In single precision, so that of
// rectangles of the same area, as around every acute triangle, the same one is chosen as in OpenCV.
#include <cmath>

#include "kernels/vision/contour/contour.h"

namespace minnow::contour {
namespace {

struct Vector {
  float x, y;
};

// Turned by quarters.
Vector turned(Vector v, int quarters) {
  for (; quarters > 0; --quarters) v = {-v.y, v.x};
  return v;
}

}  // namespace

Rectangle least_rectangle(const std::vector<float>& polygon) {
  const size_t n = polygon.size() / 2;
  const auto point = [&](size_t i) { return Vector{polygon[2 * i], polygon[2 * i + 1]}; };
  std::vector<Vector> sides(n);
  std::vector<float> scales(n);
  size_t touched[4] = {0, 0, 0, 0};  // by the lines below, right, above, left
  for (size_t i = 0; i < n; ++i) {
    const Vector p = point(i), q = point((i + 1) % n);
    const double dx = static_cast<double>(q.x) - p.x, dy = static_cast<double>(q.y) - p.y;
    sides[i] = {static_cast<float>(dx), static_cast<float>(dy)};
    scales[i] = static_cast<float>(1 / std::sqrt(dx * dx + dy * dy));
    if (p.y < point(touched[0]).y) touched[0] = i;
    if (p.x > point(touched[1]).x) touched[1] = i;
    if (p.y > point(touched[2]).y) touched[2] = i;
    if (p.x < point(touched[3]).x) touched[3] = i;
  }
  float direction = 1;
  for (size_t i = 0; i < n; ++i) {
    const Vector a = sides[(i + n - 1) % n], b = sides[i];
    const double turn = static_cast<double>(a.x) * b.y - static_cast<double>(a.y) * b.x;
    if (turn != 0) {
      direction = turn > 0 ? 1.0f : -1.0f;
      break;
    }
  }
  Vector base{direction, 0};
  float least = INFINITY;
  Rectangle best{};
  for (size_t k = 0; k < n; ++k) {
    int next = 0;
    float cosine = -INFINITY;
    for (int i = 0; i < 4; ++i) {
      const Vector line = turned(base, i), side = sides[touched[i]];
      const float c = (line.x * side.x + line.y * side.y) * scales[touched[i]];
      if (c > cosine) {
        cosine = c;
        next = i;
      }
    }
    const size_t on = touched[next];
    base = turned({sides[on].x * scales[on], sides[on].y * scales[on]}, (4 - next) % 4);
    touched[next] = (on + 1) % n;
    const Vector below = point(touched[0]), right = point(touched[1]), above = point(touched[2]),
                 left = point(touched[3]);
    const float width = (right.x - left.x) * base.x + (right.y - left.y) * base.y;
    const float height = -(above.x - below.x) * base.y + (above.y - below.y) * base.x;
    const float area = width * height;
    if (area > least) continue;
    least = area;
    // The corner where the lines on the left and below meet.
    const float a = base.x * left.x + base.y * left.y, b = -base.y * below.x + base.x * below.y;
    const float scale = 1 / (base.x * base.x + base.y * base.y);
    best.corner_x = (a * base.x - b * base.y) * scale;
    best.corner_y = (a * base.y + b * base.x) * scale;
    best.along_x = base.x * width;
    best.along_y = base.y * width;
    best.across_x = -base.y * height;
    best.across_y = base.x * height;
  }
  return best;
}

}  // namespace minnow::contour
