// What libminnow_vulkan.so exports.
#include "kernels/vulkan/device.h"
#include "runtime/src/gpu/backend.h"

namespace minnow {
namespace {

Status open_vulkan(int index, Backend&, std::unique_ptr<Backend>* out) {
  std::unique_ptr<gpu::Device> device;
  MINNOW_RETURN_IF_ERROR(vulkan::open_device(index, &device));
  *out = std::make_unique<GpuBackend>("vulkan:" + std::to_string(index), std::move(device));
  return ok();
}

const BackendPlugin kPlugin = {BackendPlugin::kVersion, MINNOW_VERSION, vulkan::count_devices, open_vulkan};

}  // namespace
}  // namespace minnow

extern "C" __attribute__((visibility("default"))) const minnow::BackendPlugin* minnow_backend_plugin() {
  return &minnow::kPlugin;
}
