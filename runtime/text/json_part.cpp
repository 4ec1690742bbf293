#include "runtime/text/json_part.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/text/utf8.h"

namespace minnow_language {
namespace {

constexpr int kDeepest = 64;  // objects within each other, each of which is read by a function within a function

bool is_id(const nlohmann::json& value) { return value.is_number_unsigned() && value.get<uint64_t>() < 1u << 31; }

}  // namespace

Part Part::of_file(const std::string& path, size_t most) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = file ? static_cast<std::streamoff>(file.tellg()) : -1;
  if (size < 0) damaged(path + ": the file cannot be read");
  if (static_cast<uint64_t>(size) > most) damaged(path + ": the file is too large");
  std::string text(static_cast<size_t>(size), '\0');
  file.seekg(0);
  if (!file.read(text.data(), size)) damaged(path + ": the file cannot be read");
  auto value = std::make_shared<const Json>(Json::parse(text, nullptr, false));
  if (value->is_discarded()) damaged(path + ": the file is no JSON");
  return Part(value, *value, path, 0);
}

Part::Part(std::shared_ptr<const Json> file, const Json& value, std::string where, int depth)
    : file_(std::move(file)), value_(&value), where_(std::move(where)), depth_(depth) {
  if (!value.is_object()) fail("an object is expected here");
  if (depth > kDeepest) fail("there are too many objects within each other");
}

void Part::fail(const std::string& message) const { damaged(where_ + ": " + message); }

bool Part::has(const char* key) const {
  auto found = value_->find(key);
  return found != value_->end() && !found->is_null();
}

const Part::Json& Part::get(const char* key, bool (Json::*is)() const noexcept, const char* what) const {
  auto found = value_->find(key);
  if (found == value_->end() || !((*found).*is)()) fail(std::string("'") + key + "' is not " + what);
  return *found;
}

std::string Part::text(const char* key) const {
  return get(key, &Json::is_string, "a text").get_ref<const std::string&>();
}

std::string Part::text(const char* key, const std::string& otherwise) const { return has(key) ? text(key) : otherwise; }

std::string Part::character(const char* key, const std::string& otherwise) const {
  std::string found = text(key, otherwise);
  if (characters(found).size() != 1) fail(std::string("'") + key + "' is not one character");
  return found;
}

bool Part::flag(const char* key, bool otherwise) const {
  return has(key) ? get(key, &Json::is_boolean, "true or false").get<bool>() : otherwise;
}

int32_t Part::number(const char* key) const {
  const Json& found = get(key, &Json::is_number_unsigned, "a whole number from 0 on");
  if (!is_id(found)) fail(std::string("'") + key + "' is too large");
  return found.get<int32_t>();
}

int32_t Part::number(const char* key, int32_t otherwise) const { return has(key) ? number(key) : otherwise; }

const Part::Json& Part::list(const char* key) const { return get(key, &Json::is_array, "a list"); }

Part Part::part(const char* key) const {
  return Part(file_, get(key, &Json::is_object, "an object"), where_ + "." + key, depth_ + 1);
}

std::vector<Part> Part::parts(const char* key) const {
  std::vector<Part> found;
  for (const Json& value : list(key))
    found.push_back(Part(file_, value, where_ + "." + key + "[" + std::to_string(found.size()) + "]", depth_ + 1));
  return found;
}

std::vector<int32_t> Part::ids(const char* key) const {
  std::vector<int32_t> found;
  for (const Json& id : list(key)) {
    if (!is_id(id)) fail(std::string("'") + key + "' is no list of tokens");
    found.push_back(id.get<int32_t>());
  }
  return found;
}

std::unordered_map<std::string, int32_t> Part::vocabulary(const char* key) const {
  std::unordered_map<std::string, int32_t> found;
  for (const auto& [token, id] : get(key, &Json::is_object, "an object").items()) {
    if (!is_id(id)) fail("a token's id is no whole number");
    found[token] = id.get<int32_t>();
  }
  return found;
}

std::vector<std::pair<std::string, std::string>> Part::pairs(const char* key) const {
  std::vector<std::pair<std::string, std::string>> found;
  for (const Json& pair : list(key)) {
    if (pair.is_string()) {
      const auto& text = pair.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
        found.emplace_back(text.substr(0, space), text.substr(space + 1));
        continue;
      }
    } else if (pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string()) {
      found.emplace_back(pair[0].get<std::string>(), pair[1].get<std::string>());
      continue;
    }
    fail(std::string("'") + key + "' is no list of pairs");
  }
  return found;
}

int32_t Part::token(const char* key) const {
  const Json& pair = list(key);
  if (pair.size() != 2 || !is_id(pair[1])) fail(std::string("'") + key + "' is no pair of a token and its id");
  return pair[1].get<int32_t>();
}

std::vector<std::pair<std::string, double>> Part::scores(const char* key) const {
  std::vector<std::pair<std::string, double>> found;
  for (const Json& pair : list(key)) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_number() ||
        !(std::abs(pair[1].get<double>()) < 1e30))
      fail(std::string("'") + key + "' is no list of texts and scores");
    found.emplace_back(pair[0].get<std::string>(), pair[1].get<double>());
  }
  return found;
}

}  // namespace minnow_language
