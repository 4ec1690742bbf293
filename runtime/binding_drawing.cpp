// Drawing for `minnow.cv.drawing`, which checks what users give: arrays are contiguous, numbers are in their ranges.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <vector>

#include "kernels/vision/drawing/canvas.h"
#include "runtime/binding_picture.h"

namespace nb = nanobind;

namespace minnow {
namespace {

using drawing::Canvas;
using drawing::Color;
using drawing::kOne;
using drawing::LineKind;
using drawing::Point;

using Picture = nb::ndarray<nb::c_contig, nb::device::cpu>;  // [height, width, channels]
using Points = nb::ndarray<const int64_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;
using Counts = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

struct Pen {
  Canvas canvas;
  Color color;
  LineKind kind;

  Pen(const Picture& picture, const nb::bytes& bytes, int line) : kind(static_cast<LineKind>(line)) {
    canvas.data = static_cast<uint8_t*>(picture.data());
    if (picture.ndim() != 3) throw nb::value_error("a picture has 3 dimensions");
    canvas.height = static_cast<int64_t>(picture.shape(0));
    canvas.width = static_cast<int64_t>(picture.shape(1));
    canvas.pixel_bytes = static_cast<int64_t>(picture.shape(2) * picture.itemsize());
    if (bytes.size() != static_cast<size_t>(canvas.pixel_bytes) || bytes.size() > sizeof(color.bytes))
      throw nb::value_error("a color has the size of a pixel");
    if (kind == LineKind::kSmooth && picture.itemsize() != 1) throw nb::value_error("smooth lines need bytes");
    std::memcpy(color.bytes, bytes.c_str(), bytes.size());
  }
};

// Points, times a power of two.
std::vector<Point> points_of(const Points& array, size_t begin, size_t end, int64_t scale = 1) {
  std::vector<Point> points;
  points.reserve(end - begin);
  for (size_t i = begin; i < end; ++i) points.push_back({array.data()[2 * i] * scale, array.data()[2 * i + 1] * scale});
  return points;
}

void draw_polyline(const Picture& picture, const Points& array, bool closed, const nb::bytes& color, int thickness,
                   int kind, int shift) {
  const Pen pen(picture, color, kind);
  const std::vector<Point> points = points_of(array, 0, array.shape(0), kOne >> shift);
  nb::gil_scoped_release release;
  drawing::draw_polyline(pen.canvas, points, closed, pen.color, thickness, pen.kind, shift == 0);
}

void fill_convex(const Picture& picture, const Points& array, const nb::bytes& color, int kind, int shift) {
  const Pen pen(picture, color, kind);
  const std::vector<Point> points = points_of(array, 0, array.shape(0));
  nb::gil_scoped_release release;
  drawing::fill_convex(pen.canvas, points, pen.color, pen.kind, shift);
}

void fill_polygons(const Picture& picture, const Points& array, const Counts& counts, const nb::bytes& color, int kind,
                   int shift, int64_t dx, int64_t dy) {
  const Pen pen(picture, color, kind);
  drawing::PolygonFill fill(pen.canvas, pen.color, pen.kind);
  nb::gil_scoped_release release;
  size_t begin = 0;
  for (size_t i = 0; i < counts.shape(0); ++i) {
    const size_t end = std::min(begin + static_cast<size_t>(std::max<int64_t>(counts.data()[i], 0)), array.shape(0));
    fill.add(points_of(array, begin, end), shift, {dx, dy});
    begin = end;
  }
  fill.fill();
}

void draw_circle(const Picture& picture, int64_t x, int64_t y, int64_t radius, const nb::bytes& color, int thickness,
                 int kind, int shift) {
  const Pen pen(picture, color, kind);
  nb::gil_scoped_release release;
  if (thickness > 1 || pen.kind != LineKind::kCorners || shift > 0) {
    const int64_t scale = kOne >> shift;
    drawing::draw_round(pen.canvas, {x * scale, y * scale}, radius * scale, pen.color, thickness, pen.kind);
  } else {
    drawing::draw_pixel_circle(pen.canvas, {x, y}, radius, pen.color, thickness < 0);
  }
}

}  // namespace

void bind_drawing(nb::module_& m) {
  m.def("draw_polyline", &draw_polyline, nb::arg("picture"), nb::arg("points"), nb::arg("closed"), nb::arg("color"),
        nb::arg("thickness"), nb::arg("kind"), nb::arg("shift"),
        "Changes the picture, of shape [height, width, channels].");
  m.def("fill_convex", &fill_convex, nb::arg("picture"), nb::arg("points"), nb::arg("color"), nb::arg("kind"),
        nb::arg("shift"));
  m.def("fill_polygons", &fill_polygons, nb::arg("picture"), nb::arg("points"), nb::arg("counts"), nb::arg("color"),
        nb::arg("kind"), nb::arg("shift"), nb::arg("dx"), nb::arg("dy"),
        "By the even-odd rule; the first `counts[0]` points are the first polygon.");
  m.def("draw_circle", &draw_circle, nb::arg("picture"), nb::arg("x"), nb::arg("y"), nb::arg("radius"),
        nb::arg("color"), nb::arg("thickness"), nb::arg("kind"), nb::arg("shift"));
}

}  // namespace minnow
