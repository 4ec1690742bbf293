// GPUs by OpenCL 1.2.
#pragma once

#include <memory>

#include "kernels/gpu/device.h"

namespace minnow::opencl {

// Devices of all platforms; 0 where there is no OpenCL.
int count_devices();
Status open_device(int index, std::unique_ptr<gpu::Device>* out);

}  // namespace minnow::opencl
