#include "kernels/gpu/texts.h"

#include <algorithm>
#include <cstdlib>

namespace minnow::gpu {

const TextInfo* find_text(const std::string& name) {
  for (int i = 0; i < kNumTexts; ++i)
    if (name == kTexts[i].name) return &kTexts[i];
  return nullptr;
}

Status resolve_constants(const TextInfo& text, std::initializer_list<Constant> given, std::vector<Constant>* out,
                         std::vector<std::string>* names) {
  out->clear();
  names->clear();
  const std::string all = text.constants;
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find(' ', at), all.size()), equals = all.find('=', at);
    names->push_back(all.substr(at, equals - at));
    out->push_back({nullptr, std::atoi(all.c_str() + equals + 1)});
    at = end + 1;
  }
  for (const Constant& constant : given) {
    const auto name = std::find(names->begin(), names->end(), constant.name);
    if (name == names->end())
      return fail(Code::kInternal, "the kernel text %s has no constant %s", text.name, constant.name);
    (*out)[static_cast<size_t>(name - names->begin())].value = constant.value;
  }
  return ok();
}

}  // namespace minnow::gpu
