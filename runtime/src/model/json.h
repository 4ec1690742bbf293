// The little JSON that files carry in their metadata.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace minnow {

struct Json {
  enum Kind { kNull, kBool, kNumber, kString, kArray, kObject };
  Kind kind = kNull;
  double number = 0;  // of a bool: 0 or 1
  std::string text;
  std::vector<Json> items;
  std::map<std::string, Json> members;

  const Json* find(const std::string& key) const {
    const auto it = members.find(key);
    return it == members.end() ? nullptr : &it->second;
  }
};

// False when the text is not JSON, or nested deeper than 32 levels.
bool parse_json(const std::string& text, Json* out);

}  // namespace minnow
