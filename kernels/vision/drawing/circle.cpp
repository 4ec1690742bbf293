// Circles: of whole pixels, and as polygons in fixed point.
#include <algorithm>
#include <cmath>

#include "kernels/vision/drawing/canvas.h"

namespace minnow::drawing {

void draw_pixel_circle(const Canvas& canvas, Point center, int64_t radius, const Color& color, bool filled) {
  if (center.x + radius < 0 || center.y + radius < 0 || center.x - radius >= canvas.width ||
      center.y - radius >= canvas.height)
    return;
  int64_t error = 0, across = radius, along = 0, up = 1, down = 2 * radius - 1;
  while (across >= along) {
    for (const auto& [dx, dy] : {std::pair(across, along), std::pair(along, across)}) {
      for (const int64_t y : {center.y - dy, center.y + dy}) {
        if (filled) {
          canvas.span(y, center.x - dx, center.x + dx, color);
        } else {
          canvas.put(center.x - dx, y, color);
          canvas.put(center.x + dx, y, color);
        }
      }
    }
    ++along;
    error += up;
    up += 2;
    if (error > 0) {
      error -= down;
      --across;
      down -= 2;
    }
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
