#include "runtime/binding_vision.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "kernels/vision/color.h"
#include "kernels/vision/filter.h"
#include "kernels/vision/image_process.h"
#include "kernels/vision/resize_picture.h"
#include "kernels/vision/warp.h"
#include "runtime/binding_view.h"

namespace nb = nanobind;

namespace minnow {

using vision::Picture;

Picture picture_of(nb::handle array, bool writable) {
  Py_buffer view;
  const int flags = PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(array.ptr(), &view, flags) != 0) throw nb::python_error();
  Picture picture;
  bool fits = view.ndim == 2 || view.ndim == 3;
  const char* format = view.format == nullptr ? "" : view.format;
  static constexpr struct {
    char letter;
    DType dtype;
  } kTypes[] = {{'B', DType::kU8},  {'H', DType::kU16}, {'h', DType::kI16},
                {'f', DType::kF32}, {'d', DType::kF64}, {'i', DType::kI32}};
  const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& t) {
    return t.letter == format[0] && format[1] == '\0' && static_cast<size_t>(view.itemsize) == dtype_size(t.dtype);
  });
  fits = fits && type != std::end(kTypes);
  if (fits) {
    picture.data = view.buf;
    picture.dtype = type->dtype;
    picture.height = view.shape[0];
    picture.width = view.shape[1];
    picture.channels = view.ndim == 3 ? view.shape[2] : 1;
    picture.stride = view.strides[0];
    const auto step = [&](int i) { return view.shape[i] <= 1 ? -1 : static_cast<int64_t>(view.strides[i]); };
    fits = (step(1) < 0 || step(1) == picture.pixel_bytes()) && picture.channels <= vision::kMostChannels &&
           (view.ndim == 2 || step(2) < 0 || step(2) == view.itemsize) && view.len > 0;
  }
  PyBuffer_Release(&view);
  if (!fits) raise_if(fail(Code::kInternal, "an array that is not a picture"));
  return picture;
}

ThreadPool& pool_of(int threads) {
  static thread_local std::unique_ptr<ThreadPool> kept;
  if (kept == nullptr || kept->threads() != threads) {
    kept.reset();
    kept = std::make_unique<ThreadPool>(threads);
  }
  return *kept;
}

void join_rows(std::initializer_list<Picture*> pictures) {
  constexpr int64_t kPixels = 1 << 13;
  for (const Picture* p : pictures)
    if (p->stride != p->width * p->pixel_bytes()) return;
  const Picture& first = **pictures.begin();
  int64_t rows = std::clamp<int64_t>(kPixels / first.width, 1, first.height);
  while (first.height % rows != 0) --rows;
  for (Picture* p : pictures) {
    p->height /= rows;
    p->width *= rows;
    p->stride *= rows;
  }
}

void require(bool condition, const char* what) {
  if (!condition) raise_if(fail(Code::kInternal, "%s", what));
}

void require_same(const Picture& a, const Picture& b) {
  require(a.width == b.width && a.height == b.height, "pictures of different sizes");
}

namespace {

// (from, to, swap, means, factors), the last two empty for bytes; or None.
struct GivenFinish {
  vision::Finish finish;
  bool is_given = false;

