// Arrays of Python as pictures, and how functions on them run.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "kernels/core/status_guard.h"
#include "kernels/vision/picture.h"
#include "runtime/binding_array.h"

namespace minnow {

// An array [height, width] or [height, width, channels] whose rows have no gaps; between rows there may be some. The
// caller holds the array.
vision::Picture picture_of(nanobind::handle array, bool writable = false);

void require(bool condition, const char* what);
void require_same(const vision::Picture& a, const vision::Picture& b);

// The threads of pools end with the last one: a pool that stays keeps them from being started again in each call.
void keep_workers(int threads);

// Calls function(pool) without Python's lock; raises what it fails with.
template <typename Function>
void run_vision(int threads, Function function) {
  Status status;
  {
    nanobind::gil_scoped_release release;
    status = guarded([&] {
      const int wanted = std::clamp(threads, 1, 256);
      keep_workers(wanted);
      ThreadPool pool(wanted);
      return function(pool);
    });
  }
  raise_if(status);
}

}  // namespace minnow
