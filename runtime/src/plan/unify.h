// Which operands of an op are of one type, so that one of another type may be converted.
#pragma once

#include <cstdint>

namespace minnow {

struct CommonType {
  char op[20];  // here, not elsewhere: a pointer is 24 bytes more of the file, to be filled in when it is loaded
  uint32_t operands = ~uint32_t{0};  // bit i: operand i is of the common type; all bits: every operand is
  bool numbers = true;               // bool is no type for it
};

const CommonType* begin_common_types();
const CommonType* end_common_types();

}  // namespace minnow
