// Image processing, as the binding offers it to minnow.cv.
#pragma once

#include <nanobind/nanobind.h>

namespace minnow {

// Adds the submodule `vision`.
void bind_vision(nanobind::module_& m);

}  // namespace minnow
