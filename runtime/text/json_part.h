// Objects of a JSON text, with errors that say where something is wrong in it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>  // all of it is slow to compile, and is for json_part.cpp only
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/text/error.h"

namespace minnow_language {

class Part {
 public:
  // The object of a file. Errors: it cannot be read, is larger than `most` bytes, or is no JSON.
  static Part of_file(const std::string& path, size_t most);

  std::string text(const char* key) const;
  std::string text(const char* key, const std::string& otherwise) const;
  std::string character(const char* key, const std::string& otherwise) const;  // of exactly one
  bool flag(const char* key, bool otherwise) const;
  int32_t number(const char* key) const;
  int32_t number(const char* key, int32_t otherwise) const;
  bool has(const char* key) const;  // and it is not null
  Part part(const char* key) const;
  std::vector<Part> parts(const char* key) const;
  // A list of tokens, an object of them, and pairs of texts, each of which may be one text with a space within.
  std::vector<int32_t> ids(const char* key) const;
  std::unordered_map<std::string, int32_t> vocabulary(const char* key) const;
  std::vector<std::pair<std::string, std::string>> pairs(const char* key) const;
  int32_t token(const char* key) const;                                       // a pair of a text and its id
  std::vector<std::pair<std::string, double>> scores(const char* key) const;  // pairs of a text and a number
  [[noreturn]] void fail(const std::string& message) const;
  const std::string& where() const { return where_; }

 private:
  using Json = nlohmann::json;
  Part(std::shared_ptr<const Json> file, const Json& value, std::string where, int depth);
  const Json& get(const char* key, bool (Json::*is)() const noexcept, const char* what) const;
  const Json& list(const char* key) const;

  std::shared_ptr<const Json> file_;
  const Json* value_;
  std::string where_;
  int depth_;
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
