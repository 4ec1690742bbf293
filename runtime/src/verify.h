// Whether bytes that come from anywhere can be read as a FlatBuffer of the format.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tables.h"

namespace minnow {

// Whether all that can be reached from the root, a table of this kind, lies within the bytes and is what the schema
// says.
bool verify(const uint8_t* data, size_t size, wire::Table root);

}  // namespace minnow
