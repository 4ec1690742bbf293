#include "runtime/text/pretokenizer.h"

#include <array>
#include <unordered_map>

#include "runtime/text/pattern.h"
#include "runtime/text/utf8.h"

namespace minnow_language {
namespace {

constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct Run {
  size_t begin, end;
  bool matched;
};

std::vector<Run> runs_of(size_t size, const std::vector<Span>& spans, bool invert) {
  std::vector<Run> runs;
  size_t at = 0;
  for (auto [begin, end] : spans) {
    if (at < begin) runs.push_back({at, begin, invert});
    runs.push_back({begin, end, !invert});
    at = end;
  }
  if (at < size) runs.push_back({at, size, invert});
  return runs;
}

// What becomes of the matches: see the names in tokenizer.json.
std::vector<Span> cut(size_t size, const std::vector<Span>& spans, const std::string& behavior, bool invert) {
  const std::vector<Run> runs = runs_of(size, spans, invert);
  std::vector<Span> parts;
  bool before = false;
  if (behavior == "MergedWithNext") {
    for (size_t i = runs.size(); i-- > 0;) {
      const Run& run = runs[i];
      if (run.matched && !before && !parts.empty())
        parts.back().first = run.begin;
      else
        parts.emplace_back(run.begin, run.end);
      before = run.matched;
    }
    return {parts.rbegin(), parts.rend()};
  }
  for (const Run& run : runs) {
    const bool joins = behavior == "Contiguous"
                           ? !parts.empty() && run.matched == before
                           : behavior == "MergedWithPrevious" && run.matched && !before && !parts.empty();
    if (behavior == "Removed" && run.matched) continue;
    if (joins)
      parts.back().second = run.end;
    else
      parts.emplace_back(run.begin, run.end);
    before = run.matched;
  }
  return parts;
}

void append(const Piece& piece, const std::vector<Span>& spans, std::vector<Piece>* made) {
  for (auto [begin, end] : spans) made->push_back({piece.text.substr(begin, end - begin), piece.first && begin == 0});
}

PreTokenizer splitter(Pattern pattern, std::string behavior, bool invert = false) {
  return [pattern, behavior, invert](std::vector<Piece> pieces) {
    std::vector<Piece> made;
    for (const Piece& piece : pieces)
      append(piece, cut(piece.text.size(), pattern.spans(piece.text), behavior, invert), &made);
    return made;
  };
}

std::string behavior_of(const Part& part, const char* otherwise) {
  const std::string found = otherwise ? part.text("behavior", otherwise) : part.text("behavior");
  for (const char* known : {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"})
    if (found == known) return found;
  part.fail("'behavior' is unknown");
}

PreTokenizer split(const Part& part) {
  const Pattern pattern = Pattern::read(part);
  const std::string behavior = behavior_of(part, nullptr);
  if (pattern.is_literal() && pattern.source().empty()) return [](std::vector<Piece> pieces) { return pieces; };
  return splitter(pattern, behavior, part.flag("invert", false));
}

PreTokenizer digits(const Part& part) {
  const bool single = part.flag("individual_digits", false);
  return splitter(Pattern::expression(single ? R"(\p{N})" : R"(\p{N}+)", part.where()), "Isolated");
}

PreTokenizer delimiter(const Part& part) {
  return splitter(Pattern::literal(part.character("delimiter", "")), "Removed");
}

// Where single characters of a kind are.
PreTokenizer at(bool (*belongs)(std::string_view), std::string behavior) {
  return [belongs, behavior](std::vector<Piece> pieces) {
    std::vector<Piece> made;
    for (const Piece& piece : pieces) {
      std::vector<Span> spans;
      size_t begin = 0;
      for (std::string_view c : characters(piece.text)) {
        if (belongs(c)) spans.emplace_back(begin, begin + c.size());
        begin += c.size();
      }
      append(piece, cut(piece.text.size(), spans, behavior, false), &made);
    }
    return made;
  };
}

PreTokenizer punctuation(const Part& part) { return at(is_punctuation, behavior_of(part, "Isolated")); }

PreTokenizer at_spaces(const Part&) { return at(is_space, "Removed"); }

PreTokenizer words(const Part& part) {
  return splitter(Pattern::expression(R"(\w+|[^\w\s]+)", part.where()), "Removed", true);
}

PreTokenizer bert(const Part&) {
  return [spaces = at(is_space, "Removed"), marks = at(is_punctuation, "Isolated")](std::vector<Piece> pieces) {
    return marks(spaces(std::move(pieces)));
  };
}

PreTokenizer byte_level(const Part& part) {
  const bool prefix = part.flag("add_prefix_space", true);
  PreTokenizer words;
  if (part.flag("use_regex", true)) words = splitter(Pattern::expression(kGpt2, part.where()), "Isolated");
  return [prefix, words](std::vector<Piece> pieces) {
    for (Piece& piece : pieces)
      if (prefix && piece.text.compare(0, 1, " ") != 0) piece.text.insert(0, " ");
    if (words) pieces = words(std::move(pieces));
    for (Piece& piece : pieces) piece.text = to_alphabet(piece.text);
    return pieces;
  };
}

PreTokenizer metaspace(const Part& part) {
  const std::string mark = part.character("replacement", kMark), scheme = prepend_scheme(part);
  const bool splits = part.flag("split", true);
  const PreTokenizer at_marks = splitter(Pattern::literal(mark), "MergedWithNext");
  return [=](std::vector<Piece> pieces) {
    for (Piece& piece : pieces) {
      piece.text = Pattern::literal(" ").replaced(piece.text, mark);
      if (piece.text.compare(0, mark.size(), mark) != 0 && (scheme == "always" || (scheme == "first" && piece.first)))
        piece.text.insert(0, mark);
    }
    return splits ? at_marks(std::move(pieces)) : pieces;
  };
}

PreTokenizer sequence(const Part& part) {
  std::vector<PreTokenizer> steps;
  for (const Part& step : part.parts("pretokenizers")) steps.push_back(read_pretokenizer(step));
  return [steps](std::vector<Piece> pieces) {
    for (const PreTokenizer& step : steps) pieces = step(std::move(pieces));
    return pieces;
  };
}

struct Alphabet {
  std::array<std::string, 256> characters;
  std::unordered_map<std::string, char> bytes;
  Alphabet() {
    unsigned next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool seen = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
      const unsigned code = seen ? byte : next++;
      std::string& c = characters[byte];
      if (code < 0x80)
        c = static_cast<char>(code);
      else
        c = {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
      bytes[c] = static_cast<char>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet made;
  return made;
}

}  // namespace

std::string to_alphabet(const std::string& text) {
  std::string made;
  for (const char c : text) made += alphabet().characters[static_cast<unsigned char>(c)];
  return made;
}

std::string from_alphabet(const std::string& token) {
  std::string made;
  for (std::string_view c : characters(token)) {
    auto found = alphabet().bytes.find(std::string(c));
    if (found == alphabet().bytes.end()) return token;
    made += found->second;
  }
  return made;
}

std::string prepend_scheme(const Part& part) {
  const bool never = part.has("add_prefix_space") && !part.flag("add_prefix_space", true);
  const std::string found = part.text("prepend_scheme", never ? "never" : "always");
  if (found != "always" && found != "first" && found != "never") part.fail("'prepend_scheme' is unknown");
  return found;
}

PreTokenizer read_pretokenizer(const Part& part) {
  static const std::map<std::string, std::function<PreTokenizer(const Part&)>> kinds = {
      {"Split", split},
      {"Digits", digits},
      {"Punctuation", punctuation},
      {"ByteLevel", byte_level},
      {"Metaspace", metaspace},
      {"Sequence", sequence},
      {"CharDelimiterSplit", delimiter},
      {"WhitespaceSplit", at_spaces},
      {"Whitespace", words},
      {"BertPreTokenizer", bert}};
  return read_kind<PreTokenizer>(part, "pre-tokenizer", kinds);
}

}  // namespace minnow_language
