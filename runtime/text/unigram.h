// Unigram, the model of T5 and XLM-RoBERTa: of all ways to split a piece into tokens, the one with the largest sum of
// scores.
#pragma once

#include <string_view>

#include "runtime/text/model.h"

namespace minnow_language {

class Unigram : public Model {
 public:
  explicit Unigram(const Part& part);
  void encode(const std::string& piece, std::vector<int32_t>* ids) const override;

 private:
  // A way to a place in the piece: the sum of its scores, where its last token begins, and whether that is unknown.
  struct Way {
    double total = 0;
    size_t start = 0;
    bool known = false, unknown = false;
  };
  std::vector<Way> ways(const std::string& piece) const;

  std::vector<double> scores_;                                // by id
  std::vector<std::pair<std::string_view, int32_t>> sorted_;  // the tokens, which are those of the vocabulary
  double least_ = 0;                                          // the score of a character that no token begins with
  int32_t unknown_ = -1;
  std::vector<int32_t> bytes_;  // the tokens of all bytes, or none
};

}  // namespace minnow_language
