#include "runtime/text/utf8.h"

#include <utf8proc.h>

#include <cstdlib>

#include "runtime/text/error.h"

namespace minnow_language {

size_t character_size(std::string_view text, size_t* cut) {
  size_t unused;
  size_t& part = cut ? *cut : unused;
  part = 0;
  if (text.empty()) return 0;
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xC2 && first < 0xE0   ? 2
                      : (first & 0xF0) == 0xE0        ? 3
                      : first >= 0xF0 && first < 0xF5 ? 4
                                                      : 0;
  part = 1;
  for (size_t i = 1; i < size; ++i) {
    if (i >= text.size()) {
      part = i;
      return 0;
    }
    // Neither overlong forms, nor halves of surrogate pairs, nor what is beyond U+10FFFF.
    const unsigned low = i > 1 ? 0x80 : first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const unsigned high = i > 1 ? 0xBF : first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (byte(i) < low || byte(i) > high) return 0;
    part = i + 1;
  }
  return size;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t size = character_size(text);
    if (!size) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> found;
  while (!text.empty()) {
    const size_t size = character_size(text);
    found.push_back(text.substr(0, size ? size : 1));
    text.remove_prefix(found.back().size());
  }
  return found;
}

namespace {

int32_t code_of(std::string_view character) {
  utf8proc_int32_t code = -1;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(character.data()),
                   static_cast<utf8proc_ssize_t>(character.size()), &code);
  return code;
}

utf8proc_category_t category_of(std::string_view character) {
  const int32_t code = code_of(character);
  return code < 0 ? UTF8PROC_CATEGORY_CN : utf8proc_category(code);
}

}  // namespace

bool is_space(std::string_view character) {
  const int32_t c = code_of(character);
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_word(std::string_view character) {
  const auto category = category_of(character);
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NO) || category == UTF8PROC_CATEGORY_PC;
}

bool is_mark(std::string_view character) {
  const auto category = category_of(character);
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

bool is_nonspacing_mark(std::string_view character) { return category_of(character) == UTF8PROC_CATEGORY_MN; }

bool is_other(std::string_view character) {
  const auto category = category_of(character);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO;
}

bool is_punctuation(std::string_view character) {
  const int32_t c = code_of(character);
  if (c < 0x80)
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
  const auto category = category_of(character);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

std::string lowered(const std::string& text) {
  std::string made;
  for (std::string_view c : characters(text)) {
    const int32_t code = code_of(c);
    utf8proc_uint8_t bytes[4];
    const auto size = code < 0 ? 0 : utf8proc_encode_char(utf8proc_tolower(code), bytes);
    if (code == 0x130)  // the only one that becomes two
      made += "i\xCC\x87";
    else if (size > 0)
      made.append(reinterpret_cast<char*>(bytes), static_cast<size_t>(size));
    else
      made += c;
  }
  return made;
}

std::string normalized(const std::string& text, const std::string& form) {
  int options = UTF8PROC_STABLE;
  options |= form.back() == 'C' ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form.size() == 4) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* made = nullptr;
  const auto size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &made, static_cast<utf8proc_option_t>(options));
  if (size < 0) {
    std::free(made);
    wrong("the text cannot be brought to the form " + form + ": " + utf8proc_errmsg(size));
  }
  std::string result(reinterpret_cast<char*>(made), static_cast<size_t>(size));
  std::free(made);
  return result;
}

std::string Utf8Stream::push(std::string_view bytes, bool last) {
  kept_ += bytes;
  std::string_view rest = kept_;
  std::string text;
  while (!rest.empty()) {
    size_t cut;
    const size_t size = character_size(rest, &cut);
    if (size) {
      text += rest.substr(0, size);
      rest.remove_prefix(size);
      continue;
    }
    if (cut == rest.size() && !last && cut < 4 && static_cast<unsigned char>(rest[0]) >= 0xC2 &&
        static_cast<unsigned char>(rest[0]) < 0xF5)
      break;
    text += kReplacement;
    rest.remove_prefix(cut);
  }
  kept_ = std::string(rest);
  return text;
}

}  // namespace minnow_language
