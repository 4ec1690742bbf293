// Objects of a JSON text, with errors that say where something is wrong in it.
#pragma once

#include <nlohmann/json.hpp>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/text/error.h"

namespace minnow_language {

using Json = nlohmann::json;

// The value of a file. Errors: it cannot be read, is larger than `most` bytes, or is no JSON.
Json read_json(const std::string& path, size_t most);

class Part {
 public:
  Part(const Json& value, std::string where);
  std::string text(const char* key) const;
  std::string text(const char* key, const std::string& otherwise) const;
  std::string character(const char* key, const std::string& otherwise) const;  // of exactly one
  bool flag(const char* key, bool otherwise) const;
  int32_t number(const char* key) const;
  int32_t number(const char* key, int32_t otherwise) const;
  bool has(const char* key) const;  // and it is not null
  const Json& list(const char* key) const;
  const Json& object(const char* key) const;
  Part part(const char* key) const;
  std::vector<Part> parts(const char* key) const;
  [[noreturn]] void fail(const std::string& message) const;
  const std::string& where() const { return where_; }

 private:
  const Json& get(const char* key, bool (Json::*is)() const noexcept, const char* what) const;
  const Json* value_;
  std::string where_;
};

// What reads an object by its "type".
template <class T>
T read_kind(const Part& part, const char* section, const std::map<std::string, std::function<T(const Part&)>>& kinds) {
  const std::string type = part.text("type");
  auto found = kinds.find(type);
  if (found == kinds.end())
    unsupported(part.where() + ": the " + section + " '" + type.substr(0, 80) + "' is not supported");
  return found->second(part);
}

}  // namespace minnow_language
