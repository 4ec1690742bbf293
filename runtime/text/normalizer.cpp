#include "runtime/text/normalizer.h"

#include "runtime/text/charsmap.h"
#include "runtime/text/pattern.h"
#include "runtime/text/pretokenizer.h"
#include "runtime/text/utf8.h"

namespace minnow_language {
namespace {

Normalizer prepend(const Part& part) {
  return [prefix = part.text("prepend")](const std::string& text) { return text.empty() ? text : prefix + text; };
}

Normalizer replace(const Part& part) {
  return [pattern = Pattern::read(part), by = part.text("content")](const std::string& text) {
    return pattern.replaced(text, by);
  };
}

Normalizer form(const Part& part) {
  return [name = part.text("type")](const std::string& text) { return normalized(text, name); };
}

// The text without the characters that a function names.
template <class Drop>
std::string without(const std::string& text, Drop&& drop) {
  std::string made;
  for (std::string_view c : characters(text))
    if (!drop(c)) made += c;
  return made;
}

Normalizer lowercase(const Part&) { return lowered; }

Normalizer strip_accents(const Part&) {
  return [](const std::string& text) { return without(text, is_mark); };
}

Normalizer strip(const Part& part) {
  return [left = part.flag("strip_left", true), right = part.flag("strip_right", true)](const std::string& text) {
    const std::vector<std::string_view> all = characters(text);
    size_t begin = 0, end = all.size();
    while (left && begin < end && is_space(all[begin])) ++begin;
    while (right && end > begin && is_space(all[end - 1])) --end;
    std::string made;
    for (; begin < end; ++begin) made += all[begin];
    return made;
  };
}

Normalizer precompiled(const Part& part) { return Charsmap(part.text("precompiled_charsmap"), part.where()); }

Normalizer byte_level(const Part&) { return to_alphabet; }

bool is_ideograph(std::string_view character) {
  struct Range {
    const char *first, *last;  // UTF-8 has the order of the characters
  };
  static constexpr Range kRanges[] = {{"\u3400", "\u4DBF"},         {"\u4E00", "\u9FFF"},
                                      {"\uF900", "\uFAFF"},         {"\U00020000", "\U0002A6DF"},
                                      {"\U0002A700", "\U0002B73F"}, {"\U0002B740", "\U0002B81F"},
                                      {"\U0002B920", "\U0002CEAF"}, {"\U0002F800", "\U0002FA1F"}};
  for (const Range& range : kRanges)
    if (character >= range.first && character <= range.last) return true;
  return false;
}

Normalizer bert(const Part& part) {
  const bool clean = part.flag("clean_text", true), ideographs = part.flag("handle_chinese_chars", true);
  const bool lower = part.flag("lowercase", true), strip = part.flag("strip_accents", lower);
  return [=](const std::string& text) {
    std::string made;
    for (std::string_view c : characters(text)) {
      const bool space = c == "\t" || c == "\n" || c == "\r";
      if (clean && (c == kReplacement || (!space && is_other(c)))) continue;
      if (clean && is_space(c))
        made += ' ';
      else if (ideographs && is_ideograph(c))
        (made += ' ').append(c) += ' ';
      else
        made += c;
    }
    if (strip) made = without(normalized(made, "NFD"), is_nonspacing_mark);
    return lower ? lowered(made) : made;
  };
}

Normalizer sequence(const Part& part) {
  std::vector<Normalizer> steps;
  for (const Part& step : part.parts("normalizers")) steps.push_back(read_normalizer(step));
  return [steps](const std::string& text) {
    std::string made = text;
    for (const Normalizer& step : steps) made = step(made);
    return made;
  };
}

}  // namespace

Normalizer read_normalizer(const Part& part) {
  static const std::map<std::string, std::function<Normalizer(const Part&)>> kinds = {{"Prepend", prepend},
                                                                                      {"Replace", replace},
                                                                                      {"Sequence", sequence},
                                                                                      {"NFC", form},
                                                                                      {"NFD", form},
                                                                                      {"NFKC", form},
                                                                                      {"NFKD", form},
                                                                                      {"Lowercase", lowercase},
                                                                                      {"StripAccents", strip_accents},
                                                                                      {"Strip", strip},
                                                                                      {"Precompiled", precompiled},
                                                                                      {"ByteLevel", byte_level},
                                                                                      {"BertNormalizer", bert}};
  return read_kind<Normalizer>(part, "normalizer", kinds);
}

}  // namespace minnow_language