  GivenFinish(const nb::object& given, const Picture& src, const Picture& dst) {
    if (given.is_none()) {
      require(src.dtype == dst.dtype && src.channels == dst.channels, "pictures of different types");
      return;
    }
    is_given = true;
    const auto to = nb::cast<int>(given[0]);
    const auto swap = nb::cast<bool>(given[1]);
    const auto means = nb::cast<std::vector<float>>(given[2]), factors = nb::cast<std::vector<float>>(given[3]);
    const auto from = static_cast<int>(src.channels);
    finish.color = vision::color_row(from, to, swap);
    finish.channels = to;
    finish.normalize = !means.empty();
    require(src.dtype == DType::kU8 && dst.channels == to && (finish.color != nullptr || (from == to && !swap)) &&
                dst.dtype == (finish.normalize ? DType::kF32 : DType::kU8) && to <= 4 &&
                means.size() == factors.size() && (means.empty() || means.size() == static_cast<size_t>(to)),
            "an unknown finish");
    if (finish.normalize) finish.spread(means.data(), factors.data(), dst.width);
  }
  const vision::Finish* get() const { return is_given ? &finish : nullptr; }
};

void resize(nb::handle source, nb::handle target, int interpolation, double scale_x, double scale_y,
            const nb::object& finish, int threads) {
  const Picture src = picture_of(source), dst = picture_of(target, true);
  const GivenFinish given(finish, src, dst);
  require(interpolation >= 0 && interpolation <= 6, "an unknown interpolation");
  run_vision(threads, [&](ThreadPool& pool) {
    return vision::resize_picture(src, dst, static_cast<vision::Interpolation>(interpolation), scale_x, scale_y,
                                  given.get(), pool);
  });
}

vision::Border border_of(int border) {
  require(border >= 0 && border <= 4, "an unknown border");
  return static_cast<vision::Border>(border);
}

vision::WarpSettings warp_settings(int interpolation, int border, const std::vector<double>& value) {
  require((interpolation >= 0 && interpolation <= 2) || interpolation == 4, "an unknown interpolation");
  vision::WarpSettings settings;
  settings.interpolation = static_cast<vision::Interpolation>(interpolation);
  settings.border = border_of(border);
  require(value.size() == 4, "a value of a border has four numbers");
  std::copy(value.begin(), value.end(), settings.value);
  return settings;
}

void warp(nb::handle source, nb::handle target, const std::vector<double>& inverse, int interpolation, int border,
          const std::vector<double>& value, const nb::object& finish, int threads) {
  const Picture src = picture_of(source), dst = picture_of(target, true);
  const GivenFinish given(finish, src, dst);
  const vision::WarpSettings settings = warp_settings(interpolation, border, value);
  require(inverse.size() == 6 || (inverse.size() == 9 && !given.is_given), "a matrix has 6 or 9 numbers");
  run_vision(threads, [&](ThreadPool& pool) {
    return inverse.size() == 6 ? vision::warp_affine(src, dst, inverse.data(), settings, given.get(), pool)
                               : vision::warp_perspective(src, dst, inverse.data(), settings, pool);
  });
}

void remap(nb::handle source, nb::handle target, nb::handle map, const nb::object& second, int interpolation,
           int border, const std::vector<double>& value, int threads) {
  const Picture src = picture_of(source), dst = picture_of(target, true), first = picture_of(map);
  require(src.dtype == dst.dtype && src.channels == dst.channels, "pictures of different types");
  require_same(dst, first);
  Picture other;
  if (!second.is_none()) {
    other = picture_of(second);
    require_same(dst, other);
  }
  const bool split = first.dtype == DType::kF32 && first.channels == 1 && other.dtype == DType::kF32;
  const bool joined = first.dtype == DType::kF32 && first.channels == 2 && second.is_none();
  const bool whole =
      first.dtype == DType::kI16 && first.channels == 2 && (second.is_none() || other.dtype == DType::kU16);
  require((split && other.channels == 1) || joined || whole, "unknown maps");
  const vision::WarpSettings settings = warp_settings(interpolation, border, value);
  run_vision(threads, [&](ThreadPool& pool) {
    return vision::remap(src, dst, first, second.is_none() ? nullptr : &other, settings, pool);
  });
}

void rect_sub_pixel(nb::handle source, nb::handle target, float x, float y) {
  const Picture src = picture_of(source), dst = picture_of(target, true);
  const auto known = [](DType t) { return t == DType::kU8 || t == DType::kF32; };
  require(src.channels == dst.channels && known(src.dtype) && known(dst.dtype) &&
              (src.dtype == DType::kU8 || dst.dtype == DType::kF32),
          "pictures of different types");
  raise_if(vision::rect_sub_pixel(src, dst, x, y));
}

void color(nb::handle source, nb::handle target, int space, bool back, bool swap, bool full, bool linear, int green,
           int threads) {
  Picture src = picture_of(source), dst = picture_of(target, true);
  require_same(src, dst);
  join_rows({&src, &dst});
  require(space >= 0 && space <= static_cast<int>(vision::ColorSpace::kPremultiplied), "an unknown color space");
  vision::ColorChange change;
  change.space = static_cast<vision::ColorSpace>(space);
  change.back = back;
  change.swap = swap;
  change.full = full;
  change.linear = linear;
  change.green = green;
  const auto three = [](const Picture& p) { return p.channels == 3 || p.channels == 4; };
  bool fits = three(src) && three(dst);
  switch (change.space) {
    case vision::ColorSpace::kReorder:
      fits = (three(src) || src.channels == 1) && three(dst);
      break;
    case vision::ColorSpace::kGray:
      fits = three(src) && dst.channels == 1;
      break;
    case vision::ColorSpace::kPacked:
      fits = back ? src.channels == 2 && (three(dst) || dst.channels == 1)
                  : (three(src) || src.channels == 1) && dst.channels == 2;
      break;
    case vision::ColorSpace::kPremultiplied:
      fits = src.channels == 4 && dst.channels == 4;
      break;
    default:
      break;
  }
  require(fits, "a wrong number of channels");
  run_vision(threads, [&](ThreadPool& pool) { return vision::change_color(change, src, dst, pool); });
}

// `order`: where y, u and v are. 0: planes y, u, v; 1: y, v, u; 2: y and pairs u, v; 3: y and pairs v, u, in one
// picture or two; pairs of pixels: 4: u y v y; 5: y u y v; 6: y v y u.
void from_yuv(nb::handle source, const nb::object& second, nb::handle target, int order, bool red_first, int threads) {
  const Picture src = picture_of(source), dst = picture_of(target, true);
  const int64_t w = dst.width, h = dst.height;
  require(dst.dtype == DType::kU8 && src.dtype == DType::kU8 && (dst.channels == 3 || dst.channels == 4) &&
              src.width == w && w % 2 == 0,
          "a wrong picture of YUV");
  vision::YuvPlanes planes;
  planes.y = src.row<uint8_t>(0);
  planes.y_stride = src.stride;
  if (order >= 4) {
    require(src.height == h && src.channels == 2 && order <= 6, "a wrong picture of YUV");
    planes.y += order == 4 ? 1 : 0;
    const uint8_t* chroma = src.row<uint8_t>(0) + (order == 4 ? 0 : 1);
    planes.u = chroma + (order == 6 ? 2 : 0);
    planes.v = chroma + (order == 6 ? 0 : 2);
    planes.chroma_stride = src.stride;
    planes.y_step = 2;
    planes.step = 4;
    planes.half_rows = false;
  } else {
    require(src.channels == 1 && h % 2 == 0, "a wrong picture of YUV");
    const bool one = second.is_none();
    require(src.height == (one ? h + h / 2 : h) && order >= 0 && (one || order >= 2), "a wrong picture of YUV");
    if (order >= 2) {
      planes.u = planes.v = one ? src.row<uint8_t>(h) : nullptr;
      planes.chroma_stride = src.stride;
      if (!one) {
        const Picture chroma = picture_of(second);
        require(chroma.dtype == DType::kU8 && chroma.height == h / 2 && chroma.width == w / 2 && chroma.channels == 2,
                "a wrong picture of chroma");
        planes.u = planes.v = chroma.row<uint8_t>(0);
        planes.chroma_stride = chroma.stride;
      }
      (order == 2 ? planes.v : planes.u) += 1;
      planes.step = 2;
    } else {
      require(src.stride == w || src.height == 1, "a picture of YUV with gaps");
      planes.u = src.row<uint8_t>(h);
      planes.v = planes.u + w / 2 * (h / 2);
      if (order == 1) std::swap(planes.u, planes.v);
      planes.chroma_stride = w / 2;
    }
  }
  run_vision(threads, [&](ThreadPool& pool) { return vision::from_yuv(planes, dst, red_first, pool); });
}

void to_yuv(nb::handle source, nb::handle target, bool red_first, bool v_first) {
  const Picture src = picture_of(source), dst = picture_of(target, true);
  require(src.dtype == DType::kU8 && dst.dtype == DType::kU8 && (src.channels == 3 || src.channels == 4) &&
              dst.channels == 1 && dst.width == src.width && dst.height == src.height + src.height / 2 &&
              dst.stride == dst.width && src.width % 2 == 0 && src.height % 2 == 0,
          "a wrong picture for YUV");
  uint8_t* y = dst.mutable_row<uint8_t>(0);
  uint8_t *u = y + src.width * src.height, *v = u + src.width * src.height / 4;
  if (v_first) std::swap(u, v);
  nb::gil_scoped_release release;
  vision::to_yuv(src, y, u, v, red_first);
}

void separable(nb::handle source, nb::handle target, const std::vector<double>& across, const std::vector<double>& down,
               int anchor_x, int anchor_y, double delta, int bits, int border, int threads) {
  const Picture src = picture_of(source), dst = picture_of(target, true);
  const auto inside = [](int i, size_t n) { return i >= 0 && static_cast<size_t>(i) < n; };
  require(inside(anchor_x, across.size()) && inside(anchor_y, down.size()) && bits <= 30, "a wrong window");
  const vision::Border edge = border_of(border);
  run_vision(threads, [&](ThreadPool& pool) {
    return vision::filter_separable(src, dst, across, down, anchor_x, anchor_y, delta, bits, edge, pool);
  });
}

vision::Window window_of(const std::vector<int64_t>& window) {
  require(window.size() == 4, "a window has four numbers");
  const vision::Window w{window[0], window[1], window[2], window[3]};
  require(w.width > 0 && w.height > 0 && w.x >= 0 && w.x < w.width && w.y >= 0 && w.y < w.height, "a wrong window");
  return w;
}

void windowed(nb::handle source, nb::handle target, const std::vector<double>& weights,
              const std::vector<int64_t>& window, double delta, int border, int threads) {
  const Picture src = picture_of(source), dst = picture_of(target, true);
  const vision::Window w = window_of(window);
  require(weights.size() == static_cast<size_t>(w.width * w.height), "a wrong window");
  const vision::Border edge = border_of(border);
  run_vision(threads, [&](ThreadPool& pool) { return vision::filter_window(src, dst, weights, w, delta, edge, pool); });
}

void box(nb::handle source, nb::handle target, const std::vector<int64_t>& window, bool squares, double factor,
         int border, int threads) {
  const Picture src = picture_of(source), dst = picture_of(target, true);
  const vision::Window w = window_of(window);
  const vision::Border edge = border_of(border);
  run_vision(threads, [&](ThreadPool& pool) { return vision::filter_box(src, dst, w, squares, factor, edge, pool); });
}

void morph(nb::handle source, nb::handle target, const std::vector<uint8_t>& shape, const std::vector<int64_t>& window,
           bool largest, int border, const std::vector<double>& outside, int threads) {
  const Picture src = picture_of(source), dst = picture_of(target, true);
  const vision::Window w = window_of(window);
  require(shape.size() == static_cast<size_t>(w.width * w.height) && src.dtype == dst.dtype &&
              src.channels == dst.channels && (outside.empty() || outside.size() == 4),
          "a wrong window");
  require_same(src, dst);
  const vision::Border edge = border_of(border);
  run_vision(threads, [&](ThreadPool& pool) {
    return vision::morphology(src, dst, shape, w, largest, edge, outside.empty() ? nullptr : outside.data(), pool);
  });
}

void pyramid(nb::handle source, nb::handle target, bool up, int border, int threads) {
  const Picture src = picture_of(source), dst = picture_of(target, true);
  const auto near = [](int64_t a, int64_t b) { return std::abs(a - b) <= 1; };
  const auto half = [&](int64_t small, int64_t large) { return near(2 * small, large) || 2 * small == large - 2; };
  require(src.dtype == dst.dtype && (src.dtype == DType::kU8 || src.dtype == DType::kF32) &&
              src.channels == dst.channels &&
              (up ? near(dst.width, 2 * src.width) && near(dst.height, 2 * src.height)
                  : half(dst.width, src.width) && half(dst.height, src.height)),
          "pictures of different types");
  const vision::Border edge = border_of(border);
  run_vision(threads, [&](ThreadPool& pool) {
    return up ? vision::double_picture(src, dst, pool) : vision::halve_picture(src, dst, edge, pool);
  });
}

void bilateral(nb::handle source, nb::handle target, int64_t radius, double sigma_color, double sigma_space, int border,
               int threads) {
  const Picture src = picture_of(source), dst = picture_of(target, true);
  require_same(src, dst);
  require(src.dtype == dst.dtype && (src.dtype == DType::kU8 || src.dtype == DType::kF32) &&
              src.channels == dst.channels && (src.channels == 1 || src.channels == 3) && radius >= 0,
          "pictures of different types");
  const vision::Border edge = border_of(border);
  run_vision(threads, [&](ThreadPool& pool) {
    return vision::filter_bilateral(src, dst, radius, sigma_color, sigma_space, edge, pool);
  });
}

// Bytes of an image, [count], to a tensor [height, width, channels] or, with `planes`, [channels, height, width].
// Formats, filter and wrap are MNN's numbers. See vision::process_image.
void process(nb::handle bytes, int64_t width, int64_t height, int64_t stride, nb::handle target, int source_format,
             int target_format, int filter, int wrap, const std::vector<float>& mean, const std::vector<float>& factor,
             const std::vector<float>& matrix, int padding, bool planes, int threads) {
  const Tensor src = to_tensor(bytes), dst = to_tensor(target);
  vision::ImageProcess settings;
  settings.source = static_cast<vision::PixelFormat>(source_format);
  settings.target = static_cast<vision::PixelFormat>(target_format);
  const bool is_video = source_format >= 11 && source_format <= 13;
  const int64_t pixel = vision::channels_of(settings.source), channels = vision::channels_of(settings.target);
  require((is_video || pixel > 0) && channels > 0 && filter >= 0 && filter <= 2 && wrap >= 0 && wrap <= 2 &&
              mean.size() == 4 && factor.size() == 4 && matrix.size() == 9 && padding >= 0 && padding <= 255,
          "a wrong setting of an image process");
  settings.filter = static_cast<vision::Filter>(filter);
  settings.wrap = static_cast<vision::Wrap>(wrap);
  std::copy(mean.begin(), mean.end(), settings.mean);
  std::copy(factor.begin(), factor.end(), settings.factor);
  std::copy(matrix.begin(), matrix.end(), settings.matrix);
  settings.padding = static_cast<uint8_t>(padding);
  const int64_t even = (width + 1) / 2 * 2, row = is_video ? even : width * pixel;
  const int64_t rows = is_video ? height + (height + 1) / 2 : height;
  const bool fits =
      width > 0 && height > 0 && width < (1 << 30) && height < (1 << 30) && stride >= row &&
      stride < (int64_t{1} << 32) && src.type.dtype == DType::kU8 &&
      src.count() >= (source_format == 13 ? stride * rows - (stride - row) / 2 : stride * (rows - 1) + row);
  require(fits && (source_format != 13 || stride % 2 == 0), "the bytes are too few for the image");
  require(dst.rank() == 3 && (dst.type.dtype == DType::kF32 || dst.type.dtype == DType::kU8) &&
              dst.dim(planes ? 0 : 2) == channels && dst.count() > 0,
          "a wrong tensor for an image");
  const vision::ProcessedTensor tensor{dst.data, dst.type.dtype, dst.dim(planes ? 1 : 0), dst.dim(planes ? 2 : 1),
                                       !planes};
  run_vision(threads, [&](ThreadPool& pool) {
    return vision::process_image(settings, src.as<uint8_t>(), width, height, stride, tensor, pool);
  });
}

// Undoes the filters of rows of a PNG image, each a byte that names the filter and the bytes of pixels. False where a
// filter is unknown.
bool unfilter(nb::handle array, int64_t pixel) {
  const Picture rows = picture_of(array, true);
  require(rows.dtype == DType::kU8 && rows.channels == 1 && pixel > 0, "wrong rows of a PNG image");
  const std::vector<uint8_t> zeros(static_cast<size_t>(rows.width), 0);
  const uint8_t* above = zeros.data();
  for (int64_t y = 0; y < rows.height; ++y) {
    uint8_t* row = rows.mutable_row<uint8_t>(y) + 1;
    const uint8_t filter = row[-1];
    if (filter > 4) return false;
    for (int64_t i = 0; i < rows.width - 1; ++i) {
      const int left = i < pixel ? 0 : row[i - pixel], up = above[i], corner = i < pixel ? 0 : above[i - pixel];
      int predicted = 0;
      if (filter == 1) predicted = left;
      if (filter == 2) predicted = up;
      if (filter == 3) predicted = (left + up) / 2;
      if (filter == 4) {
        const int to_left = std::abs(up - corner), to_up = std::abs(left - corner);
        const int to_corner = std::abs(left + up - 2 * corner);
        predicted = to_left <= to_up && to_left <= to_corner ? left : to_up <= to_corner ? up : corner;
      }
      row[i] = static_cast<uint8_t>(row[i] + predicted);
    }
    above = row;
  }
  return true;
}

}  // namespace

