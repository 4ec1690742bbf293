// Filters: each pixel from its neighbors, with OpenCV's results.
#pragma once

#include <vector>

#include "kernels/vision/picture.h"

namespace minnow::vision {

// The size of a window and the place of the pixel in it.
struct Window {
  int64_t width = 1, height = 1, x = 0, y = 0;
};

// A row of weights and a column of weights. With `bits` these are whole numbers, and sums are rounded and divided by a
// power of 2; else the arithmetic is of f32, or f64 where a picture is that.
Status filter_separable(const Picture& src, const Picture& dst, const std::vector<double>& across,
                        const std::vector<double>& down, int64_t anchor_x, int64_t anchor_y, double delta, int bits,
                        Border border, ThreadPool& pool);
// Any weights, row by row.
Status filter_window(const Picture& src, const Picture& dst, const std::vector<double>& weights, const Window& window,
                     double delta, Border border, ThreadPool& pool);
// Sums, or those of squares, times a factor.
Status filter_box(const Picture& src, const Picture& dst, const Window& window, bool squares, double factor,
                  Border border, ThreadPool& pool);
// The largest or the smallest of those where the shape is not 0. `outside`: the value of a constant border, for each of
// up to 4 channels; null: none, the border does not count.
Status morphology(const Picture& src, const Picture& dst, const std::vector<uint8_t>& shape, const Window& window,
                  bool largest, Border border, const double* outside, ThreadPool& pool);
// Pyramids of u8 and f32: a picture of half the size, 1 row or column more or less, and one of twice the size.
Status halve_picture(const Picture& src, const Picture& dst, Border border, ThreadPool& pool);
Status double_picture(const Picture& src, const Picture& dst, ThreadPool& pool);
// Bytes or floats of 1 or 3 channels.
Status filter_bilateral(const Picture& src, const Picture& dst, int64_t radius, double sigma_color, double sigma_space,
                        Border border, ThreadPool& pool);

}  // namespace minnow::vision
