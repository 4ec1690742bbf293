// Result of a fallible step: a code, and where it is not ok a message for the user.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>
#include <utility>

namespace minnow {

// The numbers are the exit codes of the command line, and of the C API.
enum class Code : int {
  kOk = 0,
  kInternal = 1,
  kUsage = 2,
  kUnsupported = 3,
  kFormat = 6,
  kDevice = 7,
  kNeedsValue = 100
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  // Adds the place in front of the message, e.g. the node's name: "Conv '/layer1/Conv_3': ...".
  Status at(const std::string& where) const { return ok() ? *this : Status(code_, where + ": " + message_); }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

inline Status ok() { return Status(); }

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
inline Status
fail(Code code, const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return Status(code, text);
}

#define MINNOW_RETURN_IF_ERROR(expression)   \
  do {                                       \
    ::minnow::Status status_ = (expression); \
    if (!status_.ok()) return status_;       \
  } while (0)

}  // namespace minnow
