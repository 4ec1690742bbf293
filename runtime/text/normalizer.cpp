#include "runtime/text/normalizer.h"

#include "runtime/text/pattern.h"
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
  static const std::map<std::string, std::function<Normalizer(const Part&)>> kinds = {
      {"Prepend", prepend}, {"Replace", replace}, {"Sequence", sequence}, {"NFC", form},
      {"NFD", form},        {"NFKC", form},       {"NFKD", form}};
  return read_kind<Normalizer>(part, "normalizer", kinds);
}

}  // namespace minnow_language
