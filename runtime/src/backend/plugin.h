// Backends in libraries of their own: `libminnow_<kind>.so`, beside the library of the engine or in the folder that
// MINNOW_BACKENDS names. It is opened when a session asks for a device of this kind, or for "auto".
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/src/backend/backend.h"

namespace minnow {

// What such a library exports, as `extern "C" const minnow::BackendPlugin* minnow_backend_plugin()`. It is built from
// the same sources as the engine, by the same compiler: objects with virtual functions cross the border.
struct BackendPlugin {
  static constexpr int kVersion = 3;  // of this struct and of backend.h

  int version = kVersion;
  const char* engine = MINNOW_VERSION;
  int (*count)() = nullptr;  // devices of this kind on this machine
  // `host` is the CPU, and outlives the backend. `index` counts from 0.
  Status (*open)(int index, Backend& host, std::unique_ptr<Backend>* out) = nullptr;
};

// The device of this name: "cpu", "<kind>" (the first of its kind) or "<kind>:<index>". It lives as long as the
// process. kDevice when it is not there, with what was looked for and which devices there are.
Status find_backend(const std::string& name, Backend** out);

// All devices but the CPU, as far as their libraries can be opened.
std::vector<Backend*> other_backends();

}  // namespace minnow
