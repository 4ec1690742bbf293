// What `minnow.cv` computes in C++ is added to the module `_engine` here.
#pragma once

#include <nanobind/nanobind.h>

namespace minnow {

void bind_drawing(nanobind::module_& m);
void bind_contours(nanobind::module_& m);

}  // namespace minnow
