#include "runtime/src/backend/devices.h"

#include <algorithm>
#include <cstdlib>

#include "runtime/src/backend/cpu.h"
#include "runtime/src/backend/plugin.h"
#include "runtime/src/model/graph.h"

namespace minnow {
namespace {

constexpr double kPreference = 10;
constexpr size_t kMostDevices = 32;  // bits of a set of them

}  // namespace

Status Devices::open(const std::string& name, const Model& model, const QueueOptions& options, Devices* out) {
  const char* placement = std::getenv("MINNOW_PLACEMENT");
  const std::string how = placement == nullptr ? "" : placement;
  if (!how.empty() && how != "greedy")
    return fail(Code::kUsage, "MINNOW_PLACEMENT is '%s'; it can be \"greedy\", or is not set", how.c_str());
  std::vector<Backend*> backends = {&Cpu::instance()};
  const bool several = name == "auto" || name.find(',') != std::string::npos;
  if (name == "auto") {
    for (Backend* backend : other_backends())
      if (backends.size() < kMostDevices) backends.push_back(backend);
  } else {
    for (size_t begin = 0; begin <= name.size();) {
      const size_t end = std::min(name.find(',', begin), name.size());
      Backend* backend = nullptr;
      MINNOW_RETURN_IF_ERROR(find_backend(name.substr(begin, end - begin), &backend));
      if (std::find(backends.begin(), backends.end(), backend) == backends.end()) backends.push_back(backend);
      if (backends.size() > kMostDevices) return fail(Code::kUsage, "more than %zu devices", kMostDevices);
      begin = end + 1;
    }
  }
  out->devices_.clear();
  out->greedy_ = how == "greedy";
  out->preference_ = several ? 1 : kPreference;
  for (Backend* backend : backends) {
    Device device;
    device.backend = backend;
    device.queue = backend->create_queue(options);
    device.store = backend == backends[0]
                       ? model.store.get()
                       : model.stores->find(backend->name(), [&] { return backend->create_store(model); });
    out->devices_.push_back(std::move(device));
  }
  return ok();
}

}  // namespace minnow
