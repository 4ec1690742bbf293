#include "runtime/text/json_part.h"

#include <fstream>

#include "runtime/text/utf8.h"

namespace minnow_language {

Json read_json(const std::string& path, size_t most) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = file ? static_cast<std::streamoff>(file.tellg()) : -1;
  if (size < 0) damaged(path + ": the file cannot be read");
  if (static_cast<uint64_t>(size) > most) damaged(path + ": the file is too large");
  std::string text(static_cast<size_t>(size), '\0');
  file.seekg(0);
  if (!file.read(text.data(), size)) damaged(path + ": the file cannot be read");
  Json value = Json::parse(text, nullptr, false);
  if (value.is_discarded()) damaged(path + ": the file is no JSON");
  return value;
}

Part::Part(const Json& value, std::string where) : value_(&value), where_(std::move(where)) {
  if (!value.is_object()) damaged(where_ + ": an object is expected here");
}

void Part::fail(const std::string& message) const { damaged(where_ + ": " + message); }

bool Part::has(const char* key) const {
  auto found = value_->find(key);
  return found != value_->end() && !found->is_null();
}

const Json& Part::get(const char* key, bool (Json::*is)() const noexcept, const char* what) const {
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
  const auto value = found.get<uint64_t>();
  if (value >= 1u << 31) fail(std::string("'") + key + "' is too large");
  return static_cast<int32_t>(value);
}

int32_t Part::number(const char* key, int32_t otherwise) const { return has(key) ? number(key) : otherwise; }

const Json& Part::list(const char* key) const { return get(key, &Json::is_array, "a list"); }

const Json& Part::object(const char* key) const { return get(key, &Json::is_object, "an object"); }

Part Part::part(const char* key) const { return Part(object(key), where_ + "." + key); }

std::vector<Part> Part::parts(const char* key) const {
  std::vector<Part> found;
  for (const Json& value : list(key))
    found.emplace_back(value, where_ + "." + key + "[" + std::to_string(found.size()) + "]");
  return found;
}

}  // namespace minnow_language
