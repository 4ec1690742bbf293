// Byte-pair encoding: neighbouring tokens are merged, those of the best rank first.
#pragma once

#include <unordered_map>

#include "runtime/text/json_part.h"

namespace minnow_language {

class Bpe {
 public:
  explicit Bpe(const Part& part);
  // Appends the tokens of a piece.
  void encode(const std::string& piece, std::vector<int32_t>* ids) const;
  const std::unordered_map<std::string, int32_t>& vocabulary() const { return vocabulary_; }

 private:
  void read_merges(const Part& part);
  std::vector<int32_t> symbols(const std::string& piece) const;
  bool spell(std::string_view character, std::vector<int32_t>* ids) const;

  std::unordered_map<std::string, int32_t> vocabulary_;
  std::unordered_map<uint64_t, uint64_t> merges_;  // of two ids: the rank, and the id of what they become
  int32_t unknown_ = -1;
  bool whole_words_, fuses_, fallback_;
};

}  // namespace minnow_language
