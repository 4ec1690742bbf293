// Lines: sequences of pixels, smooth lines, thick lines as quadrilaterals with round caps.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "kernels/vision/drawing/canvas.h"

namespace minnow::drawing {

void Canvas::span(int64_t y, int64_t left, int64_t right, const Color& color) const {
  if (y < 0 || y >= height || left >= width || right < 0) return;
  left = std::max<int64_t>(left, 0);
  right = std::min(right, width - 1);
  if (left > right) return;
  uint8_t* first = at(left, y);
  if (pixel_bytes == 1) {
    std::memset(first, color.bytes[0], static_cast<size_t>(right - left + 1));
    return;
  }
  for (int64_t x = left; x <= right; ++x) std::memcpy(at(x, y), color.bytes, static_cast<size_t>(pixel_bytes));
}

namespace {

int side_of(int64_t v, int64_t end) { return v < 0 ? -1 : v >= end ? 1 : 0; }

// Moves `p` along the line to `q` so that its `axis` coordinate is `target`; the other is rounded toward zero.
void slide(Point* p, const Point& q, int64_t Point::*axis, int64_t Point::*other, int64_t target) {
  const double t = static_cast<double>(target - p->*axis) * static_cast<double>(q.*other - p->*other);
  p->*other += static_cast<int64_t>(t / static_cast<double>(q.*axis - p->*axis));
  p->*axis = target;
}

}  // namespace

bool clip_segment(int64_t width, int64_t height, Point* from, Point* to) {
  if (width <= 0 || height <= 0) return false;
  const auto misses = [&] {
    const int x0 = side_of(from->x, width), x1 = side_of(to->x, width);
    const int y0 = side_of(from->y, height), y1 = side_of(to->y, height);
    return (x0 != 0 && x0 == x1) || (y0 != 0 && y0 == y1);
  };
  if (misses()) return false;
  for (Point* p : {from, to}) {
    const int side = side_of(p->y, height);
    if (side != 0) slide(p, p == from ? *to : *from, &Point::y, &Point::x, side < 0 ? 0 : height - 1);
  }
  if (misses()) return false;
  for (Point* p : {from, to}) {
    const int side = side_of(p->x, width);
    if (side != 0) slide(p, p == from ? *to : *from, &Point::x, &Point::y, side < 0 ? 0 : width - 1);
  }
  return true;
}

void draw_pixels(const Canvas& canvas, Point from, Point to, const Color& color, LineKind kind) {
  if (!canvas.contains(from.x, from.y) || !canvas.contains(to.x, to.y))
    if (!clip_segment(canvas.width, canvas.height, &from, &to)) return;
  if (from.x > to.x) std::swap(from, to);  // the same pixels in both directions
  int64_t along = to.x - from.x, across = std::abs(to.y - from.y);
  const int64_t down = to.y < from.y ? -1 : 1;
  const bool steep = across > along;
  if (steep) std::swap(along, across);
  Point p = from;
  const auto forward = [&] { steep ? p.y += down : p.x += 1; };
  const auto sideways = [&] { steep ? p.x += 1 : p.y += down; };
  const auto put = [&] { std::memcpy(canvas.at(p.x, p.y), color.bytes, static_cast<size_t>(canvas.pixel_bytes)); };
  if (kind == LineKind::kSides) {
    int64_t error = 0;
    for (int64_t n = along + across; n >= 0; --n) {
      put();
      if (error < 0) {
        error += 2 * along;
        sideways();
      } else {
        error -= 2 * across;
        forward();
      }
    }
    return;
  }
  int64_t error = along - 2 * across;
  for (int64_t n = along; n >= 0; --n) {
    put();
    if (error < 0) {
      error += 2 * along;
      sideways();
    }
    error -= 2 * across;
    forward();
  }
}

namespace {

// A segment in fixed point, along its main axis: `major` runs from pixel to pixel, `minor` by `slope` each.
struct Run {
  Point from, to;
  bool steep = false;
  int64_t slope = 0;

