#include "runtime/text/answer.h"

#include <algorithm>

namespace minnow_language {

std::string Answer::push(const std::string& piece, bool last) {
  kept_ += piece;
  size_t size = kept_.size();
  for (const std::string& stop : stop_) {
    const size_t at = kept_.find(stop);
    if (at == std::string::npos) continue;
    stopped_ = true;
    size = std::min(size, at);
  }
  if (!stopped_ && !last) {
    size_t begun = 0;
    for (const std::string& stop : stop_)
      for (size_t n = std::min(stop.size() - 1, kept_.size()); n > begun; --n)
        if (kept_.compare(kept_.size() - n, n, stop, 0, n) == 0) begun = n;
    size -= begun;
  }
  std::string made = kept_.substr(0, size);
  kept_.erase(0, size);
  return made;
}

}  // namespace minnow_language
