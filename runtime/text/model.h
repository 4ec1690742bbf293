// What turns a piece of text into tokens: BPE, Unigram, WordPiece.
#pragma once

#include <unordered_map>

#include "runtime/text/json_part.h"

namespace minnow_language {

class Model {
 public:
  explicit Model(std::unordered_map<std::string, int32_t> vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~Model() = default;
  // Appends the tokens of a piece.
  virtual void encode(const std::string& piece, std::vector<int32_t>* ids) const = 0;
  const std::unordered_map<std::string, int32_t>& vocabulary() const { return vocabulary_; }

 protected:
  // The token that stands for a byte, <0x0A>; -1: there is none.
  int32_t byte_token(unsigned char byte) const;
  // The id of a token that the file names.
  int32_t named(const Part& part, const char* key, const std::string& token) const;

  std::unordered_map<std::string, int32_t> vocabulary_;
};
std::unique_ptr<Model> read_model(const Part& part);

}  // namespace minnow_language
