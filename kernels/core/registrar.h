// Rows that files add to tables while statics are initialized: ops, kernels, lowerings, decoders, each by its name.
//
// A slim build (MINNOW_OPS, see cmake/slim.cmake) keeps only the rows that a list names. Nothing refers to the
// functions of the others then, so that they are not part of the library.
#pragma once

#define MINNOW_CONCAT_(a, b) a##b
#define MINNOW_CONCAT(a, b) MINNOW_CONCAT_(a, b)
// A name that no other row has, also where several files are compiled as one.
#define MINNOW_UNIQUE(name) MINNOW_CONCAT(name, __COUNTER__)

#ifdef MINNOW_SLIM
#include <string_view>

#include "kept_rows.h"  // made by the build: minnow::kKeptRows

#define MINNOW_THIS_BUILD "this slim build, made for other models,"

namespace minnow {

constexpr bool is_kept(std::string_view name) {
  for (const std::string_view kept : kKeptRows)
    if (kept == name) return true;
  return false;
}

}  // namespace minnow

#define MINNOW_REGISTER_AS(name, Registrar, id, ...)                                  \
  [[maybe_unused]] static const bool id = [] {                                        \
    if constexpr (::minnow::is_kept(name)) static_cast<void>(Registrar(__VA_ARGS__)); \
    return true;                                                                      \
  }()
#else
#define MINNOW_THIS_BUILD "this build"

namespace minnow {

constexpr bool is_kept(const char*) { return true; }

}  // namespace minnow

#define MINNOW_REGISTER_AS(name, Registrar, id, ...) static const Registrar id(__VA_ARGS__)
#endif

// For registrars whose first argument is the name of the row.
#define MINNOW_FIRST_(first, ...) first
#define MINNOW_REGISTER(Registrar, id, ...) \
  MINNOW_REGISTER_AS(MINNOW_FIRST_(__VA_ARGS__, 0), Registrar, id, __VA_ARGS__)
