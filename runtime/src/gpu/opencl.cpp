// What libminnow_opencl.so exports.
#include "kernels/opencl/device.h"
#include "runtime/src/gpu/backend.h"

namespace minnow {
namespace {

Status open_opencl(int index, Backend&, std::unique_ptr<Backend>* out) {
  std::unique_ptr<gpu::Device> device;
  MINNOW_RETURN_IF_ERROR(opencl::open_device(index, &device));
  *out = std::make_unique<GpuBackend>("opencl:" + std::to_string(index), std::move(device));
  return ok();
}

const BackendPlugin kPlugin = {BackendPlugin::kVersion, MINNOW_VERSION, opencl::count_devices, open_opencl};

}  // namespace
}  // namespace minnow

extern "C" __attribute__((visibility("default"))) const minnow::BackendPlugin* minnow_backend_plugin() {
  return &minnow::kPlugin;
}
