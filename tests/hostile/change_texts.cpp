// Reads files of tokenizers and language models that were changed at random: change_texts COUNT SEED FOLDER FILE...
//
// Each FILE is a tokenizer.json; FOLDER is that of a language model, whose llm.json changes, too, or else any for the
// changed files. Prints how many calls came to each code. Anything but an error or a result is a fault, which a
// sanitizer shows; the last file is then left in FOLDER.
#include <minnow/minnow_text.h>

#include <algorithm>
#include <cstdio>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace {

std::mt19937_64 generator;

size_t below(size_t count) { return count ? generator() % count : 0; }

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

// The end of the JSON value that begins at a place; values with errors in them end somewhere.
size_t end_of(const std::string& text, size_t at) {
  int depth = 0;
  bool quoted = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted && c == '\\') {
      ++at;
    } else if (c == '"') {
      quoted = !quoted;
      if (!quoted && !depth) return at + 1;
    } else if (!quoted && (c == '{' || c == '[')) {
      ++depth;
    } else if (!quoted && (c == '}' || c == ']')) {
      if (--depth <= 0) return at + (depth == 0);
    } else if (!quoted && !depth && c == ',') {
      return at;
    }
  }
  return text.size();
}

// Where some value begins.
size_t value_in(const std::string& text) {
  size_t at = below(text.size());
  while (at < text.size() && !std::strchr("{[\"", text[at]) && (at == 0 || !std::strchr(":[,", text[at - 1]))) ++at;
  return at;
}

std::string changed(std::string text, const std::vector<std::string>& sources) {
  static const std::vector<std::string> values = {"null",
                                                  "true",
                                                  "false",
                                                  "0",
                                                  "1",
                                                  "-1",
                                                  "1.5",
                                                  "1e400",
                                                  "255",
                                                  "2147483647",
                                                  "4294967296",
                                                  "99999999999999999999",
                                                  "\"\"",
                                                  "\"a\"",
                                                  "\"\\u2581\"",
                                                  "\"\\ud800\"",
                                                  "[]",
                                                  "{}",
                                                  "[[]]",
                                                  "[\"a\",1]",
                                                  "\"<0x41>\"",
                                                  "\"(a+)+$\"",
                                                  "\"[\"",
                                                  "\"\\\\X\"",
                                                  "\"\\\\K\"",
                                                  "\"\\\\p{L}*?\"",
                                                  "\"(?=a)\"",
                                                  "\"BPE\"",
                                                  "\"Unigram\"",
                                                  "\"WordPiece\"",
                                                  "\"Sequence\"",
                                                  "\"Precompiled\"",
                                                  "\"Removed\"",
                                                  "\"first\"",
                                                  "{\"type\":\"ByteLevel\"}",
                                                  "{\"type\":\"Metaspace\"}"};
  for (size_t changes = 1 + below(3); changes > 0; --changes) {
    const size_t at = below(text.size() + 1);
    switch (below(9)) {
      case 0:  // another byte
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 1:  // fewer bytes
        text.erase(at, below(40));
        break;
      case 2:  // the same bytes again
        text.insert(at, text.substr(below(text.size()), below(60)));
        break;
      case 3:  // no end
        if (below(4) == 0) text.resize(at);
        break;
      case 4:  // a digit or letter
        for (size_t i = at; i < text.size(); ++i)
          if (std::isalnum(static_cast<unsigned char>(text[i]))) {
            text[i] = "0123456789AZaz+/"[below(16)];
            break;
          }
        break;
      case 5:
      case 6: {  // a value in the place of another
        const size_t from = value_in(text);
        text.replace(from, end_of(text, from) - from, values[below(values.size())]);
        break;
      }
      default: {  // a value of another file
        const std::string& other = sources[below(sources.size())];
        const size_t begin = value_in(other), from = value_in(text);
        text.replace(from, end_of(text, from) - from, other.substr(begin, end_of(other, begin) - begin));
      }
    }
  }
  return text;
}

using Codes = std::map<minnow_code, long>;

void use(const minnow_tokenizer* tokenizer, Codes* codes) {
  static const std::vector<std::string> texts = {"",
                                                 "ab <x> abab \xE4\xB8\xAD \xC3\xA9 banana",
                                                 std::string(50, 'a'),
                                                 "I'll 123 e\xCC\x81\xE2\x80\x8D\xF0\x9F\x98\x80\r\n  ##a",
                                                 std::string("\0\xEF\xBF\xBD\xE2\x96\x81", 7),
                                                 "\xFF\xC0"};
  for (const std::string& text : texts) {
    std::vector<int32_t> ids(4 * text.size() + 64);
    size_t count = 0, size = 0;
    const minnow_code code = minnow_tokenizer_encode(tokenizer, text.data(), text.size(),
                                                     static_cast<int32_t>(below(4)), ids.data(), ids.size(), &count);
    ++(*codes)[code];
    ids.resize(code == MINNOW_OK ? count : 0);
    for (size_t i = below(4); i > 0; --i) ids.push_back(static_cast<int32_t>(below(600)) - 20);
    if (minnow_tokenizer_decode(tokenizer, ids.data(), ids.size(), nullptr, 0, &size) != MINNOW_OK) continue;
    std::string made(size, '\0');
    minnow_tokenizer_decode(tokenizer, ids.data(), ids.size(), made.data(), made.size(), &size);
    minnow_decoder* decoder = nullptr;
    if (minnow_decoder_create(tokenizer, &decoder) != MINNOW_OK) continue;
    const char* piece = nullptr;
    for (const int32_t id : ids) minnow_decoder_push(decoder, id, &piece, &size);
    minnow_decoder_finish(decoder, &piece, &size);
    minnow_decoder_free(decoder);
  }
}

void load_model(const std::string& folder, Codes* codes) {
  minnow_text* model = nullptr;
  const minnow_code code = minnow_text_load(folder.c_str(), nullptr, &model);
  ++(*codes)[code];
  if (code != MINNOW_OK) return;
  const int32_t tokens[] = {1, 2, static_cast<int32_t>(below(600))};
  minnow_text_request request = MINNOW_TEXT_REQUEST;
  request.tokens = tokens;
  request.num_tokens = 1 + below(3);
  request.max_tokens = 2;
  ++(*codes)[minnow_text_generate(model, &request, nullptr, nullptr, nullptr)];
  minnow_text_free(model);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return std::puts("usage: change_texts COUNT SEED FOLDER FILE..."), 2;
  const long count = std::atol(argv[1]);
  generator.seed(std::strtoull(argv[2], nullptr, 10));
  const std::string folder = argv[3], path = folder + "/changed.json";
  const std::string description = read(folder + "/llm.json");
  std::vector<std::string> sources;
  for (int i = 4; i < argc; ++i) sources.push_back(read(argv[i]));
  Codes codes;
  for (long i = 0; i < count; ++i) {
    if (!description.empty() && i % 20 == 0) {
      write(folder + "/llm.json", changed(description, {description}));
      load_model(folder, &codes);
      write(folder + "/llm.json", description);
      continue;
    }
    write(path, changed(sources[below(sources.size())], sources));
    minnow_tokenizer* tokenizer = nullptr;
    const minnow_code code = minnow_tokenizer_load(path.c_str(), &tokenizer);
    ++codes[code];
    if (code != MINNOW_OK) continue;
    use(tokenizer, &codes);
    minnow_tokenizer_free(tokenizer);
  }
  for (const auto& [code, times] : codes) std::printf("%d %ld\n", code, times);
  return 0;
}
