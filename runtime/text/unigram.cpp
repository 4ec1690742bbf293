#include "runtime/text/unigram.h"

#include <algorithm>

#include "runtime/text/utf8.h"

namespace minnow_language {
namespace {

constexpr double kUnknown = 10;    // how much less than the least score an unknown character counts
constexpr size_t kLongest = 1024;  // characters of a token

std::unordered_map<std::string, int32_t> ids_of(const std::vector<std::pair<std::string, double>>& entries) {
  std::unordered_map<std::string, int32_t> found;
  for (size_t id = 0; id < entries.size(); ++id) found[entries[id].first] = static_cast<int32_t>(id);
  return found;
}

}  // namespace

Unigram::Unigram(const Part& part) : Model({}) {
  const auto entries = part.scores("vocab");
  vocabulary_ = ids_of(entries);
  for (const auto& entry : entries)
    least_ = std::min(scores_.empty() ? entry.second : least_, entry.second), scores_.push_back(entry.second);
  least_ -= kUnknown;
  if (part.has("unk_id")) unknown_ = part.number("unk_id");
  if (unknown_ >= static_cast<int32_t>(scores_.size())) part.fail("'unk_id' is not in the vocabulary");
  if (part.flag("byte_fallback", false))
    for (int byte = 0; byte < 256 && bytes_.size() == static_cast<size_t>(byte); ++byte)
      if (const int32_t id = byte_token(static_cast<unsigned char>(byte)); id >= 0) bytes_.push_back(id);
  if (bytes_.size() < 256) bytes_.clear();
  for (const auto& [token, id] : vocabulary_) {
    if (token.size() > kLongest && characters(token).size() > kLongest) part.fail("a token is too long");
    if (!token.empty()) sorted_.emplace_back(token, id);
  }
  std::sort(sorted_.begin(), sorted_.end());
}

std::vector<Unigram::Way> Unigram::ways(const std::string& piece) const {
  std::vector<Way> found(piece.size() + 1);
  auto improve = [&](size_t end, double total, size_t start, bool unknown) {
    if (!found[end].known || total > found[end].total) found[end] = {total, start, true, unknown};
  };
  for (size_t start = 0, next; start < piece.size(); start = next) {
    next = start + std::max<size_t>(character_size(std::string_view(piece).substr(start)), 1);
    const double so_far = found[start].total;
    bool single = false;
    // The tokens that begin with piece[start, end) are a part of the sorted ones, which the next byte makes smaller.
    auto first = sorted_.begin(), last = sorted_.end();
    for (size_t end = start; end < piece.size();) {
      const size_t size = end - start;
      const auto byte = static_cast<unsigned char>(piece[end++]);
      auto at = [size](const auto& token) { return static_cast<unsigned char>(token.first[size]); };
      first = std::partition_point(first, last,
                                   [&](const auto& token) { return token.first.size() <= size || at(token) < byte; });
      last = std::partition_point(first, last, [&](const auto& token) { return at(token) <= byte; });
      if (first == last) break;
      if (first->first.size() != size + 1) continue;
      improve(end, scores_[static_cast<size_t>(first->second)] + so_far, start, first->second == unknown_);
      single = single || end == next;
    }
    if (!single) improve(next, least_ + so_far, start, true);
  }
  return found;
}

void Unigram::encode(const std::string& piece, std::vector<int32_t>* ids) const {
  const std::vector<Way> best = ways(piece);
  std::vector<std::pair<size_t, size_t>> parts;  // from the last one on; unknown characters side by side are one
  bool before = false;
  for (size_t end = piece.size(); end > 0; end = best[end].start) {
    if (best[end].unknown && before)
      parts.back().first = best[end].start;
    else
      parts.emplace_back(best[end].start, end);
    before = best[end].unknown;
  }
  for (size_t i = parts.size(); i-- > 0;) {
    const std::string text = piece.substr(parts[i].first, parts[i].second - parts[i].first);
    auto found = vocabulary_.find(text);
    if (found != vocabulary_.end()) {
      ids->push_back(found->second);
    } else if (!bytes_.empty()) {
      for (const char c : text) ids->push_back(bytes_[static_cast<unsigned char>(c)]);
    } else if (unknown_ >= 0) {
      ids->push_back(unknown_);
    } else {
      damaged("a part of the text has no token, and the tokenizer has none for what is unknown");
    }
  }
}

}  // namespace minnow_language
