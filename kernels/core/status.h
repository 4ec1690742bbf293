// Result of a fallible step: a code, and where it is not ok a message for the user.
#pragma once

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
  kWrite = 8,
  kStopped = 9,     // the timeout has passed
  kCancelled = 99,  // to callers the same as kStopped
  kNeedsValue = 100
};

// One pointer, null when all is well: every step of the engine returns one, and nearly always that. What an error takes
// beyond that is out of line, in status.cpp. Nothing here throws, so that what only passes errors on needs no records
// for unwinding: with no memory for its message an error says that there is none.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) noexcept;
  Status(Status&& o) noexcept : error_(o.error_) { o.error_ = nullptr; }
  Status& operator=(Status&& o) noexcept {
    std::swap(error_, o.error_);
    return *this;
  }
  Status(const Status& o) noexcept : error_(o.error_ == nullptr ? nullptr : copy(*o.error_)) {}
  Status& operator=(const Status& o) noexcept { return *this = Status(o); }
  ~Status() {
    if (error_ != nullptr) drop(error_);
  }
  bool ok() const { return error_ == nullptr; }
  Code code() const noexcept;
  const std::string& message() const noexcept;
  // Adds the place in front of the message, e.g. the node's name: "Conv '/layer1/Conv_3': ...".
  Status at(const std::string& where) const noexcept;

 private:
  struct Error;
  static Error* no_memory() noexcept;
  static Error* copy(Error& error) noexcept;
  static void drop(Error* error) noexcept;
  Error* error_ = nullptr;
};

inline Status ok() { return Status(); }

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3), cold))
#endif
Status
fail(Code code, const char* format, ...) noexcept;

#define MINNOW_RETURN_IF_ERROR(expression)   \
  do {                                       \
    ::minnow::Status status_ = (expression); \
    if (!status_.ok()) return status_;       \
  } while (0)

}  // namespace minnow
