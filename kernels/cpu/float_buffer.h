// Memory that a kernel owns, for packed weights.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace minnow {

// Floats aligned to 64 bytes.
class FloatBuffer {
 public:
  void allocate(int64_t floats) {
    const size_t bytes = (static_cast<size_t>(floats) * sizeof(float) + 63) / 64 * 64;
    data_.reset(static_cast<float*>(std::aligned_alloc(64, bytes + 64)));
    if (data_ == nullptr) throw std::bad_alloc();
  }
  void clear() { data_.reset(); }
  bool empty() const { return data_ == nullptr; }
  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float, Free> data_;
};

}  // namespace minnow