  Run(const Point& a, const Point& b) : from(a), to(b) {
    const int64_t dx = std::abs(to.x - from.x), dy = std::abs(to.y - from.y);
    steep = dx <= dy;
    if (steep ? from.y > to.y : from.x > to.x) std::swap(from, to);
    const int64_t rise = steep ? to.x - from.x : to.y - from.y;
    slope = rise * kOne / ((steep ? dy : dx) | 1);
  }
  int64_t major(const Point& p) const { return steep ? p.y : p.x; }
  int64_t minor(const Point& p) const { return steep ? p.x : p.y; }
};

void draw_fixed(const Canvas& canvas, Point from, Point to, const Color& color) {
  if (!clip_segment(canvas.width * kOne, canvas.height * kOne, &from, &to)) return;
  const Run run(from, to);
  const int64_t half = kOne / 2;
  canvas.put((run.to.x + half) >> kFraction, (run.to.y + half) >> kFraction, color);
  int64_t major = (run.major(run.from) + half) >> kFraction, minor = run.minor(run.from) + half;
  for (int64_t n = (run.major(run.to) - run.major(run.from)) >> kFraction; n >= 0; --n) {
    const int64_t m = minor >> kFraction;
    run.steep ? canvas.put(m, major, color) : canvas.put(major, m, color);
    ++major;
    minor += run.slope;
  }
}

// How much of a pixel a line covers, of 256: a bell curve of the distance in 32nds of a pixel.
struct SmoothTables {
  int cover[64];
  int widen[32];  // oblique lines pass more pixels per row: their diameter in the direction of the other axis

