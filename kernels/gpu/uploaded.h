// Tables that a kernel makes on the host, in the device's memory.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/gpu/device.h"

namespace minnow::gpu {

class Uploaded {
 public:
  // Never empty: an argument needs an address.
  template <typename T>
  Status make(Device& device, const std::vector<T>& elements) {
    const T none{};
    const bool empty = elements.empty();
    return device.upload(empty ? &none : elements.data(),
                         static_cast<int64_t>((empty ? 1 : elements.size()) * sizeof(T)), &memory_);
  }
  const void* data() const { return memory_->data(); }

 private:
  std::unique_ptr<Memory> memory_;
};

// Work-groups for n items of a text whose items go on to the next ones.
inline Groups groups_of(const Program& program, int64_t n) {
  return {std::min<int64_t>(groups_for(n, program.text.group), 65535)};
}

}  // namespace minnow::gpu
