// Arrays of Python as pictures, and how functions on them run.
#pragma once

#include <nanobind/nanobind.h>

#include <initializer_list>
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

// Joins rows of pictures of one size to fewer that are longer, where none has gaps between its rows: for functions of
// single pixels, whose rows should be long.
void join_rows(std::initializer_list<vision::Picture*> pictures);

// The pool of this thread of Python: it stays, so that its threads are not started again in each call.
ThreadPool& pool_of(int threads);

// Calls function(pool) without Python's lock; raises what it fails with.
template <typename Function>
void run_vision(int threads, Function function) {
  Status status;
  {
    nanobind::gil_scoped_release release;
    status = guarded([&] { return function(pool_of(std::clamp(threads, 1, 256))); });
  }
  raise_if(status);
}

}  // namespace minnow
