// Tokenizers from a tokenizer.json: text to ids and back.
#pragma once

#include "runtime/text/decoder.h"
#include "runtime/text/model.h"
#include "runtime/text/normalizer.h"
#include "runtime/text/pretokenizer.h"

namespace minnow_language {

// A token that is found before anything else, such as <|im_start|>.
struct AddedToken {
  int32_t id;
  std::string text;
  bool special, lstrip, rstrip, single_word, normalized;
};

class Tokenizer {
 public:
  explicit Tokenizer(const std::string& path);  // of a file, or a folder with a tokenizer.json
  // The ids of a text, which must be UTF-8. `marks`: with those that the file puts around it; `parse`: texts of special
  // tokens within it are these tokens.
  std::vector<int32_t> encode(const std::string& text, bool marks, bool parse) const;
  std::string decode(const int32_t* ids, size_t count) const;
  Tokens shown(const int32_t* ids, size_t count) const;  // without special ones and those that are not known
  const std::vector<Maker>& decoder() const { return decoder_; }
  bool knows(int32_t id) const { return texts_.count(id) != 0; }

 private:
  using Search = std::unordered_map<std::string, const AddedToken*>;  // by their texts
  void read_added(const Part& root);
  void read_marks(const Part& part);
  std::vector<std::pair<std::string, int32_t>> split(const std::string& text, const Search& search, size_t longest,
                                                     bool parse) const;

  std::string where_;
  Normalizer normalize_;
  PreTokenizer split_;
  std::vector<Maker> decoder_;
  std::unique_ptr<Model> model_;
  std::vector<AddedToken> added_;
  Search raw_, normalized_;
  size_t longest_raw_ = 0, longest_normalized_ = 0;
  std::unordered_map<int32_t, std::string> texts_;
  std::unordered_map<int32_t, bool> special_;
  std::vector<int32_t> before_, after_;  // the marks around a text
};

}  // namespace minnow_language
