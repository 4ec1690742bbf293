// Contours and connected components for `minnow.cv`, which checks what users give.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <utility>
#include <vector>

#include "kernels/vision/contour/contour.h"
#include "runtime/binding_picture.h"

namespace nb = nanobind;

namespace minnow {
namespace {

using contour::Contour;

template <typename T>
using Plane = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <typename T>
nb::object to_numpy(std::vector<T> values, size_t columns) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  const size_t shape[2] = {owned->size() / columns, columns};
  return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), 2, shape, owner));
}

// (points of all contours, how many points each has, hierarchy)
nb::tuple rows_of(const std::vector<Contour>& contours) {
  std::vector<int32_t> points, hierarchy;
  std::vector<int64_t> counts;
  for (const Contour& c : contours) {
    for (const contour::Pixel& p : c.points) points.insert(points.end(), {p.x, p.y});
    counts.push_back(static_cast<int64_t>(c.points.size()));
    hierarchy.insert(hierarchy.end(), {c.next, c.previous, c.child, c.parent});
  }
  return nb::make_tuple(to_numpy(std::move(points), 2), to_numpy(std::move(counts), 1),
                        to_numpy(std::move(hierarchy), 4));
}

nb::tuple find_contours(const Plane<uint8_t>& picture, int retrieval, int approximation, int dx, int dy) {
  std::vector<Contour> contours;
  {
    nb::gil_scoped_release release;
    contours = contour::find_contours(
        picture.data(), static_cast<int64_t>(picture.shape(1)), static_cast<int64_t>(picture.shape(0)),
        static_cast<contour::Retrieval>(retrieval), static_cast<contour::Approximation>(approximation), {dx, dy});
  }
  return rows_of(contours);
}

// (labels, rows of left, top, right, bottom, area, and the sums of x and y)
nb::tuple label_components(const Plane<uint8_t>& picture, bool eight) {
  const size_t height = picture.shape(0), width = picture.shape(1);
  std::vector<int32_t> labels(height * width);
  std::vector<int64_t> rows;
  {
    nb::gil_scoped_release release;
    for (const contour::Component& c : contour::label_components(picture.data(), static_cast<int64_t>(width),
                                                                 static_cast<int64_t>(height), eight, labels.data()))
      rows.insert(rows.end(), {c.left, c.top, c.right, c.bottom, c.area, c.sum_x, c.sum_y});
  }
  return nb::make_tuple(to_numpy(std::move(labels), width), to_numpy(std::move(rows), 7));
}

nb::object convex_hull(const nb::ndarray<const double, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>& points,
                       bool clockwise) {
  return to_numpy(contour::convex_hull(points.data(), points.shape(0), clockwise), 1);
}

nb::tuple least_rectangle(const nb::ndarray<const float, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>& polygon) {
  if (polygon.shape(0) < 3) throw nb::value_error("a polygon has at least three corners");
  const contour::Rectangle r =
      contour::least_rectangle(std::vector<float>(polygon.data(), polygon.data() + polygon.size()));
  return nb::make_tuple(r.corner_x, r.corner_y, r.along_x, r.along_y, r.across_x, r.across_y);
}

}  // namespace

void bind_contours(nb::module_& m) {
  m.def("find_contours", &find_contours, nb::arg("picture"), nb::arg("retrieval"), nb::arg("approximation"),
        nb::arg("dx"), nb::arg("dy"), "(points of all contours, how many points each has, hierarchy)");
  m.def("label_components", &label_components, nb::arg("picture"), nb::arg("eight"),
        "(labels, rows of left, top, right, bottom, area, and the sums of x and y)");
  m.def("convex_hull", &convex_hull, nb::arg("points"), nb::arg("clockwise"), "Indices of the corners.");
  m.def("least_rectangle", &least_rectangle, nb::arg("polygon"),
        "A corner of the rectangle around a convex polygon, and the two sides from there: x and y of each.");
}

}  // namespace minnow
