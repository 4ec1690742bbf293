#include "runtime/src/backend/devices.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "runtime/src/backend/cpu.h"
#include "runtime/src/backend/user_plugins.h"
#include "runtime/src/model/graph.h"

namespace minnow {
namespace {

constexpr double kPreference = 10;
constexpr size_t kMostDevices = 32;  // bits of a set of them

bool are_several(const std::string& name) { return name == "auto" || name.find(',') != std::string::npos; }

// The devices of these names, the CPU first.
Status find_all(const std::string& name, std::vector<Backend*>* out) {
  std::vector<Backend*>& backends = *out;
  backends = {&Cpu::instance()};
  if constexpr (!kHasOtherDevices) return find_backend(name, &backends[0]);
  MINNOW_RETURN_IF_ERROR(open_user_plugins());
  if (name == "auto") {
    // Each piece of hardware once, whatever number of ways there are to it.
    std::map<std::string, std::string> kinds;
    for (Backend* backend : other_backends()) {
      const std::string kind = backend->name().substr(0, backend->name().find(':'));
      if (backend->is_software() || backends.size() == kMostDevices) continue;
      if (kinds.emplace(backend->hardware(), kind).first->second == kind) backends.push_back(backend);
    }
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
  return ok();
}

}  // namespace

Status measure_devices(const std::string& names, ThreadPool& pool,
                       std::vector<std::pair<std::string, DeviceSpeed>>* out) {
  constexpr double kSeconds = 1;
  std::vector<Backend*> backends;
  MINNOW_RETURN_IF_ERROR(find_all(names, &backends));
  for (Backend* backend : backends) {
    DeviceSpeed speed;
    if (backend == &Cpu::instance()) continue;
    MINNOW_RETURN_IF_ERROR(measure_device(*backend, pool, kSeconds, &speed).at(backend->name()));
    out->emplace_back(backend->kind(), speed);
  }
  return ok();
}

Status Devices::open(const std::string& name, const Model& model, const QueueOptions& options, Devices* out) {
  const char* placement = std::getenv("MINNOW_PLACEMENT");
  const std::string how = placement == nullptr ? "" : placement;
  if (!how.empty() && how != "greedy")
    return fail(Code::kUsage, "MINNOW_PLACEMENT is '%s'; it can be \"greedy\", or is not set", how.c_str());
  std::vector<Backend*> backends;
  MINNOW_RETURN_IF_ERROR(find_all(name, &backends));
  const bool several = are_several(name);
  out->devices_.clear();
  out->choice_ = several && backends.size() > 1 && how.empty();
  out->greedy_ = how == "greedy";
  out->preference_ = several ? 1 : kPreference;
  for (Backend* backend : backends) {
    Device device;
    device.backend = backend;
    device.queue = backend->create_queue(options);
    device.store = model.store.get();
    if (backend != backends[0])
      device.store = model.stores->find(backend->name(), [&] { return backend->create_store(model); });
    if (kHasOtherDevices && backend != backends[0])
      device.speed = several ? speed_of(*backend, *options.pool) : kept_speed(*backend);
    out->devices_.push_back(std::move(device));
  }
  return ok();
}

}  // namespace minnow
