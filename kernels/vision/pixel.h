// Functions of single pixels, of pairs of them, and of all together.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "kernels/vision/picture.h"

namespace minnow::vision {

// dst = a * alpha + b * beta + gamma, in f32, rounded and limited to the type. Without b: a * alpha + gamma.
// u8 and f32.
Status weigh(const Picture& a, const Picture* b, float alpha, float beta, float gamma, const Picture& dst,
             ThreadPool& pool);

// dst = above where src > bound, else below. A value that is not given is that of src.
struct Step {
  double bound = 0, above = 0, below = 0;
  bool has_above = true, has_below = true;
};
// Any type of pictures, of which the numbers are values.
Status compare_pixels(const Picture& src, const Step& step, const Picture& dst, ThreadPool& pool);

// dst = src where the mask (u8) is not 0.
Status copy_where(const Picture& src, const Picture& mask, const Picture& dst, ThreadPool& pool);

// (a * u + b * v) / (u + v + 1e-5): u8 or f32; u and v are f32, one number for each pixel.
Status blend(const Picture& a, const Picture& b, const Picture& u, const Picture& v, const Picture& dst,
             ThreadPool& pool);

// How often each byte occurs where the mask, if there is one, is not 0.
std::array<int64_t, 256> count_bytes(const Picture& src, const Picture* mask);

// The least and the largest byte.
std::pair<int, int> range_of_bytes(const Picture& src);

double square_sum_of_bytes(const Picture& src);

// The value up to which counts belong to the lower of two classes whose means differ most: N. Otsu (1979).
int64_t otsu(const std::vector<int64_t>& counts);

// Sums of the channels of bytes, up to 4, where the mask is not 0.
std::vector<double> channel_sums(const Picture& src, const Picture* mask);

// Mirrors rows, columns, or both; any type.
Status mirror(const Picture& src, const Picture& dst, bool rows, bool columns, ThreadPool& pool);
// By 90 degrees, clockwise or not.
Status turn(const Picture& src, const Picture& dst, bool clockwise, ThreadPool& pool);
// Pictures of one channel to one of several, and back.
Status merge_channels(const std::vector<Picture>& planes, const Picture& dst, ThreadPool& pool);
Status split_channels(const Picture& src, const std::vector<Picture>& planes, ThreadPool& pool);

}  // namespace minnow::vision
