// WordPiece, the model of BERT: from the left, the longest token each time.
#pragma once

#include "runtime/text/model.h"

namespace minnow_language {

class WordPiece : public Model {
 public:
  explicit WordPiece(const Part& part);
  // A word with a part that is no token is one unknown token.
  void encode(const std::string& piece, std::vector<int32_t>* ids) const override;

 private:
  std::string prefix_;
  size_t most_, longest_ = 0;  // characters of a word, bytes of a token
  int32_t unknown_;
};

}  // namespace minnow_language
