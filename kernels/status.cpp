#include "kernels/status.h"

#include <cstdarg>
#include <cstdio>

namespace minnow {

struct Status::Error {
  Code code;
  std::string message;
};

Status::Status(Code code, std::string message)
    : error_(code == Code::kOk ? nullptr : new Error{code, std::move(message)}) {}

Status::Error* Status::copy(const Error& error) { return new Error(error); }
void Status::drop(Error* error) { delete error; }

Code Status::code() const { return error_ == nullptr ? Code::kOk : error_->code; }

const std::string& Status::message() const {
  static const std::string kNone;
  return error_ == nullptr ? kNone : error_->message;
}

Status Status::at(const std::string& where) const {
  return error_ == nullptr ? Status() : Status(error_->code, where + ": " + error_->message);
}

Status fail(Code code, const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return Status(code, text);
}

}  // namespace minnow
