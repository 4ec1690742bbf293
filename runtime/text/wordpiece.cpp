#include "runtime/text/wordpiece.h"

#include <algorithm>

#include "runtime/text/utf8.h"

namespace minnow_language {

WordPiece::WordPiece(const Part& part)
    : Model(part.vocabulary("vocab")),
      prefix_(part.text("continuing_subword_prefix", "##")),
      most_(static_cast<size_t>(part.number("max_input_chars_per_word", 100))),
      unknown_(named(part, "unk_token", part.text("unk_token", "[UNK]"))) {
  for (const auto& entry : vocabulary_) longest_ = std::max(longest_, entry.first.size());
}

void WordPiece::encode(const std::string& piece, std::vector<int32_t>* ids) const {
  const std::vector<std::string_view> word = characters(piece);
  const size_t before = ids->size();
  size_t start = 0;
  if (word.size() <= most_) {
    while (start < word.size()) {
      std::string token = start ? prefix_ : "";
      size_t end = start;
      for (; end < word.size() && token.size() < longest_; ++end) token += word[end];
      auto found = vocabulary_.end();
      while (end > start && (found = vocabulary_.find(token)) == vocabulary_.end())
        token.resize(token.size() - word[--end].size());
      if (end == start) break;
      ids->push_back(found->second);
      start = end;
    }
    if (start == word.size()) return;
  }
  ids->resize(before);
  ids->push_back(unknown_);
}

}  // namespace minnow_language
