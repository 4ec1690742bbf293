// Memory that is asked for and given back often, in blocks that stay.
#pragma once

#include <functional>
#include <map>
#include <mutex>

#include "kernels/core/status.h"
#include "kernels/gpu/free_ranges.h"

namespace minnow::cuda {

// Any thread may call it.
class BlockPool {
 public:
  using Make = std::function<Status(int64_t bytes, char** out)>;
  using Drop = std::function<void(char*)>;

  // `make` and `drop` a block. Blocks of which nothing is in use are dropped, but for so many bytes that are `kept`.
  BlockPool(Make make, Drop drop, int64_t kept) : make_(std::move(make)), drop_(std::move(drop)), kept_(kept) {}
  ~BlockPool() { drop_unused(); }
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // Aligned to 256 bytes; an error is that of `make`.
  Status allocate(int64_t bytes, char** out);
  void give_back(char* address, int64_t bytes);
  void drop_unused();
  int64_t bytes() const;  // of all blocks

 private:
  struct Block {
    int64_t bytes = 0;
    gpu::FreeRanges free;
  };

  const Make make_;
  const Drop drop_;
  const int64_t kept_;
  mutable std::mutex mutex_;
  std::map<char*, Block> blocks_;
  int64_t bytes_ = 0, unused_ = 0;  // of blocks, and of those that are whole
};

}  // namespace minnow::cuda
