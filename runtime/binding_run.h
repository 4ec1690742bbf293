// Runs of a session, as the binding offers them.
#pragma once

#include <memory>
#include <vector>

#include "runtime/binding_array.h"
#include "runtime/src/api/session.h"

namespace minnow {

// Runs pending signal handlers, as the interpreter does between two lines of Python.
bool run_handlers();
// Only the main thread runs them; other threads would wait for the interpreter lock for nothing.
bool is_main_thread();

template <typename Function>
Status without_lock(Function function) {
  const bool is_main = is_main_thread();
  nb::gil_scoped_release release;
  return function(is_main ? run_handlers : nullptr);
}

// `names`: of the values to compute instead of the outputs, or None.
nb::list run_session(Session& session, const nb::list& arrays, double seconds, const nb::object& before,
                     const nb::object& after, const nb::object& names, bool on_device);
// The arrays in the memory of the session's first device beside the CPU.
nb::list to_device(Session& session, const nb::list& arrays);
// A numpy array with what lies on the device.
nb::object to_host(Session& session, const nb::object& capsule);

// Runs from and to memory that stays the same: nothing is allocated again, and a device may record the whole run.
class BoundRun {
 public:
  BoundRun(Session& session, const nb::list& arrays, bool on_device);
  // The outputs, which the first run allocates.
  nb::list run(double seconds);

 private:
  Session& session_;
  nb::list arrays_;                  // which keep the inputs alive
  std::vector<nb::ndarray<>> held_;  // as well
  std::vector<Tensor> inputs_;
  bool on_device_;
  nb::list outputs_;             // empty before the first run
  std::vector<Tensor> tensors_;  // of the outputs
};

}  // namespace minnow
