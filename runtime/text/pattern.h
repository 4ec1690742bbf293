// Regular expressions of a tokenizer.json, and texts that are searched as they are.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/text/json_part.h"

namespace minnow_language {

using Span = std::pair<size_t, size_t>;  // begin and end

class Pattern {
 public:
  static Pattern read(const Part& part);  // {"String": text} or {"Regex": expression}, under "pattern"
  static Pattern expression(const std::string& source, const std::string& where);
  static Pattern literal(const std::string& text);

  // Where the matches in a text begin and end. An expression that takes too long is an error.
  std::vector<Span> spans(std::string_view text) const;
  std::string replaced(const std::string& text, const std::string& by) const;
  bool is_literal() const { return !code_; }
  const std::string& source() const { return source_; }

 private:
  std::string source_, where_;
  std::shared_ptr<void> code_;
};

}  // namespace minnow_language
