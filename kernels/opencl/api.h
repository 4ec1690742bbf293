// The functions of OpenCL, from the system's loader at run time: nothing is linked.
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <string>

#include "kernels/core/status.h"

namespace minnow::opencl {

// The formatter never agrees with itself on this list.
// clang-format off
#define MINNOW_OPENCL_FUNCTIONS(X)                                                                              \
  X(clGetPlatformIDs)                                                                                           \
  X(clGetPlatformInfo)                                                                                          \
  X(clGetDeviceIDs)                                                                                             \
  X(clGetDeviceInfo) X(clCreateContext) X(clCreateCommandQueue) X(clReleaseCommandQueue) X(clCreateBuffer)      \
      X(clReleaseMemObject) X(clCreateProgramWithSource) X(clCreateProgramWithBinary) X(clBuildProgram)         \
          X(clGetProgramInfo) X(clGetProgramBuildInfo) X(clReleaseProgram) X(clCreateKernel) X(clReleaseKernel) \
              X(clSetKernelArg) X(clEnqueueNDRangeKernel) X(clEnqueueReadBuffer) X(clEnqueueWriteBuffer)        \
                  X(clEnqueueCopyBuffer) X(clFinish)
// clang-format on

struct Api {
#define MINNOW_DECLARE(name) decltype(&::name) name = nullptr;
  MINNOW_OPENCL_FUNCTIONS(MINNOW_DECLARE)
#undef MINNOW_DECLARE
};

// An error where there is no loader.
Status find_api(const Api** out);

// An error of OpenCL: what was tried, and its number by name.
Status failed(const char* what, cl_int error);

}  // namespace minnow::opencl
