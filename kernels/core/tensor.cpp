#include "kernels/core/tensor.h"

#include <iterator>
#include <limits>

namespace minnow {

std::string Shape::str() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) text += (i == 0 ? "" : ",") + std::to_string((*this)[i]);
  return text + "]";
}

namespace {

int64_t product(int64_t a, int64_t b) {
  int64_t n = 0;
  return __builtin_mul_overflow(a, b, &n) ? std::numeric_limits<int64_t>::max() : n;
}

}  // namespace

int64_t Shape::count(int begin, int end) const {
  int64_t n = 1;
  for (int i = begin; i < end; ++i) n = product(n, (*this)[i]);
  return n;
}

int64_t TensorType::bytes() const { return product(shape.count(), static_cast<int64_t>(dtype_size(dtype))); }

const char* dtype_name(DType t) {
  static constexpr const char* kNames[] = {
      "f32",    "f64",    "f16",    "bf16", "i8",       "u8",         "i16",    "u16",        "i32",
      "u32",    "i64",    "u64",    "bool", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0",
      "f6e2m3", "f6e3m2", "f4e2m1", "i4",   "u4",       "i2",         "u2"};
  static_assert(std::size(kNames) == kDTypes);
  return kNames[static_cast<size_t>(t)];
}

bool dtype_of_name(const std::string& name, DType* out) {
  for (int i = 0; i < kDTypes; ++i) {
    if (name != dtype_name(static_cast<DType>(i))) continue;
    *out = static_cast<DType>(i);
    return true;
  }
  return false;
}

}  // namespace minnow
