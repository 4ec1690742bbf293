// Circles: of whole pixels, and as polygons in fixed point.
#include <algorithm>
#include <cmath>

#include "kernels/vision/drawing/canvas.h"

namespace minnow::drawing {

namespace {

// The largest whole number whose square is at most `n`.
int64_t root(int64_t n) {
  auto r = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  while (r * r > n) --r;
  while ((r + 1) * (r + 1) <= n) ++r;
  return r;
}

}  // namespace

// The pixels of the midpoint algorithm, computed for what lies in the picture only, however large the circle is: of the
// eighth from a vertical end, those of each row, mirrored; of the eighth beside it, those of each column.
void draw_pixel_circle(const Canvas& canvas, Point center, int64_t radius, const Color& color, bool filled) {
  const int64_t square = radius * radius;
  const int64_t eighth = filled ? radius : root(square / 2);
  for (int64_t y = std::max<int64_t>(center.y - eighth, 0); y <= std::min(center.y + eighth, canvas.height - 1); ++y) {
    const int64_t dx = root(square - (y - center.y) * (y - center.y));
    if (filled) {
      canvas.span(y, center.x - dx, center.x + dx, color);
    } else {
      canvas.put(center.x - dx, y, color);
      canvas.put(center.x + dx, y, color);
    }
  }
  if (filled) return;
  for (int64_t x = std::max<int64_t>(center.x - eighth, 0); x <= std::min(center.x + eighth, canvas.width - 1); ++x) {
    const int64_t dy = root(square - (x - center.x) * (x - center.x));
    canvas.put(x, center.y - dy, color);
    canvas.put(x, center.y + dy, color);
  }
}

void draw_round(const Canvas& canvas, Point center, int64_t radius, const Color& color, int thickness, LineKind kind) {
  // Corners at whole degrees, whose sines have seven decimal digits: the polygon is the same on all processors.
  const auto sine = [](int degrees) {
    return static_cast<double>(static_cast<float>(std::round(std::sin(degrees * M_PI / 180) * 1e7) / 1e7));
  };
  const int64_t pixels = (radius + kOne / 2) >> kFraction;
  const int step = pixels < 3 ? 90 : pixels < 10 ? 30 : pixels < 15 ? 18 : 5;
  std::vector<Point> points;
  for (int angle = 0; angle < 360 + step; angle += step) {
    const int degrees = std::min(angle, 360);
    const double x = static_cast<double>(center.x) + static_cast<double>(radius) * sine(450 - degrees);
    const double y = static_cast<double>(center.y) + static_cast<double>(radius) * sine(degrees);
    // The next pixel, and what is missing.
    Point p{std::llrint(x / kOne) * kOne, std::llrint(y / kOne) * kOne};
    p.x += std::llrint(x - static_cast<double>(p.x));
    p.y += std::llrint(y - static_cast<double>(p.y));
    if (points.empty() || p != points.back()) points.push_back(p);
  }
  if (points.size() == 1) points.assign(2, center);
  if (thickness >= 0) {
    draw_polyline(canvas, points, false, color, thickness, kind, false);
  } else {
    fill_convex(canvas, points, color, kind, kFraction);
  }
}

}  // namespace minnow::drawing
