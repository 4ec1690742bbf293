#include "kernels/core/window.h"

#include <algorithm>
#include <utility>

namespace minnow {
namespace {

using LongLong = long long;

// Elements of an image with its padding, or under a window with its gaps: as many as a tensor may have. Kernels compute
// with such sizes, and may take memory of them.
constexpr int64_t kMostElements = int64_t{1} << 46;

Status read_list(const Attrs& attrs, const char* name, size_t length, int64_t fallback, int64_t least,
                 std::vector<int64_t>* out) {
  *out = attrs.ints(name);
  if (out->empty()) out->assign(length, fallback);
  if (out->size() != length)
    return fail(Code::kFormat, "%s has %zu numbers, but the input's shape asks for %zu", name, out->size(), length);
  for (int64_t v : *out)
    if (v < least || v > INT32_MAX)
      return fail(Code::kFormat, "%s must be at least %lld, but has %lld", name, static_cast<LongLong>(least),
                  static_cast<LongLong>(v));
  return ok();
}

}  // namespace

Status read_window(const Attrs& attrs, const Shape& shape, const std::vector<int64_t>& kernel, Window* window) {
  const int rank = shape.rank() - 2;
  if (rank < 1)
    return fail(Code::kFormat, "the input needs a rank of 3 or more, not the shape %s", shape.str().c_str());
  if (rank > 3) return fail(Code::kUnsupported, "4 and more spatial dims, as in the shape %s", shape.str().c_str());
  const size_t n = static_cast<size_t>(rank);
  if (kernel.size() != n) return fail(Code::kFormat, "the kernel has %zu dims, the input %d", kernel.size(), rank);
  for (int64_t k : kernel)
    if (k < 1 || k > INT32_MAX) return fail(Code::kFormat, "a kernel of size %lld", static_cast<LongLong>(k));
  std::vector<int64_t> strides, dilations, pads;
  MINNOW_RETURN_IF_ERROR(read_list(attrs, "strides", n, 1, 1, &strides));
  MINNOW_RETURN_IF_ERROR(read_list(attrs, "dilations", n, 1, 1, &dilations));
  MINNOW_RETURN_IF_ERROR(read_list(attrs, "pads", 2 * n, 0, 0, &pads));
  const std::string auto_pad = attrs.s("auto_pad");
  const bool same_upper = auto_pad == "SAME_UPPER", same_lower = auto_pad == "SAME_LOWER";
  const bool valid = auto_pad == "VALID";
  if (!auto_pad.empty() && auto_pad != "NOTSET" && !valid && !same_upper && !same_lower)
    return fail(Code::kFormat, "auto_pad is %s; it may be SAME_UPPER, SAME_LOWER, VALID or NOTSET", auto_pad.c_str());
  window->rank = rank;
  for (size_t i = 0; i < n; ++i) {
    window->kernel[i] = kernel[i];
    window->stride[i] = strides[i];
    window->dilation[i] = dilations[i];
    window->begin[i] = valid ? 0 : pads[i];
    window->end[i] = valid ? 0 : pads[n + i];
    if (same_upper || same_lower) {
      const int64_t size = shape[static_cast<int>(i) + 2];
      const int64_t out = (size + strides[i] - 1) / strides[i];
      const int64_t total =
          std::max<int64_t>(0, (out - 1) * strides[i] + window->dilated_kernel(static_cast<int>(i)) - size);
      window->begin[i] = same_upper ? total / 2 : total - total / 2;
      window->end[i] = total - window->begin[i];
    }
  }
  int64_t elements = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    int64_t size = shape[i];
    if (i >= 2) {
      const size_t k = Window::at(i - 2);
      size = std::max(size + window->begin[k] + window->end[k], window->dilated_kernel(i - 2));
    }
    size = std::max<int64_t>(size, 1);
    if (size > kMostElements / elements)
      return fail(Code::kUnsupported, "padding, kernel and dilations make too large an image of the shape %s",
                  shape.str().c_str());
    elements *= size;
  }
  return ok();
}

Status slide_window(const Window& window, const Shape& shape, bool ceil, std::array<int64_t, 3>* out) {
  *out = {1, 1, 1};
  for (int i = 0; i < window.rank; ++i) {
    const size_t k = Window::at(i);
    const int64_t size = shape[i + 2], stride = window.stride[k];
    const int64_t room = size + window.begin[k] + window.end[k] - window.dilated_kernel(i);
    int64_t n = room >= 0 ? room / stride + 1 : 0;
    // ONNX: a window that would start in the padding after the input is left out.
    if (ceil && room > -stride && room % stride != 0 && n * stride < size + window.begin[k]) ++n;
    if (n == 0) {
      if (size != 0)
        return fail(Code::kFormat,
                    "a kernel that spans %lld does not fit into axis %d of %s with padding %lld and %lld",
                    static_cast<LongLong>(window.dilated_kernel(i)), i + 2, shape.str().c_str(),
                    static_cast<LongLong>(window.begin[k]), static_cast<LongLong>(window.end[k]));
      (*out)[k] = 0;
      continue;
    }
    (*out)[k] = n;
  }
  return ok();
}

Window as_3d(const Window& window) {
  Window w;
  w.rank = 3;
  for (size_t i = 0, k = Window::at(3 - window.rank); k < 3; ++i, ++k) {
    w.kernel[k] = window.kernel[i];
    w.stride[k] = window.stride[i];
    w.dilation[k] = window.dilation[i];
    w.begin[k] = window.begin[i];
    w.end[k] = window.end[i];
  }
  return w;
}

std::array<int64_t, 3> spatial_3d(const Shape& shape) {
  std::array<int64_t, 3> size{1, 1, 1};
  for (int i = 2; i < shape.rank(); ++i) size[Window::at(5 - shape.rank() + i - 2)] = shape[i];
  return size;
}

void cut_kernel(Window* w, const std::array<int64_t, 3>& in) {
  for (size_t i = 0; i < 3; ++i) {
    const int64_t padded = std::max<int64_t>(1, in[i] + w->begin[i] + w->end[i]);
    w->kernel[i] = std::min(w->kernel[i], (padded - 1) / w->dilation[i] + 1);
  }
}

void lay_down(Window* w, std::array<int64_t, 3>* in, std::array<int64_t, 3>* out) {
  if ((*in)[2] != 1 || (*out)[2] != 1 || w->kernel[2] != 1 || w->begin[2] != 0) return;
  for (std::array<int64_t, 3>* sizes : {in, out, &w->kernel, &w->stride, &w->dilation, &w->begin, &w->end})
    std::swap((*sizes)[1], (*sizes)[2]);
}

}  // namespace minnow
