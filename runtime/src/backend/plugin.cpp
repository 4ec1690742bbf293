#include "runtime/src/backend/plugin.h"

#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "runtime/src/backend/cpu.h"
#include "runtime/src/backend/user_plugins.h"

namespace minnow {
namespace {

constexpr const char* kPrefix = "libminnow_";
constexpr const char* kSuffix = ".so";

// The folder of the library that this code is in; "" where the system does not say.
std::string own_folder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&find_backend), &info) == 0 || info.dli_fname == nullptr) return "";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::vector<std::string> folders() {
  std::vector<std::string> all;
  const char* named = std::getenv("MINNOW_BACKENDS");
  if (named != nullptr && *named != '\0') all.push_back(named);
  if (const std::string own = own_folder(); !own.empty()) all.push_back(own);
  return all;
}

// The kinds of devices for which there is a library, sorted.
std::vector<std::string> kinds() {
  const std::string prefix = kPrefix, suffix = kSuffix;
  std::vector<std::string> found = user_backends();
  for (const std::string& folder : folders()) {
    DIR* entries = opendir(folder.c_str());
    if (entries == nullptr) continue;
    while (const dirent* entry = readdir(entries)) {
      const std::string name = entry->d_name;
      if (name.size() <= prefix.size() + suffix.size() || name.compare(0, prefix.size(), prefix) != 0 ||
          name.compare(name.size() - suffix.size(), suffix.size(), suffix) != 0)
        continue;
      found.push_back(name.substr(prefix.size(), name.size() - prefix.size() - suffix.size()));
    }
    closedir(entries);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

bool is_kind(const std::string& kind) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !kind.empty() && std::all_of(kind.begin(), kind.end(), fits);
}

// Libraries and devices that were opened: kept until the process ends, since sessions point to them.
class Opened {
 public:
  static Opened& instance() {
    static Opened* opened = new Opened;  // never destroyed: a session may outlive the statics
    return *opened;
  }

  Status open(const std::string& kind, int index, Backend** out) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::unique_ptr<Backend>& device = devices_[{kind, index}];
    if (device == nullptr) {
      const BackendPlugin* plugin = nullptr;
      Status status = load(kind, &plugin);
      if (status.ok() && index >= plugin->count())
        status = fail(Code::kDevice, "this machine has %d of them", plugin->count());
      if (status.ok()) status = plugin->open(index, Cpu::instance(), &device);
      if (!status.ok()) {
        devices_.erase({kind, index});
        return status;
      }
      add_user_kernels(kind, device.get());
    }
    *out = device.get();
    return ok();
  }

  // Of a kind whose library is open; -1 where it is not.
  int known_count(const std::string& kind) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto known = plugins_.find(kind);
    return known == plugins_.end() || known->second == nullptr ? -1 : known->second->count();
  }

  Status count(const std::string& kind, int* n) {
    std::lock_guard<std::mutex> lock(mutex_);
    const BackendPlugin* plugin = nullptr;
    MINNOW_RETURN_IF_ERROR(load(kind, &plugin));
    *n = plugin->count();
    return ok();
  }

 private:
  Status load(const std::string& kind, const BackendPlugin** out) {
    const BackendPlugin*& plugin = plugins_[kind];
    if (plugin == nullptr) plugin = find_user_backend(kind);
    if (plugin == nullptr) {
      std::string tried;
      void* library = nullptr;
      for (const std::string& folder : folders()) {
        const std::string path = folder + "/" + kPrefix + kind + kSuffix;
        if (access(path.c_str(), F_OK) != 0) continue;
        library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library != nullptr) break;
        tried += std::string(tried.empty() ? "" : "; ") + dlerror();
      }
      if (library == nullptr && tried.empty())
        return fail(Code::kDevice, "there is no %s%s%s in this build", kPrefix, kind.c_str(), kSuffix);
      if (library == nullptr) return Status(Code::kDevice, "its library cannot be opened: " + tried);
      const auto get = reinterpret_cast<const BackendPlugin* (*)()>(dlsym(library, "minnow_backend_plugin"));
      if (get == nullptr) return fail(Code::kDevice, "%s%s%s is no backend of Minnow", kPrefix, kind.c_str(), kSuffix);
      const BackendPlugin* found = get();
      if (found->version != BackendPlugin::kVersion || std::string(found->engine) != MINNOW_VERSION)
        return fail(Code::kDevice, "%s%s%s belongs to Minnow %s, and this is %s", kPrefix, kind.c_str(), kSuffix,
                    found->version != BackendPlugin::kVersion ? "of another version" : found->engine, MINNOW_VERSION);
      plugin = found;
    }
    *out = plugin;
    return ok();
  }

  std::mutex mutex_;
  std::map<std::string, const BackendPlugin*> plugins_;
  std::map<std::pair<std::string, int>, std::unique_ptr<Backend>> devices_;
};

}  // namespace

Status find_backend(const std::string& name, Backend** out) {
  *out = &Cpu::instance();
  if constexpr (kHasOtherDevices) MINNOW_RETURN_IF_ERROR(open_user_plugins());
  if (name.empty() || name == (*out)->name()) return ok();
  if constexpr (!kHasOtherDevices)
    return fail(Code::kDevice, "the device '%s' is not available: " MINNOW_THIS_BUILD " has only the CPU",
                name.c_str());
  const size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon), digits = colon == std::string::npos ? "0" : name.substr(colon + 1);
  const bool counts = !digits.empty() && digits.size() < 4 &&
                      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!is_kind(kind) || kind == (*out)->name() || !counts)
    return fail(Code::kUsage, "'%s' is no device; devices are called \"cpu\", \"auto\", \"cuda\" or \"cuda:1\"",
                name.c_str());
  Status status = Opened::instance().open(kind, std::atoi(digits.c_str()), out);
  if (status.ok()) return ok();
  std::string there = (*out)->name();
  // Drivers are not loaded to name their devices: some end a process that has loaded other libraries before.
  for (const std::string& other : kinds()) {
    const int n = Opened::instance().known_count(other);
    if (n < 0) there += ", " + other;
    for (int i = 0; i < n; ++i) there += ", " + other + ":" + std::to_string(i);
  }
  return Status(status.code(),
                "the device '" + name + "' is not available: " + status.message() + ". Available here: " + there);
}

std::vector<Backend*> other_backends() {
  std::vector<Backend*> all;
  for (const std::string& kind : kHasOtherDevices ? kinds() : std::vector<std::string>()) {
    int n = 0;
    if (!is_kind(kind) || !Opened::instance().count(kind, &n).ok()) continue;
    for (int i = 0; i < n; ++i) {
      Backend* backend = nullptr;
      if (Opened::instance().open(kind, i, &backend).ok()) all.push_back(backend);
    }
  }
  return all;
}

}  // namespace minnow
