// Exceptions of the standard library become a Status: no memory, or a defect of ours.
#pragma once

#include <exception>
#include <new>
#include <utility>

#include "kernels/core/status.h"

namespace minnow {

// An error of what can only throw.
class StatusError final : public std::exception {
 public:
  explicit StatusError(Status status) : status_(std::move(status)) {}
  const char* what() const noexcept override { return status_.message().c_str(); }
  const Status& status() const { return status_; }

 private:
  Status status_;
};

inline void throw_unless(Status status) {
  if (!status.ok()) throw StatusError(std::move(status));
}

template <typename Function>
Status guarded(Function function) {
  try {
    return function();
  } catch (const StatusError& e) {
    return e.status();
  } catch (const std::bad_alloc&) {
    return fail(Code::kUnsupported, "not enough memory");
  } catch (const std::exception& e) {
    return fail(Code::kInternal, "%s", e.what());
  } catch (...) {
    return fail(Code::kInternal, "an unknown exception");
  }
}

}  // namespace minnow
