#include "runtime/text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "runtime/text/utf8.h"

namespace minnow_language {
namespace {

constexpr size_t kLongest = 1 << 16;
constexpr uint32_t kSteps = 20'000'000;  // of backtracking in one search, and kilobytes of its memory:
constexpr uint32_t kKilobytes = 1 << 16;

// The files are written for Oniguruma, where some escapes mean something else: the members of their sets.
std::string members_of(char escape) {
  if (escape == 'h') return "0-9a-fA-F";
  if (escape == 's')  // White_Space, which U+180E is no longer
    return R"(\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
  if (escape == 'w')  // letters and what counts as such, marks, digits, connectors
    return R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
  return "";
}

std::string translated(const std::string& source, const std::string& where) {
  std::string made;
  bool in_set = false;
  for (size_t i = 0; i < source.size(); ++i) {
    const char c = source[i];
    if (c == '\\' && i + 1 < source.size()) {
      const char escape = source[++i];
      const bool negated = escape == 'S' || escape == 'W';
      const std::string members = members_of(negated ? static_cast<char>(escape - 'A' + 'a') : escape);
      if (members.empty())
        (made += c) += escape;
      else if (!in_set)
        made += (negated ? "[^" : "[") + members + ']';
      else if (negated)
        unsupported(where + ": \\" + escape + " within a set is not supported in regular expressions");
      else
        made += members;
      continue;
    }
    const bool names = in_set && c == '[' && i + 1 < source.size() && source[i + 1] == ':';
    if ((in_set && c == '[' && !names) || (in_set && c == '&' && i + 1 < source.size() && source[i + 1] == '&'))
      unsupported(where + ": sets within sets are not supported in regular expressions");
    if (names) {
      const size_t end = source.find(":]", i);
      if (end == std::string::npos) damaged(where + ": the regular expression cannot be read");
      made += source.substr(i, end + 2 - i);
      i = end + 1;
      continue;
    }
    if (c == '[') in_set = true;
    if (c == ']') in_set = false;
    made += c;
  }
  return made;
}

}  // namespace

Pattern Pattern::literal(const std::string& text) {
  Pattern made;
  made.source_ = text;
  return made;
}

Pattern Pattern::expression(const std::string& source, const std::string& where) {
  if (source.size() > kLongest) damaged(where + ": the regular expression is too long");
  Pattern made = literal(source);
  made.where_ = where;
  const std::string own = translated(source, where);
  std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  size_t place = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(own.data()), own.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &place, context.get());
  if (!code) {
    PCRE2_UCHAR message[200] = {};
    pcre2_get_error_message(error, message, sizeof message);
    damaged(where + ": the regular expression cannot be read: " + reinterpret_cast<char*>(message) + " at " +
            std::to_string(place));
  }
  made.code_ = std::shared_ptr<void>(code, [](void* p) { pcre2_code_free(static_cast<pcre2_code*>(p)); });
  return made;
}

Pattern Pattern::read(const Part& part) {
  const Part pattern = part.part("pattern");
  return pattern.has("Regex") ? expression(pattern.text("Regex"), pattern.where()) : literal(pattern.text("String"));
}

std::vector<Span> Pattern::spans(std::string_view text) const {
  std::vector<Span> found;
  if (!code_) {
    if (source_.empty()) return found;
    for (size_t at = 0; (at = text.find(source_, at)) != std::string_view::npos; at += source_.size())
      found.emplace_back(at, at + source_.size());
    return found;
  }
  auto* code = static_cast<pcre2_code*>(code_.get());
  std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
      pcre2_match_data_create_from_pattern(code, nullptr), pcre2_match_data_free);
  std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> context(pcre2_match_context_create(nullptr),
                                                                                    pcre2_match_context_free);
  if (!data || !context) throw std::bad_alloc();
  pcre2_set_match_limit(context.get(), kSteps);
  pcre2_set_heap_limit(context.get(), kKilobytes);
  size_t at = 0;
  while (at <= text.size()) {
    const int result = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at, PCRE2_NO_UTF_CHECK,
                                   data.get(), context.get());
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) unsupported(where_ + ": a regular expression takes too long for this text");
    const size_t* place = pcre2_get_ovector_pointer(data.get());
    size_t begin = place[0], end = place[1];
    if (begin > end || begin < at) break;  // of \K in a lookaround
    if (begin < end) found.emplace_back(begin, end);
    at = begin < end ? end : end + (end < text.size() ? character_size(text.substr(end)) : 1);
  }
  return found;
}

std::string Pattern::replaced(const std::string& text, const std::string& by) const {
  std::string made;
  size_t at = 0;
  for (auto [begin, end] : spans(text)) {
    made.append(text, at, begin - at).append(by);
    at = end;
  }
  return made.append(text, at, std::string::npos);
}

}  // namespace minnow_language
