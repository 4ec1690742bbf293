// GPUs by CUDA, and what its own kernels know of them. The runtime API is linked in; the driver is looked for when the
// first device is.
//
// A row of this folder serves the nodes that its `supports` admits, and the portable row (kernels/gpu) all others:
//
//   MINNOW_CUDA_KERNEL("Conv", create_conv, supports_conv, LayoutRule::kPacked);
//
// Its kernel is a gpu::GpuKernel that launches on target_of(stream).
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "kernels/cuda/launch.h"
#include "kernels/gpu/channels_last.h"
#include "kernels/gpu/device.h"

namespace minnow::cuda {

// 0 where there is no driver.
int count_devices();
Status open_device(int index, std::unique_ptr<gpu::Device>* out);

// What kernels choose by.
struct Machine {
  int capability = 0;  // 90: compute capability 9.0
  int multiprocessors = 1;
  int shared_bytes =
      49152;  // of a block at the most, when it is asked for (cudaFuncAttributeMaxDynamicSharedMemorySize)
  int l2_bytes = 0;
  // The code that was loaded was compiled for this capability: below that of the device where it was made from PTX.
  int compiled = 0;
};
const Machine& machine_of(const NodeContext& node);

Target target_of(gpu::Stream& stream);

// ok, or what failed: out of memory, an error that leaves the device usable, or one that does not.
Status check(cudaError_t error, const char* what);

using gpu::kChannelRound;
using gpu::round_channels;

using CudaKernels = gpu::KernelsOf<struct Cuda>;

#define MINNOW_CUDA_KERNEL(...) \
  MINNOW_REGISTER(::minnow::cuda::CudaKernels, MINNOW_UNIQUE(cuda_registrar_), __VA_ARGS__)

}  // namespace minnow::cuda
