#include "runtime/text/model.h"

#include "runtime/text/bpe.h"
#include "runtime/text/unigram.h"
#include "runtime/text/wordpiece.h"

namespace minnow_language {
namespace {

template <class M>
std::unique_ptr<Model> made(const Part& part) {
  return std::make_unique<M>(part);
}

}  // namespace

int32_t Model::byte_token(unsigned char byte) const {
  constexpr const char* kDigits = "0123456789ABCDEF";
  auto found = vocabulary_.find(std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + '>');
  return found == vocabulary_.end() ? -1 : found->second;
}

int32_t Model::named(const Part& part, const char* key, const std::string& token) const {
  auto found = vocabulary_.find(token);
  if (found == vocabulary_.end()) part.fail(std::string("'") + key + "' is not in the vocabulary");
  return found->second;
}

std::unique_ptr<Model> read_model(const Part& part) {
  static const std::map<std::string, std::function<std::unique_ptr<Model>(const Part&)>> kinds = {
      {"BPE", made<Bpe>}, {"Unigram", made<Unigram>}, {"WordPiece", made<WordPiece>}};
  if (!part.has("type")) return part.has("merges") ? made<Bpe>(part) : made<WordPiece>(part);  // as in old files
  return read_kind<std::unique_ptr<Model>>(part, "model", kinds);
}

}  // namespace minnow_language
