// Drawing on a picture in memory. Points are in fixed point where that is said: 16 bits after the point.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace minnow::drawing {

constexpr int kFraction = 16;
constexpr int64_t kOne = int64_t{1} << kFraction;

struct Point {
  int64_t x = 0, y = 0;
  bool operator==(const Point& o) const { return x == o.x && y == o.y; }
  bool operator!=(const Point& o) const { return !(*this == o); }
};

// Lines are sequences of pixels that share a side, or a side or a corner, or are blended with what is there (of bytes).
enum class LineKind { kSides = 4, kCorners = 8, kSmooth = 16 };

// The color of a pixel in the bytes of the picture: at most four numbers.
struct Color {
  uint8_t bytes[32] = {};
};

struct Canvas {
  uint8_t* data = nullptr;
  int64_t width = 0, height = 0;
  int64_t pixel_bytes = 1;

  bool contains(int64_t x, int64_t y) const { return x >= 0 && x < width && y >= 0 && y < height; }
  uint8_t* at(int64_t x, int64_t y) const { return data + (y * width + x) * pixel_bytes; }
  void put(int64_t x, int64_t y, const Color& color) const {
    if (contains(x, y)) std::memcpy(at(x, y), color.bytes, static_cast<size_t>(pixel_bytes));
  }
  // From `left` to `right`, both included; what is outside of the picture is left out.
  void span(int64_t y, int64_t left, int64_t right, const Color& color) const;
};

// Makes the segment end at the border of a picture of this size; false where it lies outside of it.
bool clip_segment(int64_t width, int64_t height, Point* from, Point* to);

// Between two pixels.
void draw_pixels(const Canvas& canvas, Point from, Point to, const Color& color, LineKind kind);
// One pixel wide, between two points in fixed point.
void draw_thin(const Canvas& canvas, Point from, Point to, const Color& color, LineKind kind, bool whole);
// In fixed point, of any thickness; thick lines have round caps where asked for.
void draw_segment(const Canvas& canvas, Point from, Point to, const Color& color, int thickness, LineKind kind,
                  bool whole, bool cap_from, bool cap_to);
void draw_polyline(const Canvas& canvas, const std::vector<Point>& points, bool closed, const Color& color,
                   int thickness, LineKind kind, bool whole);

// Fills between the leftmost and the rightmost edge of each row; points have `shift` bits after the point.
void fill_convex(const Canvas& canvas, const std::vector<Point>& points, const Color& color, LineKind kind, int shift);

// Polygons that are filled together, by the even-odd rule.
class PolygonFill {
 public:
  PolygonFill(const Canvas& canvas, const Color& color, LineKind kind) : canvas_(canvas), color_(color), kind_(kind) {}
  // Draws the border and keeps the edges.
  void add(const std::vector<Point>& points, int shift, Point offset);
  void fill();

 private:
  struct Edge {
    int64_t top, bottom, x, step;
  };
  const Canvas& canvas_;
  const Color& color_;
  LineKind kind_;
  std::vector<Edge> edges_;
};

// Center and radius in pixels.
void draw_pixel_circle(const Canvas& canvas, Point center, int64_t radius, const Color& color, bool filled);
// Center and radius in fixed point, as a polygon; filled where the thickness is negative.
void draw_round(const Canvas& canvas, Point center, int64_t radius, const Color& color, int thickness, LineKind kind);

}  // namespace minnow::drawing
