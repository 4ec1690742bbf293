#include "runtime/text/tokenizer.h"

#include <sys/stat.h>

#include <algorithm>

#include "runtime/text/utf8.h"

namespace minnow_language {
namespace {

constexpr size_t kLargest = 1 << 28;

std::string file_of(const std::string& path) {
  struct stat state;
  return stat(path.c_str(), &state) == 0 && S_ISDIR(state.st_mode) ? path + "/tokenizer.json" : path;
}

bool word_before(const std::string& text, size_t at) {
  size_t begin = at;
  while (begin > 0 && (static_cast<unsigned char>(text[--begin]) & 0xC0) == 0x80) {
  }
  return begin < at && is_word(std::string_view(text).substr(begin, at - begin));
}

size_t space_before(const std::string& text, size_t at) {
  size_t begin = at;
  while (begin > 0 && (static_cast<unsigned char>(text[--begin]) & 0xC0) == 0x80) {
  }
  return begin < at && is_space(std::string_view(text).substr(begin, at - begin)) ? at - begin : 0;
}

size_t space_after(const std::string& text, size_t at) {
  const std::string_view rest = std::string_view(text).substr(at);
  const size_t size = character_size(rest);
  return size && is_space(rest.substr(0, size)) ? size : 0;
}

}  // namespace

Tokenizer::Tokenizer(const std::string& path) : where_(file_of(path)) {
  const Part root = Part::of_file(where_, kLargest);
  if (root.has("normalizer")) normalize_ = read_normalizer(root.part("normalizer"));
  if (root.has("pre_tokenizer")) split_ = read_pretokenizer(root.part("pre_tokenizer"));
  decoder_ = root.has("decoder") ? read_decoder(root.part("decoder")) : no_decoder();
  model_ = read_model(root.part("model"));
  if (root.has("post_processor")) read_marks(root.part("post_processor"));
  for (const auto& [token, id] : model_->vocabulary()) texts_[id] = token;
  read_added(root);
}

void Tokenizer::read_added(const Part& root) {
  if (!root.has("added_tokens")) return;
  for (const Part& part : root.parts("added_tokens")) {
    const bool special = part.flag("special", false);
    added_.push_back({part.number("id"), part.text("content"), special, part.flag("lstrip", false),
                      part.flag("rstrip", false), part.flag("single_word", false), part.flag("normalized", !special)});
  }
  for (const AddedToken& token : added_) {
    texts_[token.id] = token.text;
    if (token.special) special_[token.id] = true;
    const std::string text = token.normalized && normalize_ ? normalize_(token.text) : token.text;
    if (text.empty()) continue;
    (token.normalized ? normalized_ : raw_).emplace(text, &token);
    size_t& longest = token.normalized ? longest_normalized_ : longest_raw_;
    longest = std::max(longest, text.size());
  }
}

void Tokenizer::read_marks(const Part& part) {
  const std::string type = part.text("type");
  if (type == "ByteLevel") return;
  if (type == "Sequence") {
    for (const Part& step : part.parts("processors")) read_marks(step);
    return;
  }
  if (!before_.empty() || !after_.empty()) part.fail("two post-processors put tokens around the same text");
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    before_ = {part.token("cls")};
    after_ = {part.token("sep")};
    return;
  }
  if (type != "TemplateProcessing")
    unsupported(part.where() + ": the post-processor '" + type.substr(0, 80) + "' is not supported");
  bool seen = false;
  for (const Part& piece : part.parts("single")) {
    if (piece.has("Sequence")) {
      if (seen) unsupported(part.where() + ": a template with the text twice is not supported");
      seen = true;
      continue;
    }
    const std::string name = piece.part("SpecialToken").text("id");
    const std::vector<int32_t> ids = part.part("special_tokens").part(name.c_str()).ids("ids");
    std::vector<int32_t>& marks = seen ? after_ : before_;
    marks.insert(marks.end(), ids.begin(), ids.end());
  }
}

// The parts of a text: the id of an added token, or -1.
std::vector<std::pair<std::string, int32_t>> Tokenizer::split(const std::string& text, const Search& search,
                                                              size_t longest, bool parse) const {
  std::vector<std::pair<std::string, int32_t>> parts;
  if (search.empty()) {
    if (!text.empty()) parts.emplace_back(text, -1);
    return parts;
  }
  bool begins[256] = {};
  for (const auto& entry : search) begins[static_cast<unsigned char>(entry.first[0])] = true;
  size_t before = 0, at = 0;
  while (at < text.size()) {
    const AddedToken* found = nullptr;
    size_t size = 0;
    if (begins[static_cast<unsigned char>(text[at])])
      for (size_t n = std::min(longest, text.size() - at); n > 0 && !found; --n) {
        auto entry = search.find(text.substr(at, n));
        if (entry != search.end()) found = entry->second, size = n;
      }
    if (!found) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + size;
    at = end;
    if (found->special && !parse) continue;
    const std::string_view rest = std::string_view(text).substr(end);
    const size_t next = character_size(rest);
    if (found->single_word && (word_before(text, begin) || (next && is_word(rest.substr(0, next))))) continue;
    for (size_t n; found->lstrip && begin > before && (n = space_before(text, begin)) != 0 && begin - n >= before;)
      begin -= n;
    for (size_t n; found->rstrip && (n = space_after(text, end)) != 0;) end += n;
    if (begin < before) continue;  // what a token before it has taken
    if (before < begin) parts.emplace_back(text.substr(before, begin - before), -1);
    parts.emplace_back(text.substr(begin, end - begin), found->id);
    before = end;
    at = std::max(at, end);
  }
  if (before < text.size()) parts.emplace_back(text.substr(before), -1);
  return parts;
}

std::vector<int32_t> Tokenizer::encode(const std::string& text, bool marks, bool parse) const {
  std::vector<int32_t> ids;
  if (marks) ids = before_;
  bool begins = true;
  for (const auto& [raw, id] : split(text, raw_, longest_raw_, parse)) {
    if (id >= 0) {
      ids.push_back(id);
    } else {
      bool first = begins;
      for (const auto& [part, inner] :
           split(normalize_ ? normalize_(raw) : raw, normalized_, longest_normalized_, parse)) {
        if (inner >= 0) {
          ids.push_back(inner);
        } else {
          std::vector<Piece> pieces = {{part, first}};
          if (split_) pieces = split_(std::move(pieces));
          for (const Piece& piece : pieces) model_->encode(piece.text, &ids);
        }
        first = false;
      }
    }
    begins = false;
  }
  if (marks) ids.insert(ids.end(), after_.begin(), after_.end());
  return ids;
}

Tokens Tokenizer::shown(const int32_t* ids, size_t count) const {
  Tokens found;
  for (size_t i = 0; i < count; ++i) {
    auto text = texts_.find(ids[i]);
    if (text != texts_.end() && !special_.count(ids[i])) found.push_back(text->second);
  }
  return found;
}

std::string Tokenizer::decode(const int32_t* ids, size_t count) const {
  Chain chain(decoder_, false);
  std::string text = chain.push(shown(ids, count));
  return text + chain.finish();
}

}  // namespace minnow_language
