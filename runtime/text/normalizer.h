// What becomes of a text before it is split.
#pragma once

#include "runtime/text/json_part.h"

namespace minnow_language {

using Normalizer = std::function<std::string(const std::string&)>;
Normalizer read_normalizer(const Part& part);

}  // namespace minnow_language
