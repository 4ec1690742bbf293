// Exceptions of the standard library become a Status: no memory, or a defect of ours.
#pragma once

#include <exception>
#include <new>

#include "kernels/core/status.h"

namespace minnow {

template <typename Function>
Status guarded(Function function) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return fail(Code::kUnsupported, "not enough memory");
  } catch (const std::exception& e) {
    return fail(Code::kInternal, "%s", e.what());
  } catch (...) {
    return fail(Code::kInternal, "an unknown exception");
  }
}

}  // namespace minnow
