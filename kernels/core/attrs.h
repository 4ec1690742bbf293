// Attributes of an op, by name, with the types the op registry of the Python side knows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/core/dtype.h"

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
    if (const T* value = std::get_if<T>(it->second.get())) return *value;
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
  size_t size() const { return map_.size(); }
  bool has(const char* name) const { return map_.count(name) != 0; }
  // All that others have, or those whose names do not begin like that.
  void merge(const Attrs& others, const std::string& except = "") {
    for (const auto& [name, value] : others.map_)
      if (except.empty() || name.compare(0, except.size(), except) != 0) map_[name] = value;
  }
  // All that others have, under names that begin like that.
  void nest(const std::string& prefix, const Attrs& others) {
    for (const auto& [name, value] : others.map_) map_[prefix + name] = value;
  }
  void set(std::string name, Attr value) { map_[std::move(name)] = std::make_shared<const Attr>(std::move(value)); }
  bool operator==(const Attrs& other) const {
    const auto same = [](const auto& a, const auto& b) { return a.first == b.first && *a.second == *b.second; };
    return std::equal(map_.begin(), map_.end(), other.map_.begin(), other.map_.end(), same);
  }

 private:
  // Shared, as they do not change: a copy has no contents to copy, which could fail half-way.
  std::map<std::string, std::shared_ptr<const Attr>, std::less<>> map_;
};

}  // namespace minnow
