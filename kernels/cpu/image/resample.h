// One axis of a tensor at another resolution.
#pragma once

#include "kernels/core/resize_axis.h"

namespace minnow {

// Applies a table along one axis of src[outer, in, inner], giving dst[outer, out, inner]. The work is split into
// resample_items(): items [begin, end) are done by one call.
inline int64_t resample_items(const ResizeTable& t, int64_t outer, int64_t inner) {
  return inner == 1 ? outer : outer * t.out;
}
void resample(const ResizeTable& t, const float* src, float* dst, int64_t inner, int64_t begin, int64_t end);

}  // namespace minnow
