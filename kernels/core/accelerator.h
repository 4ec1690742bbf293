// A device beside the CPU, as far as all kernels may know it. What its own kernels know beyond that is in the class
// that each kind of device derives (kernels/gpu/device.h).
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/core/status.h"

namespace minnow {

// One allocation of a device; freed with the object. The host reads and writes it only where the device is the CPU.
class Memory {
 public:
  virtual ~Memory() = default;
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  char* data() const { return data_; }  // an address of the device; aligned to kAlignment
  int64_t bytes() const { return bytes_; }

 protected:
  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

// What a queue has recorded, to be run again as a whole: a CUDA graph, a Vulkan command buffer. It holds for the memory
// and the shapes that it was recorded with, and is dropped when one of them changes.
class Recording {
 public:
  virtual ~Recording() = default;
  // Enqueues it.
  virtual Status replay() = 0;
};

class Accelerator {
 public:
  virtual ~Accelerator() = default;
  // Memory with a copy of the host's bytes, which is complete on return. Any thread may call it.
  virtual Status upload(const void* host, int64_t bytes, std::unique_ptr<Memory>* out) = 0;
};

}  // namespace minnow
