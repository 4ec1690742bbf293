#include "runtime/src/backend/user_plugins.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "runtime/src/backend/cpu.h"
#include "runtime/src/backend/custom_ops.h"

namespace minnow {
namespace {

struct UserPlugins {
  std::mutex mutex;
  std::map<std::string, const Plugin*> plugins;  // by path; they stay open
};

UserPlugins& user_plugins() {
  static UserPlugins* all = new UserPlugins;  // never destroyed: a session may outlive the statics
  return *all;
}

Status check_plugin(const Plugin& plugin, const std::string& path) {
  if (plugin.version != Plugin::kVersion || std::string(plugin.engine) != MINNOW_VERSION)
    return fail(
        Code::kDevice, "the plugin %s belongs to Minnow %s, and this is %s: build it from the sources of this one",
        path.c_str(), plugin.version != Plugin::kVersion ? "of another version" : plugin.engine, MINNOW_VERSION);
  for (int i = 0; i < plugin.num_kernels; ++i)
    if (find_op(plugin.kernels[i].op) == nullptr)
      return fail(Code::kDevice, "the plugin %s has a kernel for %s, which is no op", path.c_str(),
                  plugin.kernels[i].op);
  if ((plugin.kind == nullptr) != (plugin.backend == nullptr))
    return fail(Code::kDevice, "the plugin %s has a backend without a kind, or a kind without a backend", path.c_str());
  if (plugin.backend != nullptr && plugin.backend->version != BackendPlugin::kVersion)
    return fail(Code::kDevice, "the backend of the plugin %s is of another version", path.c_str());
  return ok();
}

Status open_user_plugin(const std::string& path, const Plugin** out) {
  if (path.empty() || path[0] != '/')
    return fail(Code::kUsage, "MINNOW_PLUGINS names '%s'; it takes absolute paths, separated by colons", path.c_str());
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return fail(Code::kUsage, "MINNOW_PLUGINS names a library that cannot be opened: %s", dlerror());
  const auto get = reinterpret_cast<const Plugin* (*)()>(dlsym(library, "minnow_plugin"));
  bool has_ops = false;
  MINNOW_RETURN_IF_ERROR(add_custom_ops(library, path, &has_ops));
  if (get == nullptr && has_ops) {
    static constexpr Plugin kOpsOnly;
    *out = &kOpsOnly;
    return ok();
  }
  if (get == nullptr)
    return fail(Code::kDevice,
                "MINNOW_PLUGINS names %s, which is no plugin: it has no minnow_plugin(), and no minnow_ops()",
                path.c_str());
  const Plugin* plugin = get();
  MINNOW_RETURN_IF_ERROR(check_plugin(*plugin, path));
  *out = plugin;
  return ok();
}

void add_kernels(const Plugin& plugin, const std::string& kind, Backend* backend) {
  for (int i = 0; i < plugin.num_kernels; ++i)
    if (kind == plugin.kernels[i].device) backend->add_row(plugin.kernels[i].op, plugin.kernels[i].row);
}

}  // namespace

Status open_user_plugins() {
  const char* named = std::getenv("MINNOW_PLUGINS");
  if (named == nullptr || *named == '\0') return ok();
  const std::string paths = named;
  const std::lock_guard<std::mutex> lock(user_plugins().mutex);
  for (size_t begin = 0; begin <= paths.size();) {
    const size_t end = std::min(paths.find(':', begin), paths.size());
    const std::string path = paths.substr(begin, end - begin);
    begin = end + 1;
    if (user_plugins().plugins.count(path) != 0) continue;
    const Plugin* plugin = nullptr;
    MINNOW_RETURN_IF_ERROR(open_user_plugin(path, &plugin));
    user_plugins().plugins[path] = plugin;
    add_kernels(*plugin, "cpu", &Cpu::instance());
  }
  return ok();
}

const BackendPlugin* find_user_backend(const std::string& kind) {
  const std::lock_guard<std::mutex> lock(user_plugins().mutex);
  for (const auto& [path, plugin] : user_plugins().plugins)
    if (plugin->kind != nullptr && kind == plugin->kind) return plugin->backend;
  return nullptr;
}

std::vector<std::string> user_backends() {
  const std::lock_guard<std::mutex> lock(user_plugins().mutex);
  std::vector<std::string> kinds;
  for (const auto& [path, plugin] : user_plugins().plugins)
    if (plugin->kind != nullptr) kinds.push_back(plugin->kind);
  return kinds;
}

void add_user_kernels(const std::string& kind, Backend* backend) {
  const std::lock_guard<std::mutex> lock(user_plugins().mutex);
  for (const auto& [path, plugin] : user_plugins().plugins) add_kernels(*plugin, kind, backend);
}

}  // namespace minnow
