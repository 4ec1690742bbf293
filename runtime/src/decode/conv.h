// What layers with a window share.
#pragma once

#include "runtime/src/decode/decode.h"

namespace minnow {

// The attributes that say how the window moves: strides, dilations, pads and auto_pad; and `activation`.
Status window_attrs(Decoder& d, const wire::Convolution2DCommon& common, bool transposed, Attrs* attrs);

}  // namespace minnow
