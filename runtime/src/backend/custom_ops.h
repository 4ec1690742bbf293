// Ops of users, from libraries with the interface of minnow/op.h. In graphs they are nodes of the op "Custom", whose
// attribute kCustomOp says which.
#pragma once

#include <string>

#include "kernels/core/status.h"

namespace minnow {

constexpr const char* kCustomOp = "minnow.op";

// Takes the ops of an open library; `found` is false where it has none.
Status add_custom_ops(void* library, const std::string& path, bool* found);

// Whether there is an op of that name in a library that MINNOW_PLUGINS names; opens these unless that was done.
Status find_custom_op(const std::string& name, bool* found);

}  // namespace minnow
