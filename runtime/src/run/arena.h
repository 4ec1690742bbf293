// Memory of the host for the intermediate tensors of several sessions, of which one runs at a time.
#pragma once

#include <memory>
#include <vector>

#include "runtime/src/run/executor.h"

namespace minnow {

class SharedArena {
 public:
  Turn turn;  // of all its sessions

  // Memory for stages of this depth. When it grows, it moves, and what it held is lost. `account`: of the session that
  // asks, whose limit holds; the memory is not charged to it, as it outlives the session.
  Status grow(size_t depth, int64_t bytes, Backend& host, const MemoryAccount& account);
  char* data(size_t depth) const { return memory_[depth]->data(); }
  int64_t bytes() const;

 private:
  std::vector<std::unique_ptr<Memory>> memory_;  // by depth
};

}  // namespace minnow
