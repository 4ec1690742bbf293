// Pictures of another size, with OpenCV's results.
#pragma once

#include "kernels/vision/finish.h"
#include "kernels/vision/picture.h"

namespace minnow::vision {

// As OpenCV numbers them.
enum class Interpolation { kNearest, kLinear, kCubic, kArea, kLanczos, kLinearExact, kNearestExact };

// `scale_x` and `scale_y`: sizes of the source per size of the result. With a finish (it may be null) the result has
// the type and the channels of that.
Status resize_picture(const Picture& src, const Picture& dst, Interpolation interpolation, double scale_x,
                      double scale_y, const Finish* finish, ThreadPool& pool);

}  // namespace minnow::vision
