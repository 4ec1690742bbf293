// Errors within the library; they become codes and messages at its functions.
#pragma once

#include <minnow/minnow.h>

#include <stdexcept>
#include <string>

namespace minnow_language {

struct Error : std::runtime_error {
  Error(minnow_code code, const std::string& message) : std::runtime_error(message), code(code) {}
  minnow_code code;
};

[[noreturn]] inline void damaged(const std::string& message) { throw Error(MINNOW_FORMAT, message); }
[[noreturn]] inline void unsupported(const std::string& message) { throw Error(MINNOW_UNSUPPORTED, message); }
[[noreturn]] inline void wrong(const std::string& message) { throw Error(MINNOW_USAGE, message); }

}  // namespace minnow_language
