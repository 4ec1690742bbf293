// Where a store keeps the packed weights of a model: in few large blocks of the device's memory.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/core/accelerator.h"

namespace minnow {

// Many drivers round each allocation up to 2 MiB. What is taken here stays as long as the object. Any thread may call
// it.
class WeightMemory {
 public:
  using Allocate = std::function<Status(int64_t bytes, std::unique_ptr<Memory>* out)>;
  using Write = std::function<Status(const void* host, char* device, int64_t bytes)>;

  // `write` is called by one thread at a time.
  WeightMemory(Allocate allocate, Write write) : allocate_(std::move(allocate)), write_(std::move(write)) {}

  // A copy of the host's bytes, which is complete on return; aligned to 256 bytes.
  Status add(const void* host, int64_t bytes, char** out);
  int64_t bytes() const;  // of all blocks

 private:
  struct Block {
    std::unique_ptr<Memory> memory;
    int64_t used = 0;
  };

  Status take(int64_t bytes, char** out);

  const Allocate allocate_;
  const Write write_;
  mutable std::mutex mutex_;
  std::vector<Block> blocks_;
  int64_t bytes_ = 0;
};

}  // namespace minnow
