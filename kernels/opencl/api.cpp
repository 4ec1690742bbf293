#include "kernels/opencl/api.h"

#include <dlfcn.h>

namespace minnow::opencl {
namespace {

const char* name_of(cl_int error) {
  switch (error) {
    case CL_DEVICE_NOT_AVAILABLE:
      return "the device is not available";
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
      return "no memory for a buffer";
    case CL_OUT_OF_RESOURCES:
      return "out of resources";
    case CL_OUT_OF_HOST_MEMORY:
      return "no memory on the host";
    case CL_BUILD_PROGRAM_FAILURE:
      return "the program does not compile";
    case CL_INVALID_BUFFER_SIZE:
      return "invalid buffer size";
    case CL_INVALID_WORK_GROUP_SIZE:
      return "invalid work-group size";
    default:
      return "error";
  }
}

}  // namespace

Status find_api(const Api** out) {
  static Api api;
  static const Status status = [] {
    void* library = nullptr;
    for (const char* name : {"libOpenCL.so.1", "libOpenCL.so"})
      if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      return Status(Code::kDevice, "the OpenCL loader cannot be opened (" + std::string(dlerror()) +
                                       "); it comes with the package ocl-icd-libopencl1, or with the driver");
#define MINNOW_FIND(name)                                                 \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, #name)); \
  if (api.name == nullptr) return fail(Code::kDevice, "the OpenCL loader has no %s", #name);
    MINNOW_OPENCL_FUNCTIONS(MINNOW_FIND)
#undef MINNOW_FIND
    return ok();
  }();
  *out = &api;
  return status;
}

Status failed(const char* what, cl_int error) {
  return fail(Code::kDevice, "OpenCL: %s: %s (%d)", what, name_of(error), error);
}

}  // namespace minnow::opencl
