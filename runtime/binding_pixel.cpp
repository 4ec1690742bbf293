// Functions of single pixels for `minnow.cv`, which checks what users give.
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "kernels/vision/pixel.h"
#include "runtime/binding_view.h"
#include "runtime/binding_vision.h"

namespace nb = nanobind;

namespace minnow {
namespace {

using vision::Picture;

bool is_simple(DType t) { return t == DType::kU8 || t == DType::kF32; }

void require_like(const Picture& a, const Picture& b) {
  require(a.dtype == b.dtype && a.channels == b.channels, "pictures of different types");
  require_same(a, b);
}

void weigh(nb::handle source, const nb::object& second, nb::handle target, float alpha, float beta, float gamma,
           int threads) {
  Picture a = picture_of(source), dst = picture_of(target, true);
  require(is_simple(a.dtype) && is_simple(dst.dtype) && a.channels == dst.channels, "pictures of different types");
  require_same(a, dst);
  Picture b;
  if (!second.is_none()) {
    b = picture_of(second);
    require_like(a, b);
    join_rows({&a, &b, &dst});
  } else {
    join_rows({&a, &dst});
  }
  run_vision(threads, [&](ThreadPool& pool) {
    return vision::weigh(a, second.is_none() ? nullptr : &b, alpha, beta, gamma, dst, pool);
  });
}

// None for a value that is that of the picture.
void compare(nb::handle source, nb::handle target, double bound, const nb::object& above, const nb::object& below,
             int threads) {
  Picture src = picture_of(source), dst = picture_of(target, true);
  require_like(src, dst);
  join_rows({&src, &dst});
  require(src.dtype != DType::kI32, "an unknown type");
  vision::Step step;
  step.bound = bound;
  step.has_above = !above.is_none();
  step.has_below = !below.is_none();
  if (step.has_above) step.above = nb::cast<double>(above);
  if (step.has_below) step.below = nb::cast<double>(below);
  const auto fits = [&](double v) {
    switch (src.dtype) {
      case DType::kU8:
        return v >= 0 && v <= 255;
      case DType::kU16:
        return v >= 0 && v <= 65535;
      case DType::kI16:
        return v >= -32768 && v <= 32767;
      default:
        return true;
    }
  };
  require((step.has_above || step.has_below) && fits(bound) && fits(step.above) && fits(step.below), "a wrong value");
  run_vision(threads, [&](ThreadPool& pool) { return vision::compare_pixels(src, step, dst, pool); });
}

Picture mask_for(nb::handle array, const Picture& like) {
  const Picture mask = picture_of(array);
  require(mask.dtype == DType::kU8 && mask.channels == 1, "a wrong mask");
  require_same(mask, like);
  return mask;
}

void copy_where(nb::handle source, nb::handle mask_array, nb::handle target, int threads) {
  Picture src = picture_of(source), dst = picture_of(target, true), mask = mask_for(mask_array, src);
  require_like(src, dst);
  join_rows({&src, &dst, &mask});
  run_vision(threads, [&](ThreadPool& pool) { return vision::copy_where(src, mask, dst, pool); });
}

void blend(nb::handle first, nb::handle second, nb::handle u_array, nb::handle v_array, nb::handle target,
           int threads) {
  const Picture a = picture_of(first), b = picture_of(second), u = picture_of(u_array), v = picture_of(v_array);
  const Picture dst = picture_of(target, true);
  require_like(a, b);
  require_like(a, dst);
  require_like(u, v);
  require_same(a, u);
  require(is_simple(a.dtype) && u.dtype == DType::kF32 && u.channels == 1, "pictures of different types");
  run_vision(threads, [&](ThreadPool& pool) { return vision::blend(a, b, u, v, dst, pool); });
}

template <typename Function>
auto measured(nb::handle source, const nb::object& mask_array, Function function) {
  const Picture src = picture_of(source);
  require(src.dtype == DType::kU8, "a picture that is not of bytes");
  Picture mask;
  if (!mask_array.is_none()) mask = mask_for(mask_array, src);
  nb::gil_scoped_release release;
  return function(src, mask_array.is_none() ? nullptr : &mask);
}
std::array<int64_t, 256> count_bytes(nb::handle source, const nb::object& mask) {
  return measured(source, mask, vision::count_bytes);
}
std::pair<int, int> range_of_bytes(nb::handle source) {
  return measured(source, nb::none(), [](const Picture& src, const Picture*) { return vision::range_of_bytes(src); });
}
double square_sum_of_bytes(nb::handle source) {
  return measured(source, nb::none(),
                  [](const Picture& src, const Picture*) { return vision::square_sum_of_bytes(src); });
}
std::vector<double> channel_sums(nb::handle source, const nb::object& mask) {
  return measured(source, mask, vision::channel_sums);
}

void mirror(nb::handle source, nb::handle target, bool rows, bool columns, int threads) {
  const Picture src = picture_of(source), dst = picture_of(target, true);
  require_like(src, dst);
  run_vision(threads, [&](ThreadPool& pool) { return vision::mirror(src, dst, rows, columns, pool); });
}

void turn(nb::handle source, nb::handle target, bool clockwise, int threads) {
  const Picture src = picture_of(source), dst = picture_of(target, true);
  require(src.dtype == dst.dtype && src.channels == dst.channels && src.width == dst.height && src.height == dst.width,
          "pictures of different types or sizes");
  run_vision(threads, [&](ThreadPool& pool) { return vision::turn(src, dst, clockwise, pool); });
}

std::vector<Picture> planes_of(const nb::list& arrays, const Picture& like, bool writable) {
  std::vector<Picture> planes;
  for (const nb::handle array : arrays) {
    planes.push_back(picture_of(array, writable));
    require(planes.back().dtype == DType::kU8 && planes.back().channels == 1, "a plane that is not of bytes");
    require_same(planes.back(), like);
  }
  require(like.dtype == DType::kU8 && static_cast<int64_t>(planes.size()) == like.channels, "a wrong number of planes");
  return planes;
}

void merge(const nb::list& arrays, nb::handle target, int threads) {
  const Picture dst = picture_of(target, true);
  const std::vector<Picture> planes = planes_of(arrays, dst, false);
  run_vision(threads, [&](ThreadPool& pool) { return vision::merge_channels(planes, dst, pool); });
}

void split(nb::handle source, const nb::list& arrays, int threads) {
  const Picture src = picture_of(source);
  const std::vector<Picture> planes = planes_of(arrays, src, true);
  run_vision(threads, [&](ThreadPool& pool) { return vision::split_channels(src, planes, pool); });
}

}  // namespace

void bind_pixels(nb::module_& v) {
  v.def("weigh", &weigh, nb::arg("a"), nb::arg("b").none(), nb::arg("dst"), nb::arg("alpha"), nb::arg("beta"),
        nb::arg("gamma"), nb::arg("threads"));
  v.def("compare", &compare, nb::arg("src"), nb::arg("dst"), nb::arg("bound"), nb::arg("above").none(),
        nb::arg("below").none(), nb::arg("threads"));
  v.def("copy_where", &copy_where, nb::arg("src"), nb::arg("mask"), nb::arg("dst"), nb::arg("threads"));
  v.def("blend", &blend, nb::arg("a"), nb::arg("b"), nb::arg("u"), nb::arg("v"), nb::arg("dst"), nb::arg("threads"));
  v.def("count_bytes", &count_bytes, nb::arg("src"), nb::arg("mask").none());
  v.def("range_of_bytes", &range_of_bytes, nb::arg("src"));
  v.def("square_sum_of_bytes", &square_sum_of_bytes, nb::arg("src"));
  v.def("otsu", &vision::otsu, nb::arg("counts"));
  v.def("channel_sums", &channel_sums, nb::arg("src"), nb::arg("mask").none());
  v.def("mirror", &mirror, nb::arg("src"), nb::arg("dst"), nb::arg("rows"), nb::arg("columns"), nb::arg("threads"));
  v.def("turn", &turn, nb::arg("src"), nb::arg("dst"), nb::arg("clockwise"), nb::arg("threads"));
  v.def("merge", &merge, nb::arg("planes"), nb::arg("dst"), nb::arg("threads"));
  v.def("split", &split, nb::arg("src"), nb::arg("planes"), nb::arg("threads"));
}

}  // namespace minnow
