// Texts in UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace minnow_language {

// Bytes of the character at the beginning; 0 where there is none: `cut` then says how many bytes are the beginning of a
// character that more bytes could complete, and else are the longest wrong part (at least 1).
size_t character_size(std::string_view text, size_t* cut = nullptr);
bool is_utf8(std::string_view text);
// The characters of a valid text.
std::vector<std::string_view> characters(std::string_view text);
// Unicode's white space.
bool is_space(std::string_view character);
// A letter, mark, number or connector: what \w is.
bool is_word(std::string_view character);
// A combining mark; one that takes no room.
bool is_mark(std::string_view character);
bool is_nonspacing_mark(std::string_view character);
// A control, format or private character. Those that Unicode does not know yet are none.
bool is_other(std::string_view character);
// As BERT has it: all of ASCII that is no letter, digit or space, and Unicode's punctuation.
bool is_punctuation(std::string_view character);
// Each character in lower case by itself.
std::string lowered(const std::string& text);
// The text in the normal form C, D, KC or KD, by the name "NFC".
std::string normalized(const std::string& text, const std::string& form);

// Bytes that come one after the other become text; what is no UTF-8 becomes U+FFFD.
class Utf8Stream {
 public:
  std::string push(std::string_view bytes, bool last);

 private:
  std::string kept_;
};

inline constexpr const char* kReplacement = "\xEF\xBF\xBD";

}  // namespace minnow_language
