// Memory that a kernel owns, for packed weights.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <memory>
#include <new>

namespace minnow {

// Floats aligned to 64 bytes.
class FloatBuffer {
 public:
  void allocate(int64_t floats) {
    const size_t bytes = (static_cast<size_t>(floats) * sizeof(float) + 63) / 64 * 64;
    const size_t huge = bytes / kHugePage * kHugePage;
    const std::align_val_t alignment{huge > 0 ? kHugePage : 64};
    data_ = {static_cast<float*>(::operator new(bytes + 64, alignment)), Free{alignment}};
#ifdef MADV_HUGEPAGE
    // Fewer pages to look up while weights stream by. What does not fill one stays in small pages.
    if (huge > 0) madvise(data_.get(), huge, MADV_HUGEPAGE);
#endif
  }
  void clear() { data_.reset(); }
  bool empty() const { return data_ == nullptr; }
  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
  struct Free {
    std::align_val_t alignment;
    void operator()(float* p) const { ::operator delete(p, alignment); }
  };
  std::unique_ptr<float, Free> data_{nullptr, Free{}};
};

}  // namespace minnow