void bind_vision(nb::module_& m) {
  nb::module_ v = m.def_submodule("vision",
                                  "Pictures: arrays [height, width] or [height, width, channels]. The results "
                                  "are written into arrays.");
  v.def("resize", &resize, nb::arg("src"), nb::arg("dst"), nb::arg("interpolation"), nb::arg("scale_x"),
        nb::arg("scale_y"), nb::arg("finish").none(), nb::arg("threads"));
  v.def("warp", &warp, nb::arg("src"), nb::arg("dst"), nb::arg("inverse"), nb::arg("interpolation"), nb::arg("border"),
        nb::arg("value"), nb::arg("finish").none(), nb::arg("threads"));
  v.def("remap", &remap, nb::arg("src"), nb::arg("dst"), nb::arg("map"), nb::arg("second").none(),
        nb::arg("interpolation"), nb::arg("border"), nb::arg("value"), nb::arg("threads"));
  v.def("rect_sub_pixel", &rect_sub_pixel, nb::arg("src"), nb::arg("dst"), nb::arg("x"), nb::arg("y"));
  v.def("color", &color, nb::arg("src"), nb::arg("dst"), nb::arg("space"), nb::arg("back"), nb::arg("swap"),
        nb::arg("full"), nb::arg("linear"), nb::arg("green"), nb::arg("threads"));
  v.def("from_yuv", &from_yuv, nb::arg("src"), nb::arg("second").none(), nb::arg("dst"), nb::arg("order"),
        nb::arg("red_first"), nb::arg("threads"));
  v.def("to_yuv", &to_yuv, nb::arg("src"), nb::arg("dst"), nb::arg("red_first"), nb::arg("v_first"));
  v.def("separable", &separable, nb::arg("src"), nb::arg("dst"), nb::arg("across"), nb::arg("down"),
        nb::arg("anchor_x"), nb::arg("anchor_y"), nb::arg("delta"), nb::arg("bits"), nb::arg("border"),
        nb::arg("threads"));
  v.def("windowed", &windowed, nb::arg("src"), nb::arg("dst"), nb::arg("weights"), nb::arg("window"), nb::arg("delta"),
        nb::arg("border"), nb::arg("threads"));
  v.def("box", &box, nb::arg("src"), nb::arg("dst"), nb::arg("window"), nb::arg("squares"), nb::arg("factor"),
        nb::arg("border"), nb::arg("threads"));
  v.def("morph", &morph, nb::arg("src"), nb::arg("dst"), nb::arg("shape"), nb::arg("window"), nb::arg("largest"),
        nb::arg("border"), nb::arg("outside"), nb::arg("threads"));
  v.def("pyramid", &pyramid, nb::arg("src"), nb::arg("dst"), nb::arg("up"), nb::arg("border"), nb::arg("threads"));
  v.def("process", &process, nb::arg("pixels"), nb::arg("width"), nb::arg("height"), nb::arg("stride"),
        nb::arg("tensor"), nb::arg("source"), nb::arg("target"), nb::arg("filter"), nb::arg("wrap"), nb::arg("mean"),
        nb::arg("factor"), nb::arg("matrix"), nb::arg("padding"), nb::arg("planes"), nb::arg("threads") = 1,
        "See minnow_convert_image; formats, filter and wrap are its numbers, which are MNN's.");
  v.def("unfilter", &unfilter, nb::arg("rows"), nb::arg("pixel"));
  v.def("bilateral", &bilateral, nb::arg("src"), nb::arg("dst"), nb::arg("radius"), nb::arg("sigma_color"),
        nb::arg("sigma_space"), nb::arg("border"), nb::arg("threads"));
  bind_pixels(v);
}

}  // namespace minnow
