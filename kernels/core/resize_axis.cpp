#include "kernels/core/resize_axis.h"

#include <algorithm>
#include <cmath>

#include "kernels/core/infer.h"
#include "kernels/core/int_view.h"

namespace minnow {
namespace {

using Mode = ResizeSettings::Mode;
using Coordinate = ResizeSettings::Coordinate;
using Nearest = ResizeSettings::Nearest;
using Aspect = ResizeSettings::Aspect;

template <typename E>
Status find_name(const Attrs& attrs, const char* attr, std::initializer_list<const char*> names, E* value) {
  const std::string name = attrs.s(attr, *names.begin());
  int i = 0;
  for (const char* known : names) {
    if (name == known) {
      *value = static_cast<E>(i);
      return ok();
    }
    ++i;
  }
  return fail(Code::kUnsupported, "%s '%s'", attr, name.c_str());
}

// The interpolation kernel at distance d.
float filter(const ResizeSettings& s, float d) {
  d = std::fabs(d);
  if (s.mode == Mode::kLinear) return std::max(0.0f, 1 - d);
  const float a = s.cubic_coeff;
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

// Half the width of the kernel in inputs. Antialiasing widens it when the axis shrinks.
float support(const ResizeSettings& s) { return s.mode == Mode::kLinear ? 1.0f : 2.0f; }

}  // namespace

Status read_resize_settings(const Attrs& attrs, ResizeSettings* s) {
  MINNOW_RETURN_IF_ERROR(find_name(attrs, "mode", {"nearest", "linear", "cubic"}, &s->mode));
  MINNOW_RETURN_IF_ERROR(find_name(attrs, "coordinate_mode",
                                   {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                                    "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"},
                                   &s->coordinate));
  MINNOW_RETURN_IF_ERROR(
      find_name(attrs, "nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}, &s->nearest));
  MINNOW_RETURN_IF_ERROR(find_name(attrs, "keep_aspect", {"stretch", "not_larger", "not_smaller"}, &s->aspect));
  s->cubic_coeff = static_cast<float>(attrs.f("cubic_coeff", -0.75));
  s->extrapolation = static_cast<float>(attrs.f("extrapolation_value", 0));
  s->exclude_outside = attrs.b("exclude_outside", false);
  s->antialias = attrs.b("antialias", false) && s->mode != Mode::kNearest;
  return ok();
}

Status resolve_resize(const Attrs& attrs, const ResizeSettings& s, const Shape& x, const ResizeOperands& operands,
                      std::array<ResizeAxis, kMaxRank>* axes) {
  for (int64_t size : x)
    if (size > INT32_MAX) return fail(Code::kUnsupported, "an image of shape %s", x.str().c_str());
  // `axes` of the op: the ones the operands speak of, in their order.
  std::array<int, kMaxRank> listed{};
  int n = x.rank();
  for (int k = 0; k < n; ++k) {
    listed[static_cast<size_t>(k)] = k;
    (*axes)[static_cast<size_t>(k)] = ResizeAxis{x[k], x[k], 1, 0, 1};
  }
  if (attrs.has("axes")) {
    const std::vector<int64_t> wanted = attrs.ints("axes");
    std::vector<int> sorted;
    MINNOW_RETURN_IF_ERROR(normalize_axes(wanted, x.rank(), false, &sorted));
    n = static_cast<int>(wanted.size());
    for (int k = 0; k < n; ++k) {
      const int64_t axis = wanted[static_cast<size_t>(k)];
      listed[static_cast<size_t>(k)] = static_cast<int>(axis < 0 ? axis + x.rank() : axis);
    }
  }
  const auto at = [&](int k) -> ResizeAxis& { return (*axes)[static_cast<size_t>(listed[static_cast<size_t>(k)])]; };
  const auto check_count = [&](const Tensor& t, const char* what, int count) {
    if (t.count() == count) return ok();
    return fail(Code::kFormat, "%s has %lld numbers, %d are needed", what, static_cast<long long>(t.count()), count);
  };

  if (operands.sizes != nullptr) {
    MINNOW_RETURN_IF_ERROR(check_count(*operands.sizes, "sizes", n));
    const IntView sizes(*operands.sizes);
    float common = 0;
    for (int k = 0; k < n; ++k) {
      ResizeAxis& axis = at(k);
      axis.out = sizes[k];
      if (axis.out < 0 || axis.out > INT32_MAX || (axis.in == 0 && axis.out != 0))
        return fail(Code::kFormat, "cannot resize axis %d from %lld to %lld", listed[static_cast<size_t>(k)],
                    static_cast<long long>(axis.in), static_cast<long long>(axis.out));
      axis.scale = axis.in == 0 ? 1.0f : static_cast<float>(axis.out) / static_cast<float>(axis.in);
      const bool first = k == 0;
      if (s.aspect == Aspect::kNotLarger) common = first ? axis.scale : std::min(common, axis.scale);
      if (s.aspect == Aspect::kNotSmaller) common = first ? axis.scale : std::max(common, axis.scale);
    }
    for (int k = 0; k < n && s.aspect != Aspect::kStretch; ++k) {
      at(k).scale = common;
      at(k).out = static_cast<int64_t>(std::round(common * static_cast<float>(at(k).in)));
    }
  } else if (operands.scales != nullptr) {
    MINNOW_RETURN_IF_ERROR(check_count(*operands.scales, "scales", n));
    for (int k = 0; k < n; ++k) {
      ResizeAxis& axis = at(k);
      axis.scale = operands.number(*operands.scales, k);
      const float out = std::floor(axis.scale * static_cast<float>(axis.in));
      if (!(axis.scale > 0) || !(out < 2147483648.0f))
        return fail(Code::kFormat, "cannot resize axis %d of %s by the scale %g", listed[static_cast<size_t>(k)],
                    x.str().c_str(), static_cast<double>(axis.scale));
      axis.out = static_cast<int64_t>(out);
    }
  } else {
    return fail(Code::kFormat, "one of scales and sizes must be given");
  }

  if (s.coordinate == Coordinate::kCrop && operands.roi != nullptr) {
    MINNOW_RETURN_IF_ERROR(check_count(*operands.roi, "roi", 2 * n));
    for (int k = 0; k < n; ++k) {
      at(k).start = operands.number(*operands.roi, k);
      at(k).end = operands.number(*operands.roi, n + k);
    }
  }
  return ok();
}

float resize_coordinate(const ResizeSettings& s, const ResizeAxis& axis, int64_t i) {
  // Single precision throughout, as the other runtimes compute it: nearest neighbors then agree on ties.
  const float x = static_cast<float>(i), in = static_cast<float>(axis.in), out = static_cast<float>(axis.out);
  if (axis.identity()) return x;
  switch (s.coordinate) {
    case Coordinate::kSymmetric: {
      const float adjustment = out / (axis.scale * in);
      return in / 2 * (1 - adjustment) + (x + 0.5f) / axis.scale - 0.5f;
    }
    case Coordinate::kPytorch:
      return axis.out > 1 ? (x + 0.5f) / axis.scale - 0.5f : 0.0f;
    case Coordinate::kAlignCorners:
      return axis.out > 1 ? x * (in - 1) / (out - 1) : 0.0f;
    case Coordinate::kAsymmetric:
      return x / axis.scale;
    case Coordinate::kTfHalfPixel:
      return (x + 0.5f) / axis.scale;
    case Coordinate::kCrop:
      if (axis.out <= 1) return 0.5f * (axis.start + axis.end) * (in - 1);
      return axis.start * (in - 1) + x * (axis.end - axis.start) * (in - 1) / (out - 1);
    default:
      return (x + 0.5f) / axis.scale - 0.5f;
  }
}

bool resize_outside(const ResizeSettings& s, const ResizeAxis& axis, float at) {
  return s.coordinate == Coordinate::kCrop && !(at >= 0 && at <= static_cast<float>(axis.in - 1));
}

int64_t resize_nearest(const ResizeSettings& s, const ResizeAxis& axis, int64_t i) {
  if (axis.identity()) return i;
  float at = resize_coordinate(s, axis, i);
  switch (s.nearest) {
    case Nearest::kPreferFloor:
      at = at == std::floor(at) + 0.5f ? std::floor(at) : std::round(at);
      break;
    case Nearest::kPreferCeil:
      // A little less than a half counts as one, as other runtimes have it: coordinates carry rounding errors.
      at = static_cast<float>(std::floor(static_cast<double>(at) + 0.500001));
      break;
    case Nearest::kFloor:
      at = std::floor(at);
      break;
    default:
      at = std::ceil(at);
  }
  const float last = static_cast<float>(axis.in - 1);
  return static_cast<int64_t>(at > 0 ? std::min(at, last) : 0.0f);  // NaN, from a wrong roi, gives 0
}

int64_t ResizeTable::most_taps(const ResizeSettings& s, const ResizeAxis& axis) {
  const int64_t narrow = 2 * static_cast<int64_t>(support(s));
  if (!s.antialias || axis.out > axis.in || axis.out == 0) return narrow;
  // in * scale is rounded to out.
  const double wide = support(s) * static_cast<double>(axis.in) / (static_cast<double>(axis.out) - 0.5);
  return 2 * static_cast<int64_t>(std::ceil(wide)) + 2;
}

void ResizeTable::build(const ResizeSettings& s, const ResizeAxis& axis) {
  in = axis.in;
  out = axis.out;
  const float shrink = s.antialias ? std::min(axis.scale, 1.0f) : 1.0f;
  const int64_t reach = static_cast<int64_t>(std::ceil(support(s) / shrink));
  taps = static_cast<int>(2 * reach);
  index.resize(static_cast<size_t>(taps * out));
  weight.resize(static_cast<size_t>(taps * out));
  for (int64_t i = 0; i < out; ++i) {
    float at = resize_coordinate(s, axis, i);
    // Far outside every input is the border's; the bounds keep the conversion to integers defined.
    at = at > -1e9f ? std::min(at, 1e9f) : -1e9f;
    const int64_t first = static_cast<int64_t>(std::floor(at)) - reach + 1;
    float total = 0;
    for (int k = 0; k < taps; ++k) {
      const int64_t from = first + k;
      const bool outside = from < 0 || from >= in;
      const float w = s.exclude_outside && outside ? 0.0f : filter(s, (static_cast<float>(from) - at) * shrink);
      index[static_cast<size_t>(k * out + i)] = static_cast<int32_t>(std::clamp<int64_t>(from, 0, in - 1));
      weight[static_cast<size_t>(k * out + i)] = w;
      total += w;
    }
    if ((s.exclude_outside || s.antialias) && total != 0)
      for (int k = 0; k < taps; ++k) weight[static_cast<size_t>(k * out + i)] /= total;
  }
}

}  // namespace minnow
