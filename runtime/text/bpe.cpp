#include "runtime/text/bpe.h"

#include <queue>

#include "runtime/text/utf8.h"

namespace minnow_language {
namespace {

uint64_t pair_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

Bpe::Bpe(const Part& part)
    : Model(part.vocabulary("vocab")),
      whole_words_(part.flag("ignore_merges", false)),
      fuses_(part.flag("fuse_unk", false)),
      fallback_(part.flag("byte_fallback", false)) {
  if (!part.text("continuing_subword_prefix", "").empty() || !part.text("end_of_word_suffix", "").empty())
    unsupported(part.where() + ": marks within words are not supported");
  read_merges(part);
  if (part.has("unk_token")) unknown_ = named(part, "unk_token", part.text("unk_token"));
}

void Bpe::read_merges(const Part& part) {
  auto id = [&](const std::string& token) {
    auto found = vocabulary_.find(token);
    if (found == vocabulary_.end()) part.fail("a merge has a token that is not in the vocabulary");
    return found->second;
  };
  uint64_t rank = 0;
  for (const auto& [left, right] : part.pairs("merges"))
    merges_[pair_of(id(left), id(right))] = rank++ << 32 | static_cast<uint32_t>(id(left + right));
}

bool Bpe::spell(std::string_view character, std::vector<int32_t>* ids) const {
  const size_t before = ids->size();
  for (const char c : character) {
    ids->push_back(byte_token(static_cast<unsigned char>(c)));
    if (ids->back() >= 0) continue;
    ids->resize(before);
    return false;
  }
  return true;
}

// The tokens that merging begins with: characters, bytes, or the unknown token.
std::vector<int32_t> Bpe::symbols(const std::string& piece) const {
  std::vector<int32_t> ids;
  bool pending = false;
  for (std::string_view c : characters(piece)) {
    auto found = vocabulary_.find(std::string(c));
    if (found != vocabulary_.end()) {
      if (pending) ids.push_back(unknown_);
      pending = false;
      ids.push_back(found->second);
      continue;
    }
    if (fallback_ && spell(c, &ids)) continue;
    if (unknown_ < 0) continue;
    if (pending && !fuses_) ids.push_back(unknown_);
    pending = true;
  }
  if (pending) ids.push_back(unknown_);
  return ids;
}

void Bpe::encode(const std::string& piece, std::vector<int32_t>* ids) const {
  if (whole_words_) {
    auto found = vocabulary_.find(piece);
    if (found != vocabulary_.end()) return ids->push_back(found->second);
  }
  // A linked list of tokens, where -1 is one that is gone, and a heap of pairs.
  std::vector<int32_t> list = symbols(piece);
  const size_t count = list.size();
  std::vector<size_t> after(count), before(count);
  std::priority_queue<std::pair<uint64_t, size_t>, std::vector<std::pair<uint64_t, size_t>>, std::greater<>> heap;
  auto push = [&](size_t i, size_t j) {
    auto found = merges_.find(pair_of(list[i], list[j]));
    if (found != merges_.end()) heap.emplace(found->second, i);
  };
  for (size_t i = 0; i < count; ++i) {
    after[i] = i + 1, before[i] = i - 1;  // of the first one: the largest number
    if (i + 1 < count) push(i, i + 1);
  }
  while (!heap.empty()) {
    const auto [merge, i] = heap.top();
    heap.pop();
    const size_t j = after[i];
    if (list[i] < 0 || j >= count) continue;
    auto found = merges_.find(pair_of(list[i], list[j]));
    if (found == merges_.end() || found->second != merge) continue;
    list[i] = static_cast<int32_t>(merge & 0xFFFFFFFF);
    list[j] = -1;
    after[i] = after[j];
    if (after[j] < count) {
      before[after[j]] = i;
      push(i, after[i]);
    }
    if (before[i] < count) push(before[i], i);
  }
  for (const int32_t id : list)
    if (id >= 0) ids->push_back(id);
}

}  // namespace minnow_language
