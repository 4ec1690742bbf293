// What a model remembers from run to run: inputs that the session feeds with what the run before gave as outputs.
#pragma once

#include <vector>

#include "runtime/src/run/executor.h"

namespace minnow {

class States {
 public:
  // The model and the account outlive it.
  States(const Model& model, MemoryAccount* account) : model_(model), account_(account) {}

  // Allocates, and begins with the numbers of the file; does nothing when that is done.
  Status begin();
  // Back to the numbers of the file.
  Status reset();
  // Other numbers, in the order of Model::states.
  Status set(const std::vector<Tensor>& tensors);

  const std::vector<Tensor>& current() const { return current_; }
  // Where the run puts the next numbers of state `i`; null when they are of another type.
  void* next(size_t i, const TensorType& type);
  // After a run that has succeeded: the next numbers are the current ones.
  void advance();

 private:
  const Model& model_;
  MemoryAccount* account_;
  std::vector<Buffer> buffers_;  // two per state: of current_, and of the next numbers
  std::vector<Tensor> current_;
};

}  // namespace minnow
