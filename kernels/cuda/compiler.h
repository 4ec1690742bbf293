// Kernels that are compiled when they are needed, by NVRTC, which is looked for then and never linked: without it there
// are none. Their machine code is kept in files, so that another process need not compile them again.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace minnow::cuda {

// The function `name` (extern "C") of a CUDA C source without includes, for devices of this compute capability. Null:
// it cannot be compiled here. Any thread may call it; what it gives stays as long as the process.
cudaKernel_t compile_kernel(const std::string& source, const char* name, int capability);

}  // namespace minnow::cuda
