#include "kernels/core/status.h"

#include <cstdarg>
#include <cstdio>
#include <new>

namespace minnow {

struct Status::Error {
  Code code;
  std::string message;
};

// What is told when there is no memory to tell it with.
Status::Error* Status::no_memory() noexcept {
  static Error error{Code::kUnsupported, "out of memory"};  // short enough for a string without memory of its own
  return &error;
}

Status::Status(Code code, std::string message) noexcept
    : error_(code == Code::kOk ? nullptr : new (std::nothrow) Error{code, std::move(message)}) {
  if (error_ == nullptr && code != Code::kOk) error_ = no_memory();
}

Status::Error* Status::copy(Error& error) noexcept {
  try {
    return new Error(error);
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

void Status::drop(Error* error) noexcept {
  if (error != no_memory()) delete error;
}

Code Status::code() const noexcept { return error_ == nullptr ? Code::kOk : error_->code; }

const std::string& Status::message() const noexcept {
  static const std::string kNone;
  return error_ == nullptr ? kNone : error_->message;
}

Status Status::at(const std::string& where) const noexcept {
  if (error_ == nullptr) return Status();
  try {
    return Status(error_->code, where + ": " + error_->message);
  } catch (const std::bad_alloc&) {
    return *this;
  }
}

Status fail(Code code, const char* format, ...) noexcept {
  char text[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  try {
    return Status(code, text);
  } catch (const std::bad_alloc&) {
    return Status(Code::kUnsupported, "out of memory");
  }
}

}  // namespace minnow
