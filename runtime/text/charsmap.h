// The normalizer Precompiled: the table of replacements inside a SentencePiece model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/pattern.h"

namespace minnow_language {

class Charsmap {
 public:
  // `encoded`: in base64, a little-endian uint32, the size of a trie; the trie, a double array of uint32 over bytes;
  // and the replacements, texts that end with a zero byte. The value of a key in the trie is where its replacement
  // begins.
  Charsmap(const std::string& encoded, const std::string& where);
  std::string operator()(const std::string& text) const;

 private:
  // Appends the replacement of the shortest key that a text begins with, as the package `tokenizers` chooses it.
  bool replace(std::string_view text, std::string* made) const;
  void append(size_t start, std::string* made) const;

  std::string where_, texts_;
  std::vector<uint32_t> units_;
  Pattern clusters_;
};

}  // namespace minnow_language
