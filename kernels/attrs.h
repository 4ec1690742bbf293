// Attributes of an op, by name, with the types the op registry of the Python side knows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/dtype.h"

namespace minnow {

using Attr = std::variant<int64_t, double, bool, std::string, DType, std::vector<int64_t>, std::vector<double>,
                          std::vector<std::string>>;

// A missing attribute has the value the kernel names as default: `attrs.get("axis", int64_t{-1})`.
class Attrs {
 public:
  template <typename T>
  T get(const char* name, T fallback) const {
    auto it = map_.find(name);
    if (it == map_.end()) return fallback;
    if (const T* value = std::get_if<T>(&it->second)) return *value;
    return fallback;
  }
  int64_t i(const char* name, int64_t fallback = 0) const { return get<int64_t>(name, fallback); }
  // Float attributes are float32 in files, so defaults are rounded alike.
  double f(const char* name, double fallback = 0) const { return get<double>(name, static_cast<float>(fallback)); }
  bool b(const char* name, bool fallback = false) const { return get<bool>(name, fallback); }
  std::string s(const char* name, std::string fallback = "") const {
    return get<std::string>(name, std::move(fallback));
  }
  std::vector<int64_t> ints(const char* name, std::vector<int64_t> fallback = {}) const {
    return get<std::vector<int64_t>>(name, std::move(fallback));
  }
  std::vector<double> floats(const char* name, std::vector<double> fallback = {}) const {
    return get<std::vector<double>>(name, std::move(fallback));
  }
  bool has(const char* name) const { return map_.count(name) != 0; }
  void set(std::string name, Attr value) { map_[std::move(name)] = std::move(value); }
  auto begin() const { return map_.begin(); }
  auto end() const { return map_.end(); }

 private:
  std::map<std::string, Attr, std::less<>> map_;
};

}  // namespace minnow
