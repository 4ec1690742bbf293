// Byte-pair encoding: neighbouring tokens are merged, those of the best rank first.
#pragma once

#include "runtime/text/model.h"

namespace minnow_language {

class Bpe : public Model {
 public:
  explicit Bpe(const Part& part);
  void encode(const std::string& piece, std::vector<int32_t>* ids) const override;

 private:
  void read_merges(const Part& part);
  std::vector<int32_t> symbols(const std::string& piece) const;
  bool spell(std::string_view character, std::vector<int32_t>* ids) const;

  std::unordered_map<uint64_t, uint64_t> merges_;  // of two ids: the rank, and the id of what they become
  int32_t unknown_ = -1;
  bool whole_words_, fuses_, fallback_;
};

}  // namespace minnow_language
