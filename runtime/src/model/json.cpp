#include "runtime/src/model/json.h"

#include <cctype>
#include <cstdint>
#include <cstdlib>

namespace minnow {
namespace {

constexpr int kMaxDepth = 32;

class Parser {
 public:
  explicit Parser(const std::string& text) : p_(text.c_str()), end_(p_ + text.size()) {}

  bool document(Json* out) {
    if (!value(out, 0)) return false;
    space();
    return p_ == end_;
  }

 private:
  void space() {
    while (p_ < end_ && (*p_ == ' ' || *p_ == '\n' || *p_ == '\t' || *p_ == '\r')) ++p_;
  }
  bool eat(char c) {
    space();
    if (p_ == end_ || *p_ != c) return false;
    ++p_;
    return true;
  }
  bool word(const char* text, Json* out, Json::Kind kind, double number) {
    for (; *text != '\0'; ++text, ++p_)
      if (p_ == end_ || *p_ != *text) return false;
    out->kind = kind;
    out->number = number;
    return true;
  }

  bool value(Json* out, int depth) {
    space();
    if (p_ == end_ || depth > kMaxDepth) return false;
    switch (*p_) {
      case 'n':
        return word("null", out, Json::kNull, 0);
      case 't':
        return word("true", out, Json::kBool, 1);
      case 'f':
        return word("false", out, Json::kBool, 0);
      case '"':
        out->kind = Json::kString;
        return string(&out->text);
      case '[':
        return array(out, depth);
      case '{':
        return object(out, depth);
      default:
        return number(out);
    }
  }

  bool number(Json* out) {
    if (*p_ != '-' && !std::isdigit(static_cast<unsigned char>(*p_))) return false;
    char* after = nullptr;
    out->kind = Json::kNumber;
    out->number = std::strtod(p_, &after);  // the text ends with a zero byte
    if (after == p_) return false;
    p_ = after;
    return true;
  }

  bool array(Json* out, int depth) {
    ++p_;
    out->kind = Json::kArray;
    if (eat(']')) return true;
    do {
      out->items.emplace_back();
      if (!value(&out->items.back(), depth + 1)) return false;
    } while (eat(','));
    return eat(']');
  }

  bool object(Json* out, int depth) {
    ++p_;
    out->kind = Json::kObject;
    if (eat('}')) return true;
    do {
      std::string key;
      space();
      if (p_ == end_ || *p_ != '"' || !string(&key) || !eat(':') || !value(&out->members[key], depth + 1)) return false;
    } while (eat(','));
    return eat('}');
  }

  bool hex(uint32_t* out) {
    *out = 0;
    for (int i = 0; i < 4; ++i, ++p_) {
      if (p_ == end_ || !std::isxdigit(static_cast<unsigned char>(*p_))) return false;
      const char c = static_cast<char>(std::tolower(*p_));
      *out = *out * 16 + static_cast<uint32_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return true;
  }

  static void append_utf8(uint32_t c, std::string* out) {
    const auto byte = [&](uint32_t b) { out->push_back(static_cast<char>(b)); };
    if (c < 0x80) {
      byte(c);
    } else if (c < 0x800) {
      byte(0xC0 | c >> 6), byte(0x80 | (c & 63));
    } else if (c < 0x10000) {
      byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63));
    } else {
      byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 63)), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63));
    }
  }

  bool string(std::string* out) {
    ++p_;
    while (p_ < end_ && *p_ != '"') {
      if (*p_ != '\\') {
        out->push_back(*p_++);
        continue;
      }
      if (++p_ == end_) return false;
      const char c = *p_++;
      static constexpr char kFrom[] = "\"\\/bfnrt", kTo[] = "\"\\/\b\f\n\r\t";
      size_t i = 0;
      while (i < sizeof kFrom - 1 && kFrom[i] != c) ++i;
      if (i < sizeof kFrom - 1) {
        out->push_back(kTo[i]);
        continue;
      }
      uint32_t code = 0, low = 0;
      if (c != 'u' || !hex(&code)) return false;
      if (code >= 0xD800 && code < 0xDC00) {  // the first half of a pair
        if (end_ - p_ < 2 || p_[0] != '\\' || p_[1] != 'u') return false;
        p_ += 2;
        if (!hex(&low) || low < 0xDC00 || low > 0xDFFF) return false;
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      }
      append_utf8(code, out);
    }
    if (p_ == end_) return false;
    ++p_;
    return true;
  }

  const char* p_;
  const char* end_;
};

}  // namespace

bool parse_json(const std::string& text, Json* out) { return Parser(text).document(out); }

}  // namespace minnow
