// What libminnow_cuda.so exports.
#include "kernels/cuda/device.h"
#include "runtime/src/gpu/backend.h"

namespace minnow {
namespace {

Status open_cuda(int index, Backend&, std::unique_ptr<Backend>* out) {
  std::unique_ptr<gpu::Device> device;
  MINNOW_RETURN_IF_ERROR(cuda::open_device(index, &device));
  *out = std::make_unique<GpuBackend>("cuda:" + std::to_string(index), std::move(device));
  return ok();
}

const BackendPlugin kPlugin = {BackendPlugin::kVersion, MINNOW_VERSION, cuda::count_devices, open_cuda};

}  // namespace
}  // namespace minnow

extern "C" __attribute__((visibility("default"))) const minnow::BackendPlugin* minnow_backend_plugin() {
  return &minnow::kPlugin;
}
