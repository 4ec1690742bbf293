// How Resize maps the outputs of one axis to its inputs: sizes, coordinates, weights.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/core/attrs.h"
#include "kernels/core/status.h"
#include "kernels/core/tensor.h"

namespace minnow {

struct ResizeSettings {
  enum class Mode { kNearest, kLinear, kCubic };
  enum class Coordinate { kHalfPixel, kSymmetric, kPytorch, kAlignCorners, kAsymmetric, kTfHalfPixel, kCrop };
  enum class Nearest { kPreferFloor, kPreferCeil, kFloor, kCeil };
  enum class Aspect { kStretch, kNotLarger, kNotSmaller };

  Mode mode = Mode::kNearest;
  Coordinate coordinate = Coordinate::kHalfPixel;
  Nearest nearest = Nearest::kPreferFloor;
  Aspect aspect = Aspect::kStretch;
  float cubic_coeff = -0.75f;
  float extrapolation = 0;
  bool exclude_outside = false;
  bool antialias = false;
};
Status read_resize_settings(const Attrs& attrs, ResizeSettings* settings);

// One axis: its two sizes, the scale, and for kCrop the part of the input [start, end] in units of its length.
struct ResizeAxis {
  int64_t in = 1;
  int64_t out = 1;
  float scale = 1;
  float start = 0;
  float end = 1;

  bool identity() const { return in == out && scale == 1 && start == 0 && end == 1; }
};

// The operands of Resize as they are known: null where one is missing, or not known yet. `number` reads those that are
// floats.
struct ResizeOperands {
  float (*number)(const Tensor&, int64_t i) = nullptr;
  const Tensor* roi = nullptr;
  const Tensor* scales = nullptr;
  const Tensor* sizes = nullptr;
};

// Sizes and scales of all axes of an input of shape x.
Status resolve_resize(const Attrs& attrs, const ResizeSettings& settings, const Shape& x,
                      const ResizeOperands& operands, std::array<ResizeAxis, kMaxRank>* axes);

// Where output i of an axis lies on the input, in elements; 0 is the middle of the first one.
float resize_coordinate(const ResizeSettings& settings, const ResizeAxis& axis, int64_t i);
// Whether that is a place that kCrop gives the extrapolation value.
bool resize_outside(const ResizeSettings& settings, const ResizeAxis& axis, float at);
// The input that output i takes in mode kNearest.
int64_t resize_nearest(const ResizeSettings& settings, const ResizeAxis& axis, int64_t i);

// output[i] = sum over k of weight[k * out + i] * input[index[k * out + i]].
struct ResizeTable {
  int64_t in = 0;
  int64_t out = 0;
  int taps = 0;
  std::vector<int32_t> index;
  std::vector<float> weight;

  // Inputs per output that may be needed, known from the sizes alone.
  static int64_t most_taps(const ResizeSettings& settings, const ResizeAxis& axis);
  // Allocates nothing when there is room for most_taps().
  void build(const ResizeSettings& settings, const ResizeAxis& axis);
};

}  // namespace minnow
