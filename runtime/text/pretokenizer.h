// Where a text is split before the model sees it: no token crosses such a place.
#pragma once

#include "runtime/text/json_part.h"

namespace minnow_language {

// A part of a text, and whether it is the beginning of the whole text.
struct Piece {
  std::string text;
  bool first;
};
using PreTokenizer = std::function<std::vector<Piece>(std::vector<Piece>)>;
PreTokenizer read_pretokenizer(const Part& part);

// Bytes as printable characters, as GPT-2 chose them, and back; a token with other characters is itself.
std::string to_alphabet(const std::string& text);
std::string from_alphabet(const std::string& token);

// When a mark is put before a text: "always", "first", "never".
std::string prepend_scheme(const Part& part);
inline constexpr const char* kMark = "\xE2\x96\x81";  // U+2581

}  // namespace minnow_language
