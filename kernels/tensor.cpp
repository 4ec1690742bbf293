#include "kernels/tensor.h"

namespace minnow {

std::string Shape::str() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) text += (i == 0 ? "" : ",") + std::to_string((*this)[i]);
  return text + "]";
}

const char* dtype_name(DType t) {
  static const char* const kNames[] = {"f32", "f64", "f16", "bf16", "i8",  "u8",  "i16",
                                       "u16", "i32", "u32", "i64",  "u64", "bool"};
  return kNames[static_cast<size_t>(t)];
}

}  // namespace minnow
