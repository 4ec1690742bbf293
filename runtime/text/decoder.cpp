#include "runtime/text/decoder.h"

#include "runtime/text/pattern.h"
#include "runtime/text/pretokenizer.h"
#include "runtime/text/utf8.h"

namespace minnow_language {
namespace {

using Change = std::function<std::string(const std::string&, bool first)>;

std::string joined(const Tokens& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

// Changes each token by itself.
class Each : public Stage {
 public:
  Each(Change change, bool fused) : change_(std::move(change)), fused_(fused) {}
  Tokens push(const Tokens& tokens) override {
    Tokens made;
    for (const std::string& token : tokens) {
      made.push_back(change_(token, first_));
      first_ = first_ && fused_ && token.empty();
    }
    return made;
  }
  Tokens finish() override {
    first_ = true;
    return {};
  }

 private:
  Change change_;
  bool fused_, first_ = true;
};

// Changes one text as a whole, when all of it is there.
class Held : public Stage {
 public:
  explicit Held(Change change) : change_(std::move(change)) {}
  Tokens push(const Tokens& tokens) override {
    text_ += joined(tokens);
    return {};
  }
  Tokens finish() override { return {change_(std::exchange(text_, {}), true)}; }

 private:
  Change change_;
  std::string text_;
};

class ByteLevel : public Stage {
 public:
  Tokens push(const Tokens& tokens) override {
    std::string bytes;
    for (const std::string& token : tokens) bytes += from_alphabet(token);
    return {text_.push(bytes, false)};
  }
  Tokens finish() override { return {text_.push({}, true)}; }

 private:
  Utf8Stream text_;
};

int byte_of(const std::string& token) {
  if (token.size() != 6 || token.compare(0, 3, "<0x") != 0 || token[5] != '>') return -1;
  int value = 0;
  for (const char c : {token[3], token[4]}) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

// Tokens such as <0xE2>, one after the other, become text; if they are no text, each is U+FFFD. Where the text streams,
// characters that were complete are not taken back.
class ByteFallback : public Stage {
 public:
  explicit ByteFallback(bool streams) : streams_(streams) {}
  Tokens push(const Tokens& tokens) override {
    Tokens made;
    for (const std::string& token : tokens) {
      const int byte = byte_of(token);
      if (byte < 0) {
        flush(&made);
        made.push_back(token);
        continue;
      }
      bytes_ += static_cast<char>(byte);
      if (streams_ && is_utf8(bytes_)) made.push_back(std::exchange(bytes_, {}));
    }
    return made;
  }
  Tokens finish() override {
    Tokens made;
    flush(&made);
    return made;
  }

 private:
  void flush(Tokens* made) {
    if (!bytes_.empty() && is_utf8(bytes_)) return made->push_back(std::exchange(bytes_, {}));
    for (size_t i = 0; i < bytes_.size(); ++i) made->push_back(kReplacement);
    bytes_.clear();
  }
  std::string bytes_;
  bool streams_;
};

class Fuse : public Stage {
 public:
  Tokens push(const Tokens& tokens) override { return tokens; }
};

// Leaves out up to `start` of a character at the beginning of the text, and up to `stop` at its end.
class Strip : public Stage {
 public:
  Strip(std::string content, int start, int stop)
      : content_(std::move(content)), start_(start), stop_(stop), left_(start) {}
  Tokens push(const Tokens& tokens) override {
    std::string text = kept_ + joined(tokens);
    size_t begin = 0;
    while (left_ && begin < text.size()) {
      if (text.compare(begin, content_.size(), content_) != 0) {
        left_ = 0;
        break;
      }
      begin += content_.size();
      --left_;
    }
    size_t end = text.size();
    for (int i = 0; i < stop_ && end >= begin + content_.size() &&
                    text.compare(end - content_.size(), content_.size(), content_) == 0;
         ++i)
      end -= content_.size();
    kept_ = text.substr(end);
    return {text.substr(begin, end - begin)};
  }
  Tokens finish() override {
    left_ = start_;
    kept_.clear();
    return {};
  }

 private:
  std::string content_, kept_;
  int start_, stop_, left_;
};

// No decoder: a space between tokens.
class Words : public Stage {
 public:
  Tokens push(const Tokens& tokens) override {
    Tokens made;
    for (const std::string& token : tokens) {
      made.push_back(first_ ? token : " " + token);
      first_ = false;
    }
    return made;
  }
  Tokens finish() override {
    first_ = true;
    return {};
  }

 private:
  bool first_ = true;
};

template <class S>
std::vector<Maker> plain(bool fuses) {
  return {{[](bool, bool) { return std::make_unique<S>(); }, fuses}};
}

std::vector<Maker> changed(Change change, bool holds) {
  return {{[=](bool fused, bool) -> std::unique_ptr<Stage> {
             if (fused && holds) return std::make_unique<Held>(change);
             return std::make_unique<Each>(change, fused);
           },
           false}};
}

std::vector<Maker> byte_level(const Part&) { return plain<ByteLevel>(true); }

std::vector<Maker> byte_fallback(const Part&) {
  const Change alone = [](const std::string& text, bool) {
    ByteFallback stage(false);
    return joined(stage.push({text})) + joined(stage.finish());
  };
  return {{[=](bool fused, bool streams) -> std::unique_ptr<Stage> {
             if (fused) return std::make_unique<Held>(alone);
             return std::make_unique<ByteFallback>(streams);
           },
           false}};
}

std::vector<Maker> fuse(const Part&) { return plain<Fuse>(true); }

std::vector<Maker> strip(const Part& part) {
  const std::string content = part.character("content", " ");
  const int start = part.number("start", 0), stop = part.number("stop", 0);
  return {{[=](bool fused, bool) -> std::unique_ptr<Stage> {
             if (fused) return std::make_unique<Strip>(content, start, stop);
             return std::make_unique<Each>(
                 [=](const std::string& token, bool) {
                   Strip one(content, start, stop);
                   return joined(one.push({token}));
                 },
                 false);
           },
           true}};
}

std::vector<Maker> replace(const Part& part) {
  const Pattern pattern = Pattern::read(part);
  const bool by_character = pattern.is_literal() && characters(pattern.source()).size() == 1;
  return changed(
      [pattern, by = part.text("content")](const std::string& token, bool) { return pattern.replaced(token, by); },
      !by_character);
}

std::vector<Maker> metaspace(const Part& part) {
  const Pattern mark = Pattern::literal(part.character("replacement", kMark));
  const bool drops = prepend_scheme(part) != "never";
  return changed([=](const std::string& token, bool first) { return mark.replaced(token, first && drops ? "" : " "); },
                 true);
}

std::vector<Maker> wordpiece(const Part& part) {
  static const std::vector<std::pair<Pattern, std::string>> contractions = [] {
    std::vector<std::pair<Pattern, std::string>> made;
    for (const auto& [was, becomes] : std::vector<std::pair<std::string, std::string>>{{" .", "."},
                                                                                       {" ?", "?"},
                                                                                       {" !", "!"},
                                                                                       {" ,", ","},
                                                                                       {" ' ", "'"},
                                                                                       {" n't", "n't"},
                                                                                       {" 'm", "'m"},
                                                                                       {" do not", " don't"},
                                                                                       {" 's", "'s"},
                                                                                       {" 've", "'ve"},
                                                                                       {" 're", "'re"}})
      made.emplace_back(Pattern::literal(was), becomes);
    return made;
  }();
  return changed(
      [prefix = part.text("prefix", "##"), cleans = part.flag("cleanup", true)](const std::string& token, bool first) {
        std::string text = first                                          ? token
                           : token.compare(0, prefix.size(), prefix) == 0 ? token.substr(prefix.size())
                                                                          : " " + token;
        if (cleans)
          for (const auto& [was, becomes] : contractions) text = was.replaced(text, becomes);
        return text;
      },
      true);
}

std::vector<Maker> sequence(const Part& part) {
  std::vector<Maker> all;
  for (const Part& step : part.parts("decoders"))
    for (Maker& maker : read_decoder(step)) all.push_back(std::move(maker));
  return all;
}

}  // namespace

std::vector<Maker> no_decoder() { return plain<Words>(true); }

std::vector<Maker> read_decoder(const Part& part) {
  static const std::map<std::string, std::function<std::vector<Maker>(const Part&)>> kinds = {
      {"ByteLevel", byte_level}, {"ByteFallback", byte_fallback}, {"Fuse", fuse},         {"Strip", strip},
      {"Replace", replace},      {"Metaspace", metaspace},        {"Sequence", sequence}, {"WordPiece", wordpiece}};
  return read_kind<std::vector<Maker>>(part, "decoder", kinds);
}

Chain::Chain(const std::vector<Maker>& makers, bool streams) {
  bool fused = false;
  for (const Maker& maker : makers) {
    stages_.push_back(maker.make(fused, streams));
    fused = fused || maker.fuses;
  }
}

std::string Chain::push(const Tokens& tokens) {
  Tokens made = tokens;
  for (auto& stage : stages_) made = stage->push(made);
  return joined(made);
}

std::string Chain::finish() {
  Tokens made;
  for (auto& stage : stages_) {
    made = stage->push(made);
    for (std::string& token : stage->finish()) made.push_back(std::move(token));
  }
  return joined(made);
}

}  // namespace minnow_language
