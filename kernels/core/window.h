// The sliding window that convolution and pooling share: its attributes, its checks, and the sizes that follow.
#pragma once

#include <array>

#include "kernels/core/op_spec.h"

namespace minnow {

struct Window {
  int rank = 0;  // of the spatial part, 1 to 3
  std::array<int64_t, 3> kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, begin{0, 0, 0}, end{0, 0, 0};

  // Input elements from the first to the last one under the window.
  int64_t dilated_kernel(int i) const { return (kernel[at(i)] - 1) * dilation[at(i)] + 1; }
  static size_t at(int i) { return static_cast<size_t>(i); }
};

// From the attributes strides, dilations, pads (ONNX order: begins, then ends) and auto_pad, for inputs of `shape`
// [N, C, spatial...]; `kernel` is the window's size. kFormat for wrong lengths and values.
Status read_window(const Attrs& attrs, const Shape& shape, const std::vector<int64_t>& kernel, Window* window);

// Spatial sizes that sliding the window over `shape` gives. With `ceil`, a last window that starts inside the input or
// the padding before it, but reaches over the end, counts too, also where it is the only one.
Status slide_window(const Window& window, const Shape& shape, bool ceil, std::array<int64_t, 3>* out);

// Windows and sizes of rank 1 and 2 seen as 3-D ones: the missing dims come first and have size 1.
Window as_3d(const Window& window);
std::array<int64_t, 3> spatial_3d(const Shape& shape);

// Takes away what lies beyond the padded input in every window of a pooling: a kernel that is larger has one only.
void cut_kernel(Window* window, const std::array<int64_t, 3>& in);

// An image one pixel wide under a kernel of that width (as files write 1-D signals), seen as one of one row: the same
// memory, and rows are what kernels walk along. Nothing happens to others.
void lay_down(Window* window, std::array<int64_t, 3>* in, std::array<int64_t, 3>* out);

// Positions of a window's taps along one axis that lie inside [0, size), when its first tap is at `start`.
struct Taps {
  int64_t begin, end;
};
inline Taps taps_inside(int64_t start, int64_t size, int64_t kernel, int64_t dilation) {
  int64_t begin = start >= 0 ? 0 : (dilation - 1 - start) / dilation;
  if (begin > kernel) begin = kernel;
  int64_t end = start >= size ? 0 : (size - start + dilation - 1) / dilation;
  if (end > kernel) end = kernel;
  return {begin, end < begin ? begin : end};
}

}  // namespace minnow