  SmoothTables() {
    for (int i = 0; i < 64; ++i) {
      const double d = (i - 15.5) / 32;
      cover[i] = static_cast<int>(255 * std::exp(-1.778 * d * d));
    }
    for (int i = 0; i < 32; ++i) {
      const double slope = (i + 0.5) / 32;
      widen[i] = static_cast<int>(256 * std::sqrt((1 + slope * slope) / 2));
    }
  }
};

void blend(const Canvas& canvas, int64_t x, int64_t y, const Color& color, int alpha) {
  if (!canvas.contains(x, y)) return;
  uint8_t* pixel = canvas.at(x, y);
  for (int64_t c = 0; c < canvas.pixel_bytes; ++c) {
    int v = pixel[c];
    for (int twice = 0; twice < 2; ++twice) v += ((color.bytes[c] - v) * alpha + 127) >> 8;
    pixel[c] = static_cast<uint8_t>(v);
  }
}

void draw_smooth(const Canvas& canvas, Point from, Point to, const Color& color) {
  static const SmoothTables tables;
  if (!clip_segment(canvas.width * kOne, canvas.height * kOne, &from, &to)) return;
  const Run run(from, to);
  const int64_t first = run.major(run.from), last = run.major(run.to) + kOne;
  int64_t count = (last >> kFraction) - (first >> kFraction);
  int64_t minor = run.minor(run.from) + ((run.slope * -(first & (kOne - 1))) >> kFraction) + kOne / 2;
  int64_t steepness = (run.slope >> (kFraction - 5)) & 63;
  if (run.slope < 0) steepness ^= 63;
  const int64_t full = (steepness & 32) != 0 ? 256 : tables.widen[steepness];
  // How much of the first two and the last two pixels the line covers: its ends, in 16ths of a pixel.
  const int64_t i = (first >> (kFraction - 7)) & 0x78, j = (last >> (kFraction - 7)) & 0x78;
  const auto part = [&](int64_t n) { return ((n * full) >> 8) & 0x1ff; };
  const int64_t head = (0x78 - i) | 4, tail = j | 4;
  const int64_t both = part(((j - i) & 0x78) | 4);
  const int64_t ends[3][3] = {{0, both, part(head)},
                              {both, part(((j - i) + 0x80) | 4), part(head + 128)},
                              {part(tail), part(tail + 128), full}};
  int64_t major = first >> kFraction;
  for (int64_t n = 0; count >= 0; ++n, --count, ++major) {
    const int64_t corrected = ends[std::min<int64_t>(n, 2)][std::min<int64_t>(count, 2)];
    const int64_t row = minor >> kFraction, distance = (minor >> (kFraction - 5)) & 31;
    const int64_t at[3] = {distance + 32, distance, 63 - distance};
    for (int64_t k = 0; k < 3; ++k) {
      const auto alpha = static_cast<int>(((corrected * tables.cover[at[k]]) >> 8) & 0xff);
      const int64_t m = row - 1 + k;
      run.steep ? blend(canvas, m, major, color, alpha) : blend(canvas, major, m, color, alpha);
    }
    minor += run.slope;
  }
}

}  // namespace

void draw_thin(const Canvas& canvas, Point from, Point to, const Color& color, LineKind kind, bool whole) {
  const auto rounded = [](const Point& p) {
    return Point{(p.x + kOne / 2) >> kFraction, (p.y + kOne / 2) >> kFraction};
  };
  if (kind == LineKind::kSmooth) {
    draw_smooth(canvas, from, to, color);
  } else if (whole || kind == LineKind::kCorners) {
    draw_pixels(canvas, rounded(from), rounded(to), color, kind);
  } else {
    draw_fixed(canvas, from, to, color);
  }
}

void draw_segment(const Canvas& canvas, Point from, Point to, const Color& color, int thickness, LineKind kind,
                  bool whole, bool cap_from, bool cap_to) {
  if (thickness <= 1) {
    draw_thin(canvas, from, to, color, kind, whole);
    return;
  }
  if (whole) {  // what is far outside is left out, and the new ends are rounded to whole pixels
    Point a{(from.x >> kFraction) + thickness, (from.y >> kFraction) + thickness};
    Point b{(to.x >> kFraction) + thickness, (to.y >> kFraction) + thickness};
    if (!clip_segment(canvas.width + 2 * thickness, canvas.height + 2 * thickness, &a, &b)) return;
    from = {(a.x - thickness) * kOne, (a.y - thickness) * kOne};
    to = {(b.x - thickness) * kOne, (b.y - thickness) * kOne};
  }
  const double dx = static_cast<double>(from.x - to.x) / kOne, dy = static_cast<double>(to.y - from.y) / kOne;
  const double square = dx * dx + dy * dy;
  const int64_t half = int64_t{thickness} << (kFraction - 1);
  if (square > 1e-15) {
    const double odd = (thickness & 1) != 0 ? 0.5 * kOne : 0;
    const double scale = (static_cast<double>(half) + odd) / std::sqrt(square);
    const Point side{std::llrint(dy * scale), std::llrint(dx * scale)};
    const std::vector<Point> corners = {{from.x + side.x, from.y + side.y},
                                        {from.x - side.x, from.y - side.y},
                                        {to.x - side.x, to.y - side.y},
                                        {to.x + side.x, to.y + side.y}};
    fill_convex(canvas, corners, color, kind, kFraction);
  }
  const auto cap = [&](const Point& p) {
    if (kind == LineKind::kSmooth) {
      draw_round(canvas, p, half, color, -1, kind);
    } else {
      const Point center{(p.x + kOne / 2) >> kFraction, (p.y + kOne / 2) >> kFraction};
      draw_pixel_circle(canvas, center, (half + kOne / 2) >> kFraction, color, true);
    }
  };
  if (cap_from) cap(from);
  if (cap_to) cap(to);
}

void draw_polyline(const Canvas& canvas, const std::vector<Point>& points, bool closed, const Color& color,
                   int thickness, LineKind kind, bool whole) {
  if (points.empty()) return;
  // The cap at the end of one segment is that at the begin of the next.
  bool cap_from = !closed;
  Point before = closed ? points.back() : points.front();
  for (size_t i = closed ? 0 : 1; i < points.size(); ++i) {
    draw_segment(canvas, before, points[i], color, thickness, kind, whole, cap_from, true);
    before = points[i];
    cap_from = false;
  }
}

}  // namespace minnow::drawing
