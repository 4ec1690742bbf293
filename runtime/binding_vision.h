// Image processing, as the binding offers it to minnow.cv.
#pragma once

#include <nanobind/nanobind.h>

namespace minnow {

// Adds the submodule `vision`.
void bind_vision(nanobind::module_& m);
// What it calls for functions of single pixels.
void bind_pixels(nanobind::module_& vision);

}  // namespace minnow
