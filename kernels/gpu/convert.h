// Conversion of elements, as copies from and to the host need it.
#pragma once

#include "kernels/gpu/device.h"

namespace minnow::gpu {

// to[i] = from[i] for n elements. Programs are compiled at the first use of two types: not while a stream records.
Status enqueue_convert(Device& device, Stream& stream, const void* from, DType from_type, void* to, DType to_type,
                       int64_t n);

}  // namespace minnow::gpu
