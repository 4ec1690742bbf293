#include "runtime/text/charsmap.h"

#include "runtime/text/utf8.h"

namespace minnow_language {
namespace {

constexpr size_t kLongest = 6;  // bytes of a cluster that is looked up as one: less than that

std::string from_base64(const std::string& encoded, const std::string& where) {
  static const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string made;
  size_t size = encoded.size();
  if (size % 4) damaged(where + ": the table of characters is not base64");
  for (int padding = 0; padding < 2 && size && encoded[size - 1] == '='; ++padding) --size;
  uint32_t bits = 0;
  for (size_t i = 0; i < size; ++i) {
    const size_t digit = digits.find(encoded[i]);
    if (digit == std::string::npos) damaged(where + ": the table of characters is not base64");
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if (i % 4) made += static_cast<char>(bits >> (6 - 2 * (i % 4)));
  }
  return made;
}

uint32_t unit_at(const std::string& data, size_t at) {
  uint32_t unit = 0;
  for (size_t i = 4; i-- > 0;) unit = unit << 8 | static_cast<unsigned char>(data[at + i]);
  return unit;
}

uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & 1u << 9) >> 6); }

}  // namespace

Charsmap::Charsmap(const std::string& encoded, const std::string& where)
    : where_(where), clusters_(Pattern::expression("\\X", where)) {
  const std::string data = from_base64(encoded, where);
  if (data.empty()) return;
  const size_t size = data.size() < 4 ? 1 : unit_at(data, 0);
  if (size % 4 || size > data.size() - 4) damaged(where + ": the table of characters is cut off");
  for (size_t at = 4; at < 4 + size; at += 4) units_.push_back(unit_at(data, at));
  texts_ = data.substr(4 + size);
}

std::string Charsmap::operator()(const std::string& text) const {
  if (units_.empty()) return text;
  std::string made;
  for (auto [begin, end] : clusters_.spans(text)) {
    const std::string_view cluster = std::string_view(text).substr(begin, end - begin);
    if (cluster.size() < kLongest && replace(cluster, &made)) continue;
    for (std::string_view c : characters(cluster))
      if (!replace(c, &made)) made += c;
  }
  return made;
}

bool Charsmap::replace(std::string_view text, std::string* made) const {
  size_t at = offset_of(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    at ^= byte;
    if (byte == 0 || at >= units_.size()) return false;
    const uint32_t unit = units_[at];
    if ((unit & (1u << 31 | 0xFF)) != byte) return false;
    at ^= offset_of(unit);
    if ((unit >> 8 & 1) && at < units_.size()) {
      append(units_[at] & 0x7FFFFFFF, made);
      return true;
    }
  }
  return false;
}

void Charsmap::append(size_t start, std::string* made) const {
  const size_t end = start < texts_.size() ? texts_.find('\0', start) : std::string::npos;
  if (end == std::string::npos) damaged(where_ + ": the table of characters has a wrong offset");
  const std::string_view text = std::string_view(texts_).substr(start, end - start);
  if (!is_utf8(text)) damaged(where_ + ": the table of characters has a text that is not UTF-8");
  *made += text;
}

}  // namespace minnow_language
