// Numbers that describe a computation, such as sizes.
#pragma once

#include <cstdint>

#include "kernels/core/tensor.h"

namespace minnow {

// The elements of an i32 or i64 tensor as int64 numbers.
class IntView {
 public:
  explicit IntView(const Tensor& t) : data_(t.data), count_(t.count()), wide_(t.type.dtype == DType::kI64) {}
  int64_t operator[](int64_t i) const {
    return wide_ ? static_cast<const int64_t*>(data_)[i] : static_cast<const int32_t*>(data_)[i];
  }
  int64_t size() const { return count_; }

 private:
  const void* data_;
  int64_t count_;
  bool wide_;
};

}  // namespace minnow
