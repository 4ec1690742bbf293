// Pictures whose pixels come from other places, with OpenCV's results.
#pragma once

#include "kernels/vision/finish.h"
#include "kernels/vision/picture.h"
#include "kernels/vision/resize_picture.h"

namespace minnow::vision {

struct WarpSettings {
  Interpolation interpolation = Interpolation::kLinear;  // kNearest, kLinear, kCubic or kLanczos
  Border border = Border::kConstant;
  double value[4] = {0, 0, 0, 0};  // of a constant border; further channels repeat it
};

// `inverse` maps a pixel of the result to one of the source: 2 rows of 3, or 3 rows of 3.
Status warp_affine(const Picture& src, const Picture& dst, const double* inverse, const WarpSettings& settings,
                   const Finish* finish, ThreadPool& pool);
Status warp_perspective(const Picture& src, const Picture& dst, const double* inverse, const WarpSettings& settings,
                        ThreadPool& pool);
// Maps of the result's size: x and y as floats, in one picture of 2 channels or in two; or places in whole pixels (i16,
// 2 channels) and, if there is one, in a second map (u16) the fractions, as convertMaps gives them.
Status remap(const Picture& src, const Picture& dst, const Picture& map, const Picture* second,
             const WarpSettings& settings, ThreadPool& pool);

// Floats [height, width, channels] around a point between pixels, of which those outside are those at the edge.
Status rect_sub_pixel(const Picture& src, const Picture& dst, float x, float y);

}  // namespace minnow::vision
