// Libraries of users, which MINNOW_PLUGINS names: kernels for the devices that there are, and a device of their own.
// examples/plugin is one.
#pragma once

#include <string>
#include <vector>

#include "runtime/src/backend/plugin.h"

namespace minnow {

// A kernel for the nodes of an op, on each device of a kind, "cpu" or "opencl". It comes before the device's own where
// `row.supports` is null, or says so.
struct PluginKernel {
  const char* device;
  const char* op;
  KernelRow row;
};

// What such a library exports, as `extern "C" const minnow::Plugin* minnow_plugin()`. It is built from the same sources
// as the engine, by the same compiler.
struct Plugin {
  static constexpr int kVersion = 1;  // of this struct, and of what it points to

  int version = kVersion;
  const char* engine = MINNOW_VERSION;
  const char* name = nullptr;  // for messages
  const PluginKernel* kernels = nullptr;
  int num_kernels = 0;
  const char* kind = nullptr;  // of its devices, for `device=`; null: it has none
  const BackendPlugin* backend = nullptr;
};

// Opens what MINNOW_PLUGINS names, unless that was done: absolute paths, separated by colons. kUsage where one is
// relative or cannot be opened, kDevice where it is no plugin, or belongs to another version.
Status open_user_plugins();

// Of all plugins that are open.
const BackendPlugin* find_user_backend(const std::string& kind);  // null: none has it
std::vector<std::string> user_backends();                         // their kinds
void add_user_kernels(const std::string& kind, Backend* backend);

}  // namespace minnow
